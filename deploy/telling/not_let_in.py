"""A session's dead letters, as `explain` tells them: what was not let in, why, and the way out where somebody waits for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...commands import models as m
from ...commands.wire import decode_command
from ...events.errors import Undecodable
from ...events.headers import dead_letter_in
from ...events.log.protocol import Record
from ...events.state import State
from .dealing import id_of
from .vouching import why_not_vouched

SHOWN_MAX = 10
"""Letters that are told one by one: those that are waited for, then the newest."""


def not_let_in(letters: Sequence[Record], state: State | None) -> list[dict[str, Any]]:
    """One object for each letter; `awaited` where its attempt is still waited for, so that only it or a deadline ends that."""
    awaited = {} if state is None else {a.activity_id: a.attempt for a in state.activities}
    return [_told(record, awaited) for record in letters]


def _told(record: Record, awaited: Mapping[str, int]) -> dict[str, Any]:
    cause = dead_letter_in(record.headers)
    told: dict[str, Any] = {
        "id": id_of(record),
        "at_ms": record.timestamp_ms,
        "reason": cause.reason if cause else "unknown",
        "detail": cause.detail if cause else "",
        "what": "a record that cannot be read",
        "awaited": False,
        "way_out": f"wakeful dlq show {id_of(record)}",
    }
    try:
        command = decode_command(record.value, record.headers)
    except Undecodable:
        return told
    body, by = command.body, command.header.actor
    told["what"] = f"a {type(body).__name__} of {by}"
    if isinstance(body, m.CompleteActivity | m.FailActivity | m.ReturnActivity):
        told["what"] += f" about {body.activity_id}, attempt {body.attempt}"
        told["awaited"] = awaited.get(body.activity_id) == body.attempt
        if told["awaited"] and not why_not_vouched(record):
            told["way_out"] = (
                f"nobody calls again before the deadline: look at it with 'wakeful dlq show {id_of(record)}', and if it is "
                f"genuine let it in with 'wakeful dlq redrive {id_of(record)} --vouch'"
            )
    return told
