"""What queries have in common: the views as their tenant is shown them, at a position where one is named, and pages.

An answer says in `Wakeful-Position` up to where the log was in the views; who gives that back, or the position that came
with a command's verdict, as `at` or in the same header, is answered once the views are there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any

from fastapi import Depends, Query, Request, Response
from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, StringConstraints

from ...events.errors import InvalidKey, Transient
from ...projections.listings import Listing, NotOffered, Wanted
from ...projections.pages import CURSOR_LENGTH_MAX, LIMIT_MAX, Cursors, Page, WrongCursor, page
from ...projections.queries import Queries
from ...projections.tokens import positions_of
from .asking import Shared, Viewer, check_once
from .problems import Problem
from .services import Services

POSITION = "Wakeful-Position"

WAIT_MS = 5_000
"""How long a query waits for the views to reach a position."""

TOKEN_LENGTH_MAX = 8_192

Text = Annotated[str, StringConstraints(min_length=1, max_length=256, pattern=r"^[^\x00]+$")]
"""A value to look for; Postgres knows no text with a NUL."""


def _each_once(request: Request) -> None:
    check_once(request, ("attribute",), "attribute.")


EACH_ONCE = [Depends(_each_once)]
"""For the routers of queries: no parameter is given twice, but those that look for attributes."""


class Asked(BaseModel):
    """What every query takes; a parameter that is not known is refused, not passed over."""

    model_config = ConfigDict(extra="forbid")

    at: Annotated[
        str | None, Field(max_length=TOKEN_LENGTH_MAX, description="A position to wait for.")
    ] = None


class PageAsked(Asked):
    """What every list takes besides its filters."""

    limit: Annotated[int, Field(ge=1, le=LIMIT_MAX)] = 50
    cursor: Annotated[str | None, Field(max_length=CURSOR_LENGTH_MAX)] = None

    def wanted(self) -> dict[str, str | int]:
        """The filters that are set, by name; times in milliseconds."""
        given = self.model_dump(exclude={"at", "limit", "cursor"}, exclude_none=True)
        return {name: _plain(value) for name, value in given.items()}


def _plain(value: Any) -> str | int:
    if hasattr(value, "timestamp"):
        return max(0, int(value.timestamp() * 1000))
    return value if isinstance(value, int) and not isinstance(value, bool) else str(value)


Time = AwareDatetime | None


def views_of(
    request: Request, response: Response, shared: Shared, viewer: Viewer
) -> Iterator[Queries]:
    """The views for one request, once they are at the position that it names; `Problem` 503 where that takes too long."""
    token = request.query_params.get("at") or request.headers.get(POSITION) or ""
    wanted = _wanted(shared, token[: TOKEN_LENGTH_MAX + 1])
    with shared.queries(viewer) as views:
        if wanted:
            try:
                views.wait_for(wanted, timeout_ms=WAIT_MS)
            except Transient as late:
                raise Problem(
                    503, "not_reached", f"{late}; ask again", headers={"Retry-After": "1"}
                ) from late
        response.headers[POSITION] = views.position()
        yield views


Views = Annotated[Queries, Depends(views_of)]
Plain = Annotated[Asked, Query()]


def _wanted(shared: Services, token: str) -> Mapping[Any, int]:
    try:
        wanted = positions_of(shared.topics.events, token)
    except InvalidKey as error:
        raise Problem(422, "wrong_position", error.message) from error
    most = shared.log.partitions(shared.topics.events) if wanted else 0
    beyond = [place.partition for place in wanted if place.partition >= most]
    if beyond:
        raise Problem(
            422,
            "wrong_position",
            f"position {token[:60]!r} names partition {beyond[0]}, and there are {most}: take one from an answer's "
            f"{POSITION}",
        )
    return wanted


def cursors_of(shared: Shared) -> Cursors:
    """Cursors that any gateway with the same digest key takes."""
    return Cursors(shared.settings.digest_key)


Signing = Annotated[Cursors, Depends(cursors_of)]


def found(
    views: Queries, cursors: Cursors, listing: Listing, wanted: Wanted, asked: PageAsked
) -> dict[str, Any]:
    """One page as it is told: `rows`, and `next_cursor`, null on the last page."""
    told = page_of(views, cursors, listing, wanted, limit=asked.limit, cursor=asked.cursor)
    return {"rows": told.rows, "next_cursor": told.next_cursor}


def page_of(
    views: Queries,
    cursors: Cursors,
    listing: Listing,
    wanted: Wanted,
    *,
    limit: int,
    cursor: str | None,
) -> Page:
    """One page; `Problem` where it is not offered, or the cursor is another's."""
    try:
        return page(views, cursors, listing, wanted, limit=limit, cursor=cursor)
    except WrongCursor as error:
        raise Problem(422, "wrong_cursor", error.message) from error
    except NotOffered as error:
        raise Problem(422, "not_offered", error.message) from error
