"""Checks of activities: asked once, told to workers once, one outcome, fenced by attempt, one effect key."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from ...events import records as r
from .evidence import Violation
from .history import Fact, History, Session, of

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
"""Events that send an attempt to the workers."""

RETRIES = (r.ActivityRetryScheduled, r.ActivityRetried)
TERMINAL = (r.ActivityCompleted, r.ActivityFailed, r.ActivityResolved, r.ActivityCancelled)
UNCERTAIN = r.ActivityUncertain.__name__
ENDS = (r.SessionCompleted, r.SessionFailed, r.SessionCancelled)


def told_once(history: History) -> Iterator[Violation]:
    """13: each attempt has exactly one task in its queue's topic, each event for outside one outcome; and back."""
    topics = history.evidence.topics
    since_ms = history.evidence.since_ms
    wanted: Counter[tuple[str, str, int, str]] = Counter()
    forgotten: set[tuple[str, str, int, str]] = set()
    places: dict[tuple[str, str, int, str], tuple[str, int]] = {}
    for fact in history.facts:
        envelope, body = fact.event.envelope, fact.event.body
        if isinstance(body, DISPATCHES):
            item = (
                envelope.tenant,
                envelope.session_id,
                envelope.seq,
                f"task {body.activity_id}#{_dispatched(body)}",
            )
        elif type(body) in OUTCOME_KINDS:
            item = (
                envelope.tenant,
                envelope.session_id,
                envelope.seq,
                f"outcome {OUTCOME_KINDS[type(body)]}",
            )
        else:
            continue
        wanted[item] += 1
        if fact.record.timestamp_ms < since_ms:
            forgotten.add(item)
        places[item] = (fact.record.topic, fact.record.offset)
    found: Counter[tuple[str, str, int, str]] = Counter()
    for record, task in history.tasks:
        item = (
            task.tenant,
            task.session_id,
            task.event_seq,
            f"task {task.activity_id}#{task.attempt}",
        )
        found[item] += 1
        places.setdefault(item, (record.topic, record.offset))
        if record.topic not in (
            topics.activities(task.queue),
            topics.activities(task.queue, once=True),
        ):
            told = (
                f"the task of {task.activity_id} is in {record.topic}, its queue is {task.queue!r}"
            )
            yield Violation(13, f"{task.tenant}/{task.session_id}", record.offset, told)
    for record, outcome in history.outcomes:
        if outcome.seq is not None:
            item = (outcome.tenant, outcome.session_id, outcome.seq, f"outcome {outcome.kind}")
            found[item] += 1
            places.setdefault(item, (record.topic, record.offset))
    for item in wanted.keys() | found.keys():
        if wanted[item] != found[item] and not (item in forgotten and not found[item]):
            tenant, session_id, seq, what = item
            topic, offset = places[item]
            told = f"seq {seq} asks for {wanted[item]} of '{what}' and there are {found[item]} ({topic})"
            yield Violation(13, f"{tenant}/{session_id}", offset, told)


def one_outcome(history: History) -> Iterator[Violation]:
    """14: at most one terminal event per activity, never without a request; exactly one once the session ended."""
    for facts in history.sessions.values():
        state: dict[str, str] = {}
        for fact in facts:
            body = fact.event.body
            if isinstance(body, r.ActivityRequested):
                state.setdefault(body.activity_id, "open")
            elif isinstance(body, TERMINAL):
                before = state.get(body.activity_id)
                if before is None:
                    yield of(
                        fact,
                        14,
                        f"activity {body.activity_id} has an outcome and was never requested",
                    )
                elif before not in ("open", UNCERTAIN):
                    now = type(body).__name__
                    yield of(
                        fact,
                        14,
                        f"activity {body.activity_id} has a second outcome: {before}, then {now}",
                    )
                state[body.activity_id] = type(body).__name__
            elif isinstance(body, r.ActivityUncertain):
                if (stands := state.get(body.activity_id)) != "open":
                    yield of(
                        fact, 14, f"activity {body.activity_id} is uncertain, and was {stands}"
                    )
                state[body.activity_id] = UNCERTAIN
            elif isinstance(body, ENDS):
                for activity_id, stands in state.items():
                    if stands == "open":
                        yield of(
                            fact, 14, f"the session ended and activity {activity_id} has no outcome"
                        )
            elif isinstance(body, RETRIES) and state.get(body.activity_id) != "open":
                stands = state.get(body.activity_id, "never requested")
                told = f"{type(body).__name__} of activity {body.activity_id}, which is {stands}"
                yield of(fact, 14, told)


def attempt_fence(history: History) -> Iterator[Violation]:
    """15: an outcome is that of the newest attempt; a late result is of an older one, or of a settled activity.

    Attempts count up by one, each after the one before it has failed, which no result of it can undo.
    """
    for facts in history.sessions.values():
        granted: dict[str, int] = {}
        settled: set[str] = set()
        resting: set[str] = set()
        for fact in facts:
            body = fact.event.body
            match body:
                case r.ActivityRequested() | r.ActivityRetried() | r.ActivityReturned():
                    before, attempt = granted.get(body.activity_id, 0), _dispatched(body)
                    if attempt != before + 1:
                        told = f"attempt {attempt} of activity {body.activity_id} follows {before}"
                        yield of(fact, 15, told)
                    granted[body.activity_id] = attempt
                    resting.discard(body.activity_id)
                case r.ActivityRetryScheduled():
                    resting.add(body.activity_id)
                    newest = granted.get(body.activity_id, 0)
                    if body.attempt != newest + 1:
                        told = f"attempt {body.attempt} of activity {body.activity_id} is scheduled after {newest}"
                        yield of(fact, 15, told)
                case (
                    r.ActivityCompleted()
                    | r.ActivityFailed()
                    | r.ActivityUncertain()
                    | r.ActivityResolved()
                    | r.ActivityCancelled()
                ):
                    settled.add(body.activity_id)
                    newest = granted.get(body.activity_id, 0)
                    if body.attempt != newest:
                        told = f"activity {body.activity_id} ended with attempt {body.attempt}, the newest is {newest}"
                        yield of(fact, 15, told)
                    elif body.activity_id in resting and isinstance(body, r.ActivityCompleted):
                        told = f"activity {body.activity_id} is completed by attempt {newest}, which had failed"
                        yield of(fact, 15, told)
                case (
                    r.TurnCompleted()
                    | r.SessionCompleted()
                    | r.SessionFailed()
                    | r.SessionCancelled()
                ):
                    settled.update(granted)
                case r.LateResultRecorded() if (
                    body.activity_id not in settled | resting
                    and body.attempt >= granted.get(body.activity_id, body.attempt + 1)
                ):
                    told = f"the result of {body.activity_id} was put aside as late, but it was awaited"
                    yield of(fact, 15, told)
                case _:
                    pass  # the others neither grant an attempt nor end one


def _dispatched(body: r.ActivityRequested | r.ActivityRetried | r.ActivityReturned) -> int:
    """The attempt that goes out: one that was given back is followed by the next."""
    return body.attempt + 1 if isinstance(body, r.ActivityReturned) else body.attempt


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
            yield Violation(16, f"{task.tenant}/{task.session_id}", record.offset, told)
        expected = used.get(task.idempotency_key)
        if expected != ((task.tenant, task.session_id), task.activity_id):
            told = f"the task of {task.activity_id} has the key {task.idempotency_key!r}, which is not its event's"
            yield Violation(16, f"{task.tenant}/{task.session_id}", record.offset, told)


def _key_of(
    session: Session, fact: Fact, body: r.ActivityRequested, used: dict[str, tuple[Session, str]]
) -> Iterator[Violation]:
    tenant, session_id = session
    expected = f"{tenant}/{session_id}/{body.turn}/{body.step}"
    if body.idempotency_key != expected:
        yield of(
            fact, 16, f"the idempotency key is {body.idempotency_key!r}, expected {expected!r}"
        )
    owner = used.setdefault(body.idempotency_key, (session, body.activity_id))
    if owner != (session, body.activity_id):
        told = f"the idempotency key {body.idempotency_key!r} belongs to {owner[1]} of {'/'.join(owner[0])}"
        yield of(fact, 16, told)
