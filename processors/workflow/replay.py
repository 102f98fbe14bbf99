"""Rebuilds a turn's coroutine from its journal, fact by fact in the log's order, and compares as it goes.

A fact that the workflow asked for must equal, in order, what the workflow asks for now: same kind, step, name and
digest. The first that does not is a `Divergence`. What the last fact leads to and the history does not hold yet
is `leftover`: the caller records it (first run, or release of a held session) or calls it a divergence. What a
release lets through is asked for at the time of the release: a hold of a week must not cost a deadline of an hour.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ...events import records as r
from .definitions import Message, Workflow
from .driver import Stretch, TurnContext

ASKED = (
    r.ActivityRequested
    | r.ApprovalRequested
    | r.TimerSet
    | r.ReplySent
    | r.TurnCompleted
    | r.SessionCompleted
    | r.SessionFailed
    | r.TimerCancelled
    | r.ApprovalWithdrawn
    | r.ActivityCancelled
)
"""Facts that a workflow asks for; the last three where `first` lets a wait go."""

RESOLVES = (
    r.ActivityCompleted
    | r.ActivityFailed
    | r.ApprovalGranted
    | r.ApprovalRejected
    | r.ApprovalExpired
    | r.TimerFired
)
"""Facts that end a wait; every other one passes the workflow by."""


@dataclass(frozen=True, slots=True)
class Divergence:
    """History holds `expected`, the code gave `actual`, at this step."""

    step: int
    expected: str
    actual: str


@dataclass(slots=True)
class Rebuilt:
    """A coroutine that stands where the journal ends."""

    stretch: Stretch
    leftover: list[r.EventBody] = field(default_factory=list)


def rebuild(
    workflow: Workflow[Any],
    context: TurnContext,
    data: r.Payload | None,
    message: Message,
    journal: Sequence[r.Event],
) -> Rebuilt | Divergence:
    """Replays a journal that begins with the turn's `TurnStarted`; gives the coroutine or the first difference."""
    stretch = Stretch(workflow, context, data, message)
    asked: deque[r.EventBody] = deque()
    for event in journal:
        body = event.body
        if isinstance(body, r.TurnStarted):
            asked.extend(stretch.start(event.envelope.at_ms))
        elif isinstance(body, ASKED):
            difference = _compare(body, asked.popleft() if asked else None)
            if difference is not None:
                stretch.drop()
                return difference
        elif isinstance(body, RESOLVES):
            if asked:  # an earlier activation asks for more than the history holds
                stretch.drop()
                return _difference(None, asked[0])
            asked.extend(stretch.feed(event))
        elif isinstance(body, r.SessionReleased):
            held_ms = event.envelope.at_ms - stretch.now_ms
            stretch.now_ms = event.envelope.at_ms
            asked = deque(_postponed(late, held_ms) for late in asked)
    return Rebuilt(stretch, list(asked))


def describe(body: r.EventBody) -> str:
    """One asked-for fact in words, with the digest that tells it from its like."""
    match body:
        case r.ActivityRequested():
            return f"activity {body.name} with arguments {body.digest.hex()[:12]}"
        case r.ApprovalRequested():
            return f"approval of {body.name} with arguments {body.digest.hex()[:12]}"
        case r.TimerSet():
            return f"sleep until {body.due_ms}"
        case r.ReplySent():
            return f"reply {body.message.digest.hex()[:12]}"
        case r.TurnCompleted():
            return f"end of turn with state {body.state.digest.hex()[:12]}"
        case r.SessionCompleted():
            return f"completion with outcome {body.outcome.digest.hex()[:12]}"
        case r.SessionFailed():
            return f"failure {body.failure.kind}"
        case r.TimerCancelled():
            return f"withdrawal of sleep {body.timer_id}"
        case r.ApprovalWithdrawn():
            return f"withdrawal of approval {body.proposal_id}"
        case r.ActivityCancelled():
            return f"cancellation of activity {body.activity_id}"
        case r.SessionHeld():
            return f"hold: {body.reason}: {body.detail.strip().splitlines()[-1] if body.detail.strip() else ''}"
        case _:
            return type(body).__name__


def _postponed(body: r.EventBody, by_ms: int) -> r.EventBody:
    """The same, asked for later."""
    match body:
        case r.ActivityRequested():
            return replace(body, deadline_ms=body.deadline_ms + by_ms)
        case r.ApprovalRequested():
            return replace(body, expires_at_ms=body.expires_at_ms + by_ms)
        case r.TimerSet():
            return replace(body, due_ms=body.due_ms + by_ms)
        case _:
            return body


def _compare(recorded: r.EventBody, asked: r.EventBody | None) -> Divergence | None:
    same = (
        asked is not None
        and describe(recorded) == describe(asked)
        and _step(recorded) == _step(asked)
    )
    return None if same else _difference(recorded, asked)


def _difference(recorded: r.EventBody | None, asked: r.EventBody | None) -> Divergence:
    told = [
        "nothing more" if body is None else f"step {_step(body)}: {describe(body)}"
        for body in (recorded, asked)
    ]
    return Divergence(_step(recorded if recorded is not None else asked), *told)


def _step(body: r.EventBody | None) -> int:
    step = getattr(body, "step", None)
    return step if isinstance(step, int) else int(getattr(body, "steps", 0))
