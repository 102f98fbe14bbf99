"""Checks of activities: one outcome, fenced by attempt, one effect key."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from ...events import records as r
from ...events.contracts import WAIT
from ...events.failures import NOTHING_DONE
from ...events.verdicts import COMPLETED, UNCERTAIN
from .evidence import Violation
from .history import Fact, History, Session, of
from .invariants import ATTEMPT_FENCE, ONE_OUTCOME, RECORDED_ONCE, STABLE_KEY
from .tasks import DISPATCHES, withheld

OPEN, IN_DOUBT, LEFT_IN_DOUBT = "open", UNCERTAIN, "uncertain for good"
"""How an activity may stand before its end; the last is one whose workflow decides by itself."""


def one_outcome(history: History) -> Iterator[Violation]:
    """14, 18: at most one end per activity, never without a request, and no attempt after it; exactly one once the session ended.

    Doubt is no end, unless the workflow decides by itself: then nothing may follow.
    """
    for facts in history.sessions.values():
        stands: dict[str, str] = {}
        decides: set[str] = set()
        begun: set[str] = set()
        for fact in facts:
            body = fact.event.body
            if isinstance(body, DISPATCHES) and body.withheld_ms is None:
                begun.add(body.activity_id)
            match body:
                case r.ActivityRequested():
                    if body.compensates is None:
                        stands.setdefault(body.activity_id, OPEN)
                    else:  # asked for once more after a release
                        stands[body.activity_id] = OPEN
                    if body.on_uncertain != WAIT:
                        decides.add(body.activity_id)
                case r.ActivityUncertain():
                    yield from _ends(fact, body, stands, IN_DOUBT)
                    if body.activity_id not in begun:
                        told = f"activity {body.activity_id} is in doubt, and no attempt of it was dispatched"
                        yield of(fact, ONE_OUTCOME, told)
                    if body.activity_id in decides:
                        stands[body.activity_id] = LEFT_IN_DOUBT
                case (
                    r.ActivityCompleted()
                    | r.ActivityFailed()
                    | r.ActivityCancelled()
                    | r.ActivityResolved()
                ):
                    yield from _ends(fact, body, stands, type(body).__name__)
                case r.SessionCompleted() | r.SessionFailed() | r.SessionCancelled():
                    for activity_id, how in stands.items():
                        if how in (OPEN, IN_DOUBT):
                            told = f"the session ended and activity {activity_id} has no outcome"
                            yield of(fact, ONE_OUTCOME, told)
                case r.ActivityRetryScheduled() | r.ActivityRetried() | r.ActivityReturned():
                    how = stands.get(body.activity_id, "never requested")
                    if how != OPEN:
                        told = (
                            f"{type(body).__name__} of activity {body.activity_id}, which is {how}"
                        )
                        yield of(fact, RECORDED_ONCE, told)
                case _:
                    pass  # the others neither end an activity nor go on with one


def _ends(
    fact: Fact,
    body: r.ActivityCompleted
    | r.ActivityFailed
    | r.ActivityCancelled
    | r.ActivityResolved
    | r.ActivityUncertain,
    stands: dict[str, str],
    now: str,
) -> Iterator[Violation]:
    """Whether the activity may end so, or come into doubt; notes that it did."""
    activity_id = body.activity_id
    before = stands.get(activity_id)
    stands[activity_id] = now
    if before is None:
        yield of(
            fact, ONE_OUTCOME, f"activity {activity_id} has an outcome and was never requested"
        )
    elif before == OPEN:
        if isinstance(body, r.ActivityResolved):
            yield of(fact, ONE_OUTCOME, f"activity {activity_id} is resolved and was in no doubt")
    elif before == IN_DOUBT:
        if isinstance(body, r.ActivityUncertain):
            yield of(fact, ONE_OUTCOME, f"activity {activity_id} comes into doubt twice")
        elif isinstance(body, r.ActivityFailed) and body.failure.kind != NOTHING_DONE:
            told = f"activity {activity_id} was in doubt, and failed as {body.failure.kind!r}, which ends none"
            yield of(fact, ONE_OUTCOME, told)
    else:
        told = f"activity {activity_id} has a second outcome: {before}, then {type(body).__name__}"
        yield of(fact, ONE_OUTCOME, told)


@dataclass(slots=True)
class _Attempts:
    """Of one session: the newest attempt of each activity, and which of them have failed, ended, or are in doubt."""

    newest: dict[str, int] = field(default_factory=dict)
    resting: set[str] = field(default_factory=set)
    settled: set[str] = field(default_factory=set)
    in_doubt: dict[str, int] = field(default_factory=dict)
    decides: set[str] = field(default_factory=set)
    withheld: set[str] = field(default_factory=set)


def attempt_fence(history: History) -> Iterator[Violation]:
    """15: an outcome is that of the newest attempt; a late result is of an older one, or of a settled activity.

    Attempts count up by one, each after the one before it has failed or was given back, which no result can undo; one that
    was withheld is dispatched under its own number, and no result is its own before that.
    """
    for facts in history.sessions.values():
        attempts = _Attempts()
        for fact in facts:
            yield from _fenced(fact, attempts)
            held = withheld(fact.event.body)
            if held is not None:
                attempts.withheld.add(held.activity_id)


def _fenced(fact: Fact, attempts: _Attempts) -> Iterator[Violation]:
    body = fact.event.body
    match body:
        case r.ActivityRequested() | r.ActivityRetried():
            before = attempts.newest.get(body.activity_id, 0)
            if body.attempt != before + (body.activity_id not in attempts.withheld):
                told = f"attempt {body.attempt} of activity {body.activity_id} follows {before}"
                yield of(fact, ATTEMPT_FENCE, told)
            attempts.newest[body.activity_id] = body.attempt
            attempts.resting.discard(body.activity_id)
            attempts.withheld.discard(body.activity_id)
            if isinstance(body, r.ActivityRequested):
                attempts.settled.discard(body.activity_id)
            if isinstance(body, r.ActivityRequested) and body.on_uncertain != WAIT:
                attempts.decides.add(body.activity_id)
        case r.ActivityReturned():
            newest = attempts.newest.get(body.activity_id, 0)
            if body.attempt != newest or body.activity_id in attempts.resting | attempts.withheld:
                told = f"attempt {body.attempt} of activity {body.activity_id} is given back, and does not run"
                yield of(fact, ATTEMPT_FENCE, told)
            attempts.newest[body.activity_id] = body.attempt + 1
        case r.ActivityRetryScheduled():
            attempts.resting.add(body.activity_id)
            newest = attempts.newest.get(body.activity_id, 0)
            if body.attempt != newest + 1:
                told = f"attempt {body.attempt} of activity {body.activity_id} is scheduled after {newest}"
                yield of(fact, ATTEMPT_FENCE, told)
        case (
            r.ActivityCompleted()
            | r.ActivityFailed()
            | r.ActivityCancelled()
            | r.ActivityUncertain()
            | r.ActivityResolved()
        ):
            yield from _fenced_end(fact, body, attempts)
        case (
            r.TurnCompleted()
            | r.SessionCompleted()
            | r.SessionFailed()
            | r.SessionCancelled()
            | r.SessionReset()
        ):
            attempts.settled.update(attempts.newest)
            attempts.in_doubt.clear()
        case r.LateResultRecorded():
            yield from _late(fact, body, attempts)
        case _:
            pass  # the others neither grant an attempt nor end one


def _fenced_end(
    fact: Fact,
    body: r.ActivityCompleted
    | r.ActivityFailed
    | r.ActivityCancelled
    | r.ActivityUncertain
    | r.ActivityResolved,
    attempts: _Attempts,
) -> Iterator[Violation]:
    activity_id, newest = body.activity_id, attempts.newest.get(body.activity_id, 0)
    attempts.settled.add(activity_id)
    attempts.in_doubt.pop(activity_id, None)
    if isinstance(body, r.ActivityUncertain) and activity_id not in attempts.decides:
        attempts.in_doubt[activity_id] = body.attempt
    if body.attempt != newest:
        told = f"activity {activity_id} ended with attempt {body.attempt}, the newest is {newest}"
        yield of(fact, ATTEMPT_FENCE, told)
    elif activity_id in attempts.resting | attempts.withheld and isinstance(
        body, r.ActivityCompleted
    ):
        told = f"activity {activity_id} is completed by attempt {newest}, which does not run"
        yield of(fact, ATTEMPT_FENCE, told)
    attempts.withheld.discard(activity_id)


def _late(fact: Fact, body: r.LateResultRecorded, attempts: _Attempts) -> Iterator[Violation]:
    activity_id = body.activity_id
    awaited = (
        activity_id not in attempts.settled | attempts.resting | attempts.withheld
        and body.attempt >= attempts.newest.get(activity_id, body.attempt + 1)
    )
    ends_doubt = body.outcome == COMPLETED and attempts.in_doubt.get(activity_id) == body.attempt
    if awaited or ends_doubt:
        told = f"the result of {activity_id} was put aside as late, but it was awaited"
        yield of(fact, ATTEMPT_FENCE, told)


def stable_key(history: History) -> Iterator[Violation]:
    """16: the key of an effect is that of its tenant, session, turn and step, in the event and in every task."""
    used: dict[str, tuple[Session, str]] = {}
    for session, facts in history.sessions.items():
        for fact in facts:
            body = fact.event.body
            if not isinstance(body, r.ActivityRequested):
                continue
            yield from _key_of(session, fact, body, used)
    digests = {
        fact.event.body.idempotency_key: fact.event.body.arguments.digest
        for fact in history.facts
        if isinstance(fact.event.body, r.ActivityRequested)
    }
    for record, task in history.tasks:
        if digests.get(task.idempotency_key, task.arguments.digest) != task.arguments.digest:
            told = f"attempt {task.attempt} of {task.activity_id} has other arguments than were asked for"
            yield Violation(STABLE_KEY, f"{task.tenant}/{task.session_id}", record.offset, told)
        expected = used.get(task.idempotency_key)
        if expected != ((task.tenant, task.session_id), task.activity_id):
            told = f"the task of {task.activity_id} has the key {task.idempotency_key!r}, which is not its event's"
            yield Violation(STABLE_KEY, f"{task.tenant}/{task.session_id}", record.offset, told)


def _key_of(
    session: Session, fact: Fact, body: r.ActivityRequested, used: dict[str, tuple[Session, str]]
) -> Iterator[Violation]:
    tenant, session_id = session
    expected = f"{tenant}/{session_id}/{body.turn}/{body.step}"
    if body.idempotency_key != expected:
        yield of(
            fact,
            STABLE_KEY,
            f"the idempotency key is {body.idempotency_key!r}, expected {expected!r}",
        )
    owner = used.setdefault(body.idempotency_key, (session, body.activity_id))
    if owner != (session, body.activity_id):
        told = f"the idempotency key {body.idempotency_key!r} belongs to {owner[1]} of {'/'.join(owner[0])}"
        yield of(fact, STABLE_KEY, told)
