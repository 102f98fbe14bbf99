"""Live: what is committed, as it is committed, as server-sent events."""

from __future__ import annotations

from functools import partial
from typing import Annotated, get_args

from fastapi import APIRouter, Depends, Header, Query, Request

from ...events.errors import Transient
from ...events.keys import check_id
from ...events.log.protocol import LogFault, Place
from ...events.records import EventBody
from ..telling.stretches import STRETCHES_MAX
from .asking import Shared, Viewer, principal_of, takes
from .live.of_session import Known, SessionStream
from .live.of_tenant import TenantStream, checked
from .live.response import EventStream
from .live.subscriptions import Wanted
from .principals import May, Principal
from .problems import Problem
from .reads import session_row
from .services import Services

router = APIRouter(prefix="/v1", tags=["live"])

ACTIVITIES_MAX = 1_000

FILTERS_MAX = 50

EVENTS = tuple(sorted(kind.__name__ for kind in get_args(EventBody)))
"""The kinds that there are."""

LastEventId = Annotated[str | None, Header(alias="Last-Event-ID", max_length=500)]
Names = Annotated[list[str], Query(max_length=FILTERS_MAX)]


def session_stream(
    session_id: str,
    shared: Shared,
    viewer: Viewer,
    request: Request,
    last_event_id: LastEventId = None,
    after: Annotated[str | None, Query(max_length=500)] = None,
) -> SessionStream:
    """A dependency, so that what it waits for holds up no other stream: the stream of a session that is there."""
    number = number_of(last_event_id or after)
    known = known_of(shared, viewer, session_id, number)
    shared.live.check(viewer.tenant)
    return SessionStream(
        shared.live,
        (viewer.tenant, session_id),
        known,
        after=number,
        check=partial(_check_still, request, viewer),
    )


def tenant_stream(
    shared: Shared,
    viewer: Viewer,
    request: Request,
    kind: Names = [],  # noqa: B006 as FastAPI declares a default; never changed
    session_id: Names = [],  # noqa: B006 the same
    last_event_id: LastEventId = None,
    after: Annotated[str | None, Query(max_length=500)] = None,
) -> TenantStream:
    """The same for all sessions of the tenant, of these kinds of events and of these sessions where any are named."""
    shared.live.check(viewer.tenant)
    unknown = [name for name in kind if name not in EVENTS]
    if unknown:
        told = f"kind {unknown[0][:200]!a} is none: {', '.join(EVENTS)}"
        raise Problem(422, "invalid_request", told)
    for one in session_id:
        check_id("session id", one)
    wanted = Wanted(viewer.tenant, None, frozenset(kind), frozenset(session_id))
    position = last_event_id or after  # one that is empty is that of views that have nothing yet
    started: dict[Place, int] | None = None
    if position is not None:
        try:
            started = checked(shared.log, shared.topics, position)
        except LogFault as fault:
            raise Transient(f"the log does not answer ({fault}): try again") from fault
    return TenantStream(
        shared.live, wanted, after=started, check=partial(_check_still, request, viewer)
    )


@router.get(
    "/sessions/{session_id}/stream",
    response_class=EventStream,
    status_code=200,
    dependencies=[Depends(takes("after"))],
)
async def of_session(stream: Annotated[SessionStream, Depends(session_stream)]) -> EventStream:
    """Each event of the session, and the tokens of what it runs, as they come; from `Last-Event-ID` or `after` on."""
    return EventStream(stream)


@router.get(
    "/stream",
    response_class=EventStream,
    status_code=200,
    dependencies=[Depends(takes("after", many=("kind", "session_id")))],
)
async def of_tenant(stream: Annotated[TenantStream, Depends(tenant_stream)]) -> EventStream:
    """Events of all sessions, from now on or from the position in `Last-Event-ID` or `after`; filtered by `kind` and `session_id`."""
    return EventStream(stream)


def number_of(given: str | None) -> int:
    """The event that a client had last; `Problem` 422 for what is no number of one."""
    if not given:
        return 0
    if not (given.isascii() and given.isdigit() and len(given) <= 15):
        raise Problem(
            422,
            "invalid_request",
            f"event id {given!r}: expected the number of an event of this session, as in 'id:' of its stream",
        )
    return int(given)


def known_of(shared: Services, viewer: Principal, session_id: str, after: int) -> Known:
    """What the views say of a session, for a stream of what came behind this event; `Problem` 404 where it is none."""
    tenant = viewer.tenant
    with shared.queries(viewer) as views:
        row = session_row(views, session_id, tenant)
        behind = max(0, min(after, row["seq"] - 1))
        lie = views.stretches(session_id, tenant=tenant, behind_seq=behind, limit=STRETCHES_MAX)
        newest = lie
        if len(lie) == STRETCHES_MAX:  # the rest is read as one, with what lies between
            newest = views.stretches(session_id, tenant=tenant, behind_seq=row["seq"] - 1, limit=1)
            lie[-1] = {**lie[-1], "last_offset": newest[-1]["last_offset"]}
        running = views.activities(tenant=tenant, session_id=session_id, limit=ACTIVITIES_MAX)
        stands = session_row(views, session_id, tenant)
    return Known(
        seq=newest[-1]["last_seq"] if newest else row["seq"],
        status=str(stands["status"]),
        status_seq=stands["seq"],
        stretches=[(one["first_offset"], one["last_offset"]) for one in lie],
        running={one["activity_id"]: one["attempts"] for one in running},
    )


def _check_still(request: Request, viewer: Principal) -> None:
    """Whether whoever opened the stream may still listen: keys are revoked, and tokens expire."""
    now = principal_of(request)
    now.require(May.SEE)
    if (now.tenant, now.actor) != (viewer.tenant, viewer.actor):
        raise Problem(401, "unauthenticated", "the credentials speak for somebody else by now")
