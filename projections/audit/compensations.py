"""Checks of what is taken back: each effect that may have happened, once, the last first, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from ...events import records as r
from ...events.contracts import IDEMPOTENT
from ...events.failures import NOTHING_DONE
from ...events.holding import SESSION_ENDED
from ...events.verdicts import COMPLETED
from .evidence import Violation
from .history import Fact, History, of
from .invariants import COMPENSATION


@dataclass(slots=True)
class _Effect:
    """An activity that has a compensation: whether its effect is certain, or certain not to be, and what is under way."""

    compensation: r.Compensation
    contract: str
    withheld: bool
    deadline_ms: int
    attempt: int = 1
    resting: bool = False
    happened: bool = False
    never: bool = False
    runs_until_ms: int | None = None
    """An attempt that was let go may run until then, unless its worker said that it has ended."""


@dataclass(slots=True)
class _Saga:
    """Of one session."""

    effects: dict[str, _Effect] = field(default_factory=dict)
    held: dict[str, r.Compensation] = field(default_factory=dict)
    """Of resources: what gives them back. They come first once the session ends with them, and so are given back last."""
    back: list[str] = field(default_factory=list)
    """What was taken back, in order."""
    by: dict[str, str] = field(default_factory=dict)
    """Which effect an activity takes back."""
    stopped: bool = False
    under_way: str | None = None


def compensations(history: History) -> Iterator[Violation]:
    """17: a compensation pairs one effect; the last effect is taken back first; what is stopped dispatches nothing else."""
    for facts in history.sessions.values():
        saga = _Saga()
        for fact in facts:
            yield from _followed(fact, saga)


def _followed(fact: Fact, saga: _Saga) -> Iterator[Violation]:
    body = fact.event.body
    match body:
        case r.ActivityRequested():
            yield from _requested(fact, body, saga)
        case r.CancellationRequested() | r.CompensationStarted():
            saga.stopped = True
        case r.CompensationsReleased():
            saga.effects.clear()
        case r.ResourceAttached() | r.ResourceReattached() if body.release is not None:
            saga.held[body.resource_id] = body.release
        case r.ResourceReleased() | r.ResourceExpired():
            release = saga.held.pop(body.resource_id, None)
            if release and isinstance(body, r.ResourceExpired) and body.reason == SESSION_ENDED:
                given_back = _Effect(release, "", withheld=False, deadline_ms=0, happened=True)
                saga.effects = {body.resource_id: given_back, **saga.effects}
        case r.SessionFailed() | r.SessionCancelled():
            yield from _ended(fact, body, saga)
        case _:
            activity_id = getattr(body, "activity_id", None)
            if activity_id in saga.by:
                _taken_back(body, saga, activity_id)
            elif activity_id in saga.effects:
                _known(body, saga.effects[activity_id])


def _requested(fact: Fact, body: r.ActivityRequested, saga: _Saga) -> Iterator[Violation]:
    name = f"activity {body.activity_id}"
    if body.compensation is not None:
        withheld = body.withheld_ms is not None
        saga.effects[body.activity_id] = _Effect(
            body.compensation, body.contract, withheld=withheld, deadline_ms=body.deadline_ms
        )
    if body.compensates is None:
        if saga.stopped:
            yield of(fact, COMPENSATION, f"{name} is requested after the session was stopped")
        return
    effect = saga.effects.get(body.compensates)
    saga.by[body.activity_id] = body.compensates
    if effect is None or not saga.stopped:
        yield of(fact, COMPENSATION, f"{name} takes back {body.compensates}, which is to stand")
        return
    undo = effect.compensation
    if (undo.name, undo.digest) != (body.name, body.digest):
        yield of(fact, COMPENSATION, f"{name} is not what takes back {body.compensates}")
    if effect.never:
        yield of(fact, COMPENSATION, f"{name} takes back {body.compensates}, which never happened")
    if body.compensates in saga.back:
        yield of(fact, COMPENSATION, f"{name} takes back {body.compensates} a second time")
    if saga.under_way is not None:
        yield of(fact, COMPENSATION, f"{name} begins while {saga.under_way} is under way")
    if (effect.runs_until_ms or 0) > fact.event.envelope.at_ms:
        yield of(fact, COMPENSATION, f"{name} begins while {body.compensates} may still run")
    later = [one for one in reversed(saga.effects) if one not in saga.back]
    for one in later[: later.index(body.compensates)] if body.compensates in later else ():
        if saga.effects[one].happened:
            yield of(fact, COMPENSATION, f"{name} takes back {body.compensates} before {one}")
    saga.under_way = body.activity_id


def _taken_back(body: r.EventBody, saga: _Saga, activity_id: str) -> None:
    done = isinstance(body, r.ActivityCompleted) or (
        isinstance(body, r.ActivityResolved) and body.resolution == COMPLETED
    )
    if done:
        saga.back.append(saga.by[activity_id])
    if isinstance(body, r.ActivityCompleted | r.ActivityFailed | r.ActivityResolved):
        saga.under_way = None


def _known(body: r.EventBody, effect: _Effect) -> None:
    match body:
        case r.ActivityCompleted():
            effect.happened = True
        case r.ActivityResolved():
            effect.happened = body.resolution == COMPLETED
            effect.never = not effect.happened
        case r.ActivityFailed():
            effect.never = effect.contract != IDEMPOTENT
        case r.ActivityRetried():
            effect.attempt, effect.withheld = body.attempt, body.withheld_ms is not None
            effect.resting = False
            effect.deadline_ms = body.deadline_ms or effect.deadline_ms
        case r.ActivityRetryScheduled():
            effect.resting = True
        case r.ActivityReturned():
            effect.attempt, effect.withheld = body.attempt + 1, body.withheld_ms is not None
        case r.ActivityCancelled():
            effect.never = effect.withheld and effect.attempt == 1
            if not effect.withheld and not effect.resting:
                effect.runs_until_ms = effect.deadline_ms
        case r.LateResultRecorded():
            _late(body, effect)
        case _:
            pass  # the others say nothing of its effect


def _late(body: r.LateResultRecorded, effect: _Effect) -> None:
    if body.attempt == effect.attempt:
        effect.runs_until_ms = None
    if body.outcome == COMPLETED:
        effect.happened, effect.never = True, False
    elif (
        body.attempt == effect.attempt == 1
        and effect.contract != IDEMPOTENT
        and body.failure is not None
        and body.failure.kind == NOTHING_DONE
        and not effect.happened
    ):
        effect.never = True


def _ended(
    fact: Fact, body: r.SessionFailed | r.SessionCancelled, saga: _Saga
) -> Iterator[Violation]:
    if list(body.compensated) != saga.back:
        told = f"it is told that {body.compensated} were taken back, and {saga.back} were"
        yield of(fact, COMPENSATION, told)
    for activity_id, effect in saga.effects.items():
        told_of = (*saga.back, *body.not_compensated)
        if effect.happened and activity_id not in told_of:
            yield of(fact, COMPENSATION, f"{activity_id} happened, and was not taken back")
