"""Sessions without progress: what a watcher proposes about them, and nothing more. Pure: no clock, no I/O.

The engine ends what is overdue by itself: a session's own deadlines lie in its log, and its processor wakes for them. So
a row that is late by minutes means that something does not do what it should. A held session is no stall: it is told
elsewhere, and waits for an operator.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .sessions import RUNNING, WAITING, Row

PROPOSES = "RecoverSession"
"""The command that a proposal speaks of. A watcher never sends it: whoever may, decides."""

ACTIVITY, SESSION = "activity", "session"

Proposal = dict[str, Any]


def proposals(row: Row, now_ms: int, stalled_after_ms: int) -> Iterator[Proposal]:
    """What is proposed for this session now: one for each stalled activity, or one for the session."""
    if row["state"] not in (RUNNING, WAITING):
        return
    overdue = [
        (activity_id, name, due_ms)
        for activity_id, (name, _, due_ms) in sorted(row["open"].items())
        if due_ms is not None and now_ms - due_ms > stalled_after_ms
    ]
    for activity_id, name, due_ms in overdue:
        why = f"{name} ({activity_id}) was due and has not ended"
        yield _proposal(row, ACTIVITY, activity_id, due_ms, why)
    if overdue:
        return
    if row["state"] == WAITING and _late(row["due_ms"], now_ms, stalled_after_ms):
        yield _proposal(
            row, SESSION, "", row["due_ms"], "what it waits for has expired, and nothing came of it"
        )
    elif (
        row["state"] == RUNNING
        and not row["open"]
        and _late(row["at_ms"], now_ms, stalled_after_ms)
    ):
        yield _proposal(
            row, SESSION, "", row["at_ms"], "its turn runs, waits for nothing, and does not go on"
        )


def _late(since_ms: int | None, now_ms: int, stalled_after_ms: int) -> bool:
    return since_ms is not None and now_ms - since_ms > stalled_after_ms


def _proposal(row: Row, kind: str, activity_id: str, since_ms: int, why: str) -> Proposal:
    return {
        "proposes": PROPOSES,
        "kind": kind,
        "tenant": row["tenant"],
        "session_id": row["session_id"],
        "activity_id": activity_id,
        "workflow": row["workflow"],
        "version": row["version"],
        "since_ms": since_ms,
        "why": why,
        "position": row["position"],
    }
