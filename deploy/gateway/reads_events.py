"""A session's events in pages, read from the log where the views say that they lie."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query
from pydantic import Field

from ...events.keys import session_key
from ...projections.pages import WrongCursor
from ..telling.stretches import STRETCHES_MAX, events_behind, place_of
from ..telling.words import event_json
from .asking import Shared, Viewer
from .problems import Problem
from .reads import session_row
from .viewing import EACH_ONCE, PageAsked, Signing, Views

router = APIRouter(prefix="/v1", tags=["queries"], dependencies=EACH_ONCE)


class EventsAsked(PageAsked):
    """Which of its events: those behind this number, or behind a page."""

    after_seq: Annotated[int, Field(ge=0, lt=1 << 62)] = 0


@router.get("/sessions/{session_id}/events")
def events(
    session_id: str,
    asked: Annotated[EventsAsked, Query()],
    views: Views,
    viewer: Viewer,
    shared: Shared,
    cursors: Signing,
) -> dict[str, Any]:
    """The session's events in their order, as far as the views have them."""
    stands = session_row(views, session_id, viewer.tenant)
    of = (viewer.tenant, "events", session_id)
    behind_seq, behind_offset = asked.after_seq, -1
    if asked.cursor is not None:
        try:
            behind_seq, behind_offset = map(int, cursors.behind(asked.cursor, *of))
        except WrongCursor as error:
            raise Problem(422, "wrong_cursor", error.message) from error
    place = place_of(shared.log, shared.topics.events, viewer.tenant, session_id)

    def find(seq: int) -> list[dict[str, Any]]:
        return views.stretches(
            session_id, tenant=viewer.tenant, behind_seq=seq, limit=STRETCHES_MAX
        )

    with shared.readers.lent() as reader:
        found = events_behind(
            reader,
            place,
            session_key(viewer.tenant, session_id),
            find,
            behind_seq=behind_seq,
            behind_offset=behind_offset,
            limit=asked.limit,
        )
    more = bool(found) and found[-1][0].envelope.seq < stands["seq"]
    next_cursor = None
    if more:
        event, record = found[-1]
        next_cursor = cursors.cursor([event.envelope.seq, record.offset], *of)
    rows = [event_json(e, partition=r.partition, offset=r.offset) for e, r in found]
    return {"rows": rows, "next_cursor": next_cursor}
