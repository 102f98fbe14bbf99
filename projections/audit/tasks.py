"""Checks of what the processors told others: a task per attempt, in the right topic; an outcome per fact for outside."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from ...events import records as r
from ...events.contracts import ONCE
from .evidence import Violation
from .history import Fact, History
from .invariants import TOLD_ONCE

OUTCOME_KINDS: dict[type, str] = {
    r.ReplySent: "reply",
    r.ApprovalRequested: "approval_wanted",
    r.ActivityUncertain: "uncertain",
    r.CommandRefused: "refused",
    r.SessionHeld: "held",
    r.NondeterminismFound: "held",
    r.SessionCompleted: "completed",
    r.SessionFailed: "failed",
    r.SessionCancelled: "cancelled",
}
"""Events that the world outside hears of, and under which name."""

DISPATCHES = (r.ActivityRequested, r.ActivityRetried, r.ActivityReturned)
"""Events that send an attempt to the workers, or withhold it."""

Item = tuple[str, str, int, str]


def newest_of(body: r.EventBody) -> int | None:
    """The number of the attempt that an event makes the newest, dispatched or withheld; none for any other event."""
    match body:
        case r.ActivityRequested() | r.ActivityRetried():
            return body.attempt
        case r.ActivityReturned():
            return body.attempt + 1
        case _:
            return None


@dataclass(frozen=True, slots=True)
class Withheld:
    """An attempt that an event does not send to the workers, as it lacks an approval."""

    activity_id: str
    attempt: int


def withheld(body: r.EventBody) -> Withheld | None:
    """What an event withholds, if it does."""
    attempt = newest_of(body)
    if attempt is None or not isinstance(body, DISPATCHES) or body.withheld_ms is None:
        return None
    return Withheld(body.activity_id, attempt)


@dataclass(slots=True)
class _Told:
    """What events ask for, what was told, and where each lies."""

    wanted: Counter[Item] = field(default_factory=Counter)
    found: Counter[Item] = field(default_factory=Counter)
    forgotten: set[Item] = field(default_factory=set)
    places: dict[Item, tuple[str, int]] = field(default_factory=dict)


def told_once(history: History) -> Iterator[Violation]:
    """13: each attempt has exactly one task, each event for outside one outcome; and back."""
    told = _Told()
    for fact in history.facts:
        _want(told, fact, history.since_ms)
    for record, task in history.tasks:
        what = f"task {task.activity_id}#{task.attempt}"
        item = (task.tenant, task.session_id, task.event_seq, what)
        told.found[item] += 1
        told.places.setdefault(item, (record.topic, record.offset))
    for record, outcome in history.outcomes:
        if outcome.seq is not None:
            item = (outcome.tenant, outcome.session_id, outcome.seq, f"outcome {outcome.kind}")
            told.found[item] += 1
            told.places.setdefault(item, (record.topic, record.offset))
    for item in told.wanted.keys() | told.found.keys():
        wanted, found = told.wanted[item], told.found[item]
        if wanted != found and not (item in told.forgotten and not found):
            tenant, session_id, seq, what = item
            topic, offset = told.places[item]
            sentence = f"seq {seq} asks for {wanted} of '{what}' and there are {found} ({topic})"
            yield Violation(TOLD_ONCE, f"{tenant}/{session_id}", offset, sentence)


def _want(told: _Told, fact: Fact, since_ms: int) -> None:
    envelope, body = fact.event.envelope, fact.event.body
    attempt = newest_of(body)
    if attempt is not None and isinstance(body, DISPATCHES):
        if body.withheld_ms is not None:
            return
        what = f"task {body.activity_id}#{attempt}"
    elif type(body) in OUTCOME_KINDS:
        what = f"outcome {OUTCOME_KINDS[type(body)]}"
    else:
        return
    item = (envelope.tenant, envelope.session_id, envelope.seq, what)
    told.wanted[item] += 1
    told.places[item] = (fact.record.topic, fact.record.offset)
    if fact.record.timestamp_ms < since_ms:
        told.forgotten.add(item)


def right_topic(history: History) -> Iterator[Violation]:
    """13: a task is in its queue's topic, in the one for writes that must not run twice if it is one; as requested."""
    topics = history.evidence.topics
    requests = {
        fact.event.body.idempotency_key: fact.event.body
        for fact in history.facts
        if isinstance(fact.event.body, r.ActivityRequested)
    }
    for record, task in history.tasks:
        session = f"{task.tenant}/{task.session_id}"
        expected = topics.activities(task.queue, once=task.contract in ONCE)
        if record.topic != expected:
            told = f"the task of {task.activity_id} ({task.contract}) is in {record.topic}, not in {expected}"
            yield Violation(TOLD_ONCE, session, record.offset, told)
        asked = requests.get(task.idempotency_key)
        if asked is None:
            continue  # check 16 says whose key it is
        mine = (task.name, task.queue, task.contract, task.heartbeat_ms, task.settle_ms)
        if mine != (asked.name, asked.queue, asked.contract, asked.heartbeat_ms, asked.settle_ms):
            told = f"the task of {task.activity_id} is not as it was requested: {mine}"
            yield Violation(TOLD_ONCE, session, record.offset, told)
