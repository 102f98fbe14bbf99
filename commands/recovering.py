"""What follows where somebody has seen that work stalled: an attempt is given up, or the session goes on again.

The engine ends by itself what its log's clock owes. This is for what no clock tells: a worker that beats and does nothing,
or a session that should go on and does not. A trigger names the attempt that it saw, so a repeat, or one that comes late,
gives nothing up that runs.
"""

from __future__ import annotations

from ..events import records as r
from ..events.recovering import QUARANTINED, RECOVERIES_MAX, is_stalled
from ..events.state import OpenActivity, State
from . import models as m


def why_not(state: State, body: m.RecoverSession) -> tuple[str, str] | None:
    """The reason and the sentence of a trigger that has nothing to recover; null where it has."""
    if state.hold is not None:
        return "held", f"the session is held ({state.hold.reason}): mend it, then release it"
    if body.activity_id:
        return _attempt_why_not(state, body)
    if is_stalled(state):
        return None
    return "not_stalled", f"{_under_way(state)}: there is nothing to recover"


def running(state: State) -> tuple[OpenActivity, ...]:
    """The activities whose newest attempt may be given up: it was dispatched, and nothing has come of it yet."""
    if state.hold is not None or state.ended:
        return ()
    return tuple(a for a in state.activities if a.runs(a.attempt))


def session_recovered(state: State, body: m.RecoverSession) -> list[r.EventBody]:
    """The trigger about the session; once there were too many in the stretch, it is held."""
    asked = r.RecoveryRequested(body.activity_id, body.attempt, body.reason)
    if state.recoveries < RECOVERIES_MAX:
        return [asked]
    told = (
        f"it was recovered {RECOVERIES_MAX} times and did not go on ({body.reason or 'no reason given'}): "
        "look at what its workflow does, mend it and deploy, then release"
    )
    return [asked, r.SessionHeld(QUARANTINED, told)]


def _attempt_why_not(state: State, body: m.RecoverSession) -> tuple[str, str] | None:
    running = next((a for a in state.activities if a.activity_id == body.activity_id), None)
    if running is not None and running.runs(body.attempt):
        return None
    told = f"attempt {body.attempt} of activity {body.activity_id!r} does not run"
    return "not_stalled", f"{told} ({_instead(state, running)}): there is nothing to recover"


def _instead(state: State, running: OpenActivity | None) -> str:
    if running is None:
        open_ids = ", ".join(f"{a.activity_id} attempt {a.attempt}" for a in state.activities)
        return f"running: {open_ids or 'none'}"
    if running.withheld_ms is not None:
        return "it waits for approval"
    if running.retry_due_ms is not None:
        return f"attempt {running.attempt + 1} is scheduled"
    return f"attempt {running.attempt} does"


def _under_way(state: State) -> str:
    if state.activities:
        running = ", ".join(f"{a.activity_id} attempt {a.attempt}" for a in state.activities)
        return (
            f"activities are under way ({running}): name the one that has stalled; for the session"
        )
    if state.undoing is not None:
        return "it takes back what it did"
    return f"the session is {state.status.lower()}" + (" and waits" if state.waits else "")
