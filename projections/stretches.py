"""Where the events of a session lie in their partition, so that they can be read without all that lies between them.

A stretch is a run of a session's events in which each lies at most `APART` offsets behind the one before. The newest
stretch is in the session's own row, and costs nothing beside it; only when an event lies further away is the one
before stored as a row. So what is read for a session is at most `APART` times as much as it has events.
"""

from __future__ import annotations

from ..events.log.protocol import Record
from .rows import STRETCHES, TABLES, Row

APART = 1_000
"""Offsets between two events of one stretch: about what one poll brings."""


def extend(session: Row, record: Record) -> Row | None:
    """Notes in the session's row where its event lies, whose `seq` the row has; the stretch that ends by it, as a row."""
    before, offset = session["event_offset"], record.offset
    session["event_offset"] = offset
    if before >= 0 and offset - before <= APART:
        return None
    ended = None if before < 0 else _ended(session, before)
    session["stretch_seq"], session["stretch_offset"] = session["seq"], offset
    return ended


def _ended(session: Row, last_offset: int) -> Row:
    row = TABLES[STRETCHES].blank(
        (session["tenant"], session["session_id"], session["stretch_seq"])
    )
    row.update(
        first_offset=session["stretch_offset"], last_offset=last_offset, seq=session["seq"] - 1
    )
    return row
