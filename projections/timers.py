"""What facts about timers mean for their rows: one each, from when it was set to how it ended."""

from __future__ import annotations

from ..events import records as r
from .rows import TIMERS, Change
from .values import Values

Timed = r.TimerSet | r.TimerFired | r.TimerCancelled


def record(envelope: r.Envelope, body: Timed) -> Change:
    """The change of the timer's row."""
    timer = Values(envelope, body.timer_id)
    row = timer.row
    match body:
        case r.TimerSet():
            row.update(
                turn=body.turn,
                step=body.step,
                status="set",
                set_at_ms=envelope.at_ms,
                due_ms=body.due_ms,
            )
            return timer.change(TIMERS, creates=True)
        case r.TimerFired():
            row.update(status="fired", ended_at_ms=envelope.at_ms)
        case r.TimerCancelled():
            row.update(status="cancelled", ended_at_ms=envelope.at_ms)
    return timer.change(TIMERS)
