"""Checks of turns: steps count up, also across stretches, and nothing is waited for across the end of one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from ...events import records as r
from ...events.contracts import WAIT
from .evidence import Violation
from .history import Fact, History, of
from .invariants import ROLL_OVER

_STEPPED = (
    r.ActivityRequested,
    r.ApprovalRequested,
    r.TimerSet,
    r.SignalAwaited,
    r.InboxAwaited,
    r.JobAwaited,
    r.ChildStarted,
    r.RunStarted,
    r.ReplySent,
    r.VersionMarked,
    r.CompensationsReleased,
    r.ArtifactRecorded,
    r.AttributesSet,
    r.ResourceAttached,
    r.ResourceReattached,
    r.ResourceReleased,
)
"""Facts that a workflow asks for, each under a step of its own."""


@dataclass(slots=True)
class _Turn:
    """The turn under way: its stretch, its last step, and what it waits for."""

    turn: int
    stretch: int = 0
    step: int = 0
    waits: dict[str, str] = field(default_factory=dict)
    decides: set[str] = field(default_factory=set)


def _asks_again(body: r.EventBody) -> bool:
    """Whether it has the step of the proposal whose place it takes, or of the activity that waits for it, or is tried again."""
    return (isinstance(body, r.ActivityRequested) and body.attempt > 1) or (
        isinstance(body, r.ApprovalRequested)
        and (body.supersedes is not None or body.activity_id is not None)
    )


def stretches(history: History) -> Iterator[Violation]:
    """39: within a turn steps and stretches count up, and a stretch ends with nothing open, as does a reset."""
    for facts in history.sessions.values():
        turn = _Turn(0)
        for fact in facts:
            body = fact.event.body
            if isinstance(body, r.TurnStarted):
                turn = _Turn(body.turn)
            elif isinstance(body, r.TurnContinued):
                yield from _continued(fact, body, turn)
            elif isinstance(body, r.SessionReset):
                if turn.waits:
                    told = f"it is reset while it waits for {_told(turn)}"
                    yield of(fact, ROLL_OVER, told)
                turn.waits.clear()
            elif isinstance(body, _STEPPED):
                if body.step <= turn.step and not _asks_again(body):
                    told = f"{type(body).__name__} is step {body.step} of turn {turn.turn}, after step {turn.step}"
                    yield of(fact, ROLL_OVER, told)
                turn.step = max(turn.step, body.step)
                _opens(body, turn)
            else:
                _closes(body, turn)


def _continued(fact: Fact, body: r.TurnContinued, turn: _Turn) -> Iterator[Violation]:
    if (body.turn, body.stretch) != (turn.turn, turn.stretch + 1):
        told = (
            f"stretch {body.stretch} of turn {body.turn} follows {turn.stretch} of turn {turn.turn}"
        )
        yield of(fact, ROLL_OVER, told)
    if body.steps != turn.step:
        told = f"stretch {body.stretch} goes on from step {body.steps}, the last was {turn.step}"
        yield of(fact, ROLL_OVER, told)
    if turn.waits:
        told = f"stretch {body.stretch} begins while it waits for {_told(turn)}"
        yield of(fact, ROLL_OVER, told)
    turn.stretch, turn.step = body.stretch, max(turn.step, body.steps)
    turn.waits.clear()


def _told(turn: _Turn) -> str:
    return ", ".join(f"{kind} {id_}" for id_, kind in turn.waits.items())


def _opens(body: r.EventBody, turn: _Turn) -> None:
    match body:
        case r.ActivityRequested():
            turn.waits[body.activity_id] = "activity"
            if body.on_uncertain != WAIT:
                turn.decides.add(body.activity_id)
        case r.ApprovalRequested():
            turn.waits[body.proposal_id] = "approval"
        case r.TimerSet():
            turn.waits[body.timer_id] = "timer"
        case r.SignalAwaited() | r.InboxAwaited():
            turn.waits[body.wait_id] = "wait"
        case r.JobAwaited():
            turn.waits[body.job_id] = "job"
        case r.ChildStarted():
            turn.waits[body.child_id] = "child"
        case _:
            pass  # the others are done at once


def _closes(body: r.EventBody, turn: _Turn) -> None:
    match body:
        case (
            r.ActivityCompleted()
            | r.ActivityFailed()
            | r.ActivityCancelled()
            | r.ActivityResolved()
        ):
            turn.waits.pop(body.activity_id, None)
        case r.ActivityUncertain() if body.activity_id in turn.decides:
            turn.waits.pop(body.activity_id, None)
        case (
            r.ApprovalGranted()
            | r.ApprovalRejected()
            | r.ApprovalExpired()
            | r.ApprovalAnswered()
            | r.ApprovalVoided()
            | r.ApprovalWithdrawn()
        ):
            turn.waits.pop(body.proposal_id, None)
        case r.TimerFired() | r.TimerCancelled():
            turn.waits.pop(body.timer_id, None)
        case r.JobCompleted() | r.JobFailed() | r.JobExpired() | r.JobWithdrawn():
            turn.waits.pop(body.job_id, None)
        case (
            r.ChildCompleted()
            | r.ChildFailed()
            | r.ChildCancelled()
            | r.ChildExpired()
            | r.ChildWithdrawn()
        ):
            turn.waits.pop(body.child_id, None)
        case r.SignalDelivered() | r.InboxTaken() | r.WaitWithdrawn():
            turn.waits.pop(body.wait_id, None)
        case _:
            pass  # the others end no wait
