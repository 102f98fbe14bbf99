"""What a watcher remembers of a session: enough to say which tool an event is of, and whether the session goes on.

A row is JSON, since it lies in a topic that Faust keeps. Pure: no clock, no I/O.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...events import records as r
from ...events.holding import RESOURCE
from ...events.transitions import MOVERS
from .prices import Prices
from .spending import spent_by
from .windows import NO_TOOL, Counted

Row = dict[str, Any]

RUNNING, WAITING, RESTING, HELD = "running", "waiting", "resting", "held"

AT_REST = (
    r.TurnCompleted,
    r.SessionCompleted,
    r.SessionFailed,
    r.SessionCancelled,
    r.SessionReset,
)
ENDED_ACTIVITY = (
    *(r.ActivityCompleted, r.ActivityFailed, r.ActivityUncertain, r.ActivityCancelled),
    r.ActivityResolved,
)
COMES_IN = (r.MessageReceived, r.TriggerReceived, r.SignalReceived)


def new_row(event: r.Event) -> Row:
    """Of a session that was not met before."""
    envelope = event.envelope
    return {
        "position": -1,
        "tenant": envelope.tenant,
        "session_id": envelope.session_id,
        "workflow": "",
        "version": 0,
        "state": RESTING,
        "held_from": RESTING,
        "at_ms": envelope.at_ms,
        "due_ms": None,
        "open": {},
    }


def after(row: Row, event: r.Event, offset: int) -> Row:
    """The row once this event has happened."""
    body, at_ms = event.body, event.envelope.at_ms
    new: Row = {**row, "position": offset, "at_ms": at_ms, "open": dict(row["open"])}
    match body:
        case r.SessionOpened():
            new["workflow"] = body.workflow
        case r.TurnStarted():
            new.update(workflow=body.workflow, version=body.workflow_version, open={})
            new.update(state=RUNNING, due_ms=None)
        case r.ActivityRequested():
            new["open"][body.activity_id] = [body.name, at_ms, _deadline(body)]
        case r.ActivityRetried() | r.ActivityReturned() if body.activity_id in new["open"]:
            name, since_ms, due_ms = new["open"][body.activity_id]
            new["open"][body.activity_id] = [name, since_ms, _deadline_now(body, due_ms)]
        case _:
            pass
    if isinstance(body, ENDED_ACTIVITY):
        new["open"].pop(body.activity_id, None)
    new.update(_standing(new, body))
    return new


def _deadline(body: r.ActivityRequested) -> int | None:
    """Withheld ones have no time-out yet: they wait for a gate, and then for a person."""
    return body.deadline_ms if body.withheld_ms is None else None


def _deadline_now(body: r.ActivityRetried | r.ActivityReturned, due_ms: int | None) -> int | None:
    if body.withheld_ms is not None:
        return None
    later_ms = body.deadline_ms if isinstance(body, r.ActivityRetried) else None
    return due_ms if later_ms is None else later_ms


def _standing(row: Row, body: r.EventBody) -> Row:
    """How the session stands after this fact, and until when it may be silent."""
    if isinstance(body, AT_REST):
        return {"state": RESTING, "due_ms": None, "open": {}}
    if isinstance(body, (r.SessionHeld, r.NondeterminismFound)):
        from_state = row["held_from"] if row["state"] == HELD else row["state"]
        return {"state": HELD, "due_ms": None, "held_from": from_state}
    if isinstance(body, r.SessionWaiting):
        waits = [one for one in body.obligations if one.kind != RESOURCE]  # nothing ends by that
        dues = [one.expires_at_ms for one in waits if one.expires_at_ms is not None]
        return {"state": WAITING, "due_ms": min(dues, default=None)}
    if isinstance(body, r.SessionReleased):
        return {"state": RESTING if row["held_from"] == RESTING else RUNNING, "due_ms": None}
    if row["state"] == HELD:
        return {}
    if row["state"] == WAITING and type(body) not in MOVERS:
        return {}  # it waits on: a message queues, a resource expires, one of two has voted
    if row["state"] == RESTING and not isinstance(body, COMES_IN):
        return {}
    return {"state": RUNNING, "due_ms": None}


def counted(row: Row, event: r.Event, prices: Prices) -> Counted | None:
    """What this event adds to which window; null where it is of no window. `row` is the one before it."""
    body, at_ms = event.body, event.envelope.at_ms
    match body:
        case r.ActivityRequested():
            return Counted(at_ms, body.name, {"requested": 1})
        case r.ActivityRetryScheduled():
            return _of_activity(row, body, at_ms, {"retried": 1, **_spend(body, prices)})
        case r.ActivityCompleted():
            return _ended(row, body, at_ms, "completed", prices)
        case r.ActivityFailed():
            return _ended(row, body, at_ms, "failed", prices)
        case r.ActivityUncertain():
            return _ended(row, body, at_ms, "uncertain", prices)
        case r.ActivityCancelled():
            return _of_activity(row, body, at_ms, {"cancelled": 1})
        case r.TurnCompleted() | r.SessionCompleted():
            return Counted(at_ms, NO_TOOL, {"turns": 1})
        case r.SessionFailed():
            return Counted(at_ms, NO_TOOL, {"sessions_failed": 1})
        case r.SessionHeld():
            return Counted(at_ms, NO_TOOL, {"held": 1})
        case _:
            return None


Ending = r.ActivityCompleted | r.ActivityFailed | r.ActivityUncertain
OfActivity = Ending | r.ActivityCancelled | r.ActivityRetryScheduled


def _ended(row: Row, body: Ending, at_ms: int, how: str, prices: Prices) -> Counted | None:
    since_ms = _open(row, body)[1]
    took_ms = max(0, at_ms - since_ms)
    times = {"duration_ms": took_ms, "duration_max_ms": took_ms}
    return _of_activity(row, body, at_ms, {how: 1, **times, **_spend(body, prices)})


def _of_activity(
    row: Row, body: OfActivity, at_ms: int, counts: Mapping[str, int]
) -> Counted | None:
    return Counted(at_ms, _open(row, body)[0], counts)


def _open(row: Row, body: OfActivity) -> tuple[str, int]:
    """Name and time of the request; a request that was not seen lies before the first event that is kept."""
    name, since_ms, _ = row["open"].get(body.activity_id, ("?", row["at_ms"], None))
    return name, since_ms


def _spend(body: r.EventBody, prices: Prices) -> dict[str, int]:
    spent = spent_by(body)
    if spent is None:
        return {}
    cost = prices.cost_nanos(spent.model, spent.input_tokens, spent.output_tokens)
    tokens = {"input_tokens": spent.input_tokens, "output_tokens": spent.output_tokens}
    if cost is None:
        return {**tokens, "unpriced_tokens": sum(tokens.values())}
    return {**tokens, "cost_nanos": cost}
