"""Streams for pages: that something has moved on, never what happened; a page then asks for its part anew.

The cookie of the sign-in opens them, from pages of this site alone, and each heartbeat asks whether it still counts. `at`
says up to where a part has to be, as names and numbers: `seq:12` of a session, `3:40` of a partition of the log.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

from fastapi import APIRouter, Depends, Header, Query, Request

from ....events.errors import Transient
from ....events.log.protocol import LogFault
from ....projections.tokens import token_of
from ..live.framing import data_of, frame
from ..live.of_session import SessionStream
from ..live.of_tenant import TenantStream, checked
from ..live.response import EventStream
from ..live.subscriptions import Told, Wanted
from ..problems import Problem
from ..streaming import known_of, number_of
from ..viewing import TOKEN_LENGTH_MAX
from .visits import Looking, SignInFirst, Visit, from_here, visit_of

router = APIRouter()

APPROVALS = frozenset(
    {
        *("ApprovalRequested", "ApprovalVoted", "ApprovalGranted", "ApprovalRejected"),
        *("ApprovalAnswered", "ApprovalExpired", "ApprovalVoided", "ApprovalWithdrawn"),
    }
)
"""Events that change the list of approvals."""

LastEventId = Annotated[str | None, Header(alias="Last-Event-ID", max_length=TOKEN_LENGTH_MAX)]
After = Annotated[str, Query(max_length=TOKEN_LENGTH_MAX)]


class PageStream(SessionStream):
    """Of one session: that it has more events, tokens of what it runs, and its end."""

    def _frame(self, one: Told) -> bytes:
        seq = one.event.envelope.seq
        return frame("moved", data_of({"at": f"seq:{seq}"}), str(seq))


class ListStream(TenantStream):
    """Of a tenant: that there are more events of the kinds that change a list."""

    def _frame(self, one: Told, position: str) -> bytes:
        at = token_of({one.place: one.offset + 1})
        return frame("moved", data_of({"at": at}), position)


def page_stream(
    request: Request,
    visit: Looking,
    session_id: str,
    last_event_id: LastEventId = None,
    after: After = "",
) -> PageStream:
    """A dependency, so that what it waits for holds up no other stream."""
    from_here(request)
    number = number_of(last_event_id or after)
    shared, who = visit.services, visit.principal
    known = known_of(shared, who, session_id, number)
    shared.live.check(who.tenant)
    session = who.tenant, session_id
    return PageStream(
        shared.live, session, known, after=number, check=_still_signed_in(request, visit)
    )


def list_stream(
    request: Request, visit: Looking, last_event_id: LastEventId = None, after: After = ""
) -> ListStream:
    """The same for the approvals of the tenant."""
    from_here(request)
    shared, tenant = visit.services, visit.principal.tenant
    shared.live.check(tenant)
    try:
        started = checked(shared.log, shared.topics, last_event_id or after)
    except LogFault as fault:
        raise Transient(f"the log does not answer ({fault}): try again") from fault
    wanted = Wanted(tenant, None, APPROVALS)
    return ListStream(shared.live, wanted, after=started, check=_still_signed_in(request, visit))


@router.get("/stream/sessions/{session_id}", response_class=EventStream, status_code=200)
async def of_session(stream: Annotated[PageStream, Depends(page_stream)]) -> EventStream:
    """That this session has moved on, from `Last-Event-ID` or `after` on."""
    return EventStream(stream)


@router.get("/stream/approvals", response_class=EventStream, status_code=200)
async def of_approvals(stream: Annotated[ListStream, Depends(list_stream)]) -> EventStream:
    """That the list of approvals has moved on, from the position in `Last-Event-ID` or `after` on."""
    return EventStream(stream)


def _still_signed_in(request: Request, visit: Visit) -> Callable[[], None]:
    """What a stream asks at each heartbeat: `Problem` 401 where the sign-in is over, or another's by now."""
    was = visit.principal

    def check() -> None:
        try:
            now = visit_of(request).principal
        except SignInFirst:
            raise Problem(401, "unauthenticated", "the sign-in is over") from None
        if (now.tenant, now.actor) != (was.tenant, was.actor):
            raise Problem(401, "unauthenticated", "the sign-in is somebody else's by now")

    return check
