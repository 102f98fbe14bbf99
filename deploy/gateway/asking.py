"""What every endpoint asks for: the services, and an authenticated principal that may do this."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, cast

from fastapi import Depends, Request

from .principals import May, Principal
from .services import Services


def services_of(request: Request) -> Services:
    """Those of the application that answers."""
    return cast("Services", request.app.state.services)


def principal_of(request: Request) -> Principal:
    """Who asks; `Problem` 401 where nobody knows."""
    authorization = request.headers.get("authorization")
    return services_of(request).authenticator.principal(authorization)


def who_may(permission: May) -> Callable[[Principal], Principal]:
    """A dependency: the principal, once it is known to have this permission."""

    def permitted(principal: Annotated[Principal, Depends(principal_of)]) -> Principal:
        principal.require(permission)
        return principal

    return permitted


Shared = Annotated[Services, Depends(services_of)]
Viewer = Annotated[Principal, Depends(who_may(May.SEE))]
Asker = Annotated[Principal, Depends(who_may(May.ASK))]
Approver = Annotated[Principal, Depends(who_may(May.DECIDE))]
Deliverer = Annotated[Principal, Depends(who_may(May.DELIVER))]
Operator = Annotated[Principal, Depends(who_may(May.OPERATE))]
