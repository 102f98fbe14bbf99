"""What every endpoint asks for: the services, and an authenticated principal that may do this."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Annotated, cast

from fastapi import Depends, Request

from .principals import May, Principal
from .problems import Problem
from .services import Services

SHOWN_MAX = 80
"""Characters of a stranger's word in a sentence."""


def services_of(request: Request) -> Services:
    """Those of the application that answers."""
    return cast("Services", request.app.state.services)


def principal_of(request: Request) -> Principal:
    """Who asks; `Problem` 401 where nobody knows, 400 where two are named: a proxy may have looked at the other."""
    given = request.headers.getlist("authorization")
    if len(given) > 1:
        told = "the header authorization is given twice: give it once"
        raise Problem(400, "invalid_header", told)
    return services_of(request).authenticator.principal(given[0] if given else None)


def who_may(permission: May) -> Callable[[Principal], Principal]:
    """A dependency: the principal, once it is known to have this permission."""

    def permitted(principal: Annotated[Principal, Depends(principal_of)]) -> Principal:
        principal.require(permission)
        return principal

    return permitted


def takes(*once: str, many: tuple[str, ...] = ()) -> Callable[[Request], None]:
    """A dependency: `Problem` 422 for a parameter of the query that is not one of these, or is given twice and may not be."""

    def checked(request: Request) -> None:
        check_query(request, once, many)

    return checked


def check_query(request: Request, once: Iterable[str], many: Iterable[str] = ()) -> None:
    """See `takes`."""
    known = (*once, *many)
    for name in request.query_params:
        if name not in known:
            told = (
                f"nothing is called {name[:SHOWN_MAX]!a} here: {', '.join(known) or 'leave it out'}"
            )
            raise Problem(422, "invalid_request", told)
    check_once(request, many)


def check_once(request: Request, many: Iterable[str] = (), prefix: str | None = None) -> None:
    """`Problem` 422 for a parameter that is given twice, unless it is one of `many` or begins so: no one of both is taken."""
    for name in request.query_params:
        values = request.query_params.getlist(name)
        if len(values) > 1 and name not in many and not (prefix and name.startswith(prefix)):
            shown = " and ".join(f"{value[:SHOWN_MAX]!a}" for value in values[:2])
            raise Problem(
                422, "invalid_request", f"{name[:SHOWN_MAX]!a} is given twice, as {shown}: give one"
            )


def follower_of(principal: Annotated[Principal, Depends(principal_of)]) -> Principal:
    """Who may ask what became of commands: all for whoever sees sessions; whoever only delivers, of its own."""
    if May.DELIVER not in principal.permissions:
        principal.require(May.SEE)
    return principal


Shared = Annotated[Services, Depends(services_of)]
Viewer = Annotated[Principal, Depends(who_may(May.SEE))]
Asker = Annotated[Principal, Depends(who_may(May.ASK))]
Approver = Annotated[Principal, Depends(who_may(May.DECIDE))]
Deliverer = Annotated[Principal, Depends(who_may(May.DELIVER))]
Follower = Annotated[Principal, Depends(follower_of)]
Operator = Annotated[Principal, Depends(who_may(May.OPERATE))]
