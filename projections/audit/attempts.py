"""Checks of attempts: heard of only while they run, stopped only when they are over, never twice where that could hurt."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from ...events import records as r
from ...events.contracts import ONCE
from ...events.failures import HEARTBEAT
from ...events.retries import NOTHING_RAN, in_doubt
from .evidence import Violation
from .history import Fact, History, of
from .invariants import AT_MOST_ONCE, ATTEMPT_FENCE
from .tasks import withheld

CLOCK_STEP_MS = 60_000
"""How far a processor's clock may go back between two records of one transaction."""

Failed = r.ActivityFailed | r.ActivityUncertain | r.ActivityRetryScheduled
Spoken = r.ActivityStarted | r.ActivityProgressed

Attempt = tuple[str, str, str, int]


@dataclass(slots=True)
class _Running:
    """The newest attempt of an activity: whether it runs, and since when its silence counts."""

    request: r.ActivityRequested
    attempt: int
    runs: bool = True
    started: bool = False
    heard_ms: int = 0


def heartbeats(history: History) -> Iterator[Violation]:
    """15: nothing is heard of an attempt that is over; its silence counts only once it was heard, and not too soon."""
    for facts in history.sessions.values():
        running: dict[str, _Running] = {}
        for fact in facts:
            yield from _heard(fact, running)


def _heard(fact: Fact, running: dict[str, _Running]) -> Iterator[Violation]:
    body = fact.event.body
    match body:
        case r.ActivityRequested():
            runs = body.withheld_ms is None
            running[body.activity_id] = _Running(body, body.attempt, runs)
        case r.ActivityRetried():
            _begin(running, body, body.attempt)
        case r.ActivityReturned():
            _begin(running, body, body.attempt + 1)
        case r.ActivityStarted() | r.ActivityProgressed():
            yield from _spoke(fact, body, running.get(body.activity_id))
        case r.ActivityRetryScheduled() | r.ActivityFailed() | r.ActivityUncertain():
            one = running.get(body.activity_id)
            if one is not None:
                yield from _fell_silent(fact, body, one)
                one.runs = False
        case r.ActivityCompleted() | r.ActivityCancelled() | r.ActivityResolved():
            if body.activity_id in running:
                running[body.activity_id].runs = False
        case (
            r.TurnCompleted()
            | r.TurnContinued()
            | r.SessionCompleted()
            | r.SessionFailed()
            | r.SessionCancelled()
            | r.SessionReset()
        ):
            for one in running.values():
                one.runs = False
        case _:
            pass  # the others say nothing of attempts


def _begin(
    running: dict[str, _Running], body: r.ActivityRetried | r.ActivityReturned, attempt: int
) -> None:
    one = running.get(body.activity_id)
    if one is not None:
        running[body.activity_id] = _Running(one.request, attempt, body.withheld_ms is None)


def _spoke(fact: Fact, body: Spoken, one: _Running | None) -> Iterator[Violation]:
    word, name = type(body).__name__, f"attempt {body.attempt} of activity {body.activity_id}"
    if one is None or not one.runs or one.attempt != body.attempt:
        yield of(fact, ATTEMPT_FENCE, f"{word} of {name}, which does not run")
        return
    one.heard_ms = fact.event.envelope.at_ms
    if not isinstance(body, r.ActivityStarted):
        return
    if one.started:
        yield of(fact, ATTEMPT_FENCE, f"{name} began twice")
    if one.request.heartbeat_ms is None:
        yield of(fact, ATTEMPT_FENCE, f"{name} began, and its request asks for no heartbeats")
    one.started = True


def _fell_silent(fact: Fact, body: Failed, one: _Running) -> Iterator[Violation]:
    if body.worker or body.failure.type != HEARTBEAT:
        return
    name = f"activity {body.activity_id}"
    if not one.started:
        yield of(
            fact, ATTEMPT_FENCE, f"{name} fell silent, and attempt {one.attempt} was never heard of"
        )
        return
    silent_ms = fact.event.envelope.at_ms - one.heard_ms
    if silent_ms < (one.request.heartbeat_ms or 0):
        yield of(
            fact,
            ATTEMPT_FENCE,
            f"{name} fell silent after {silent_ms} ms, which its request allows",
        )


def overs(history: History) -> Iterator[Violation]:
    """15: workers are told to drop only attempts that were over by then, and that they did not report themselves."""
    ended: dict[Attempt, int] = {}
    for fact in history.facts:
        attempt = _ended_by(fact.event.body)
        if attempt is not None:
            envelope = fact.event.envelope
            key = (envelope.tenant, envelope.session_id, *attempt)
            ended.setdefault(key, fact.record.timestamp_ms)
    for record, over in history.overs:
        at_ms = ended.get((over.tenant, over.session_id, over.activity_id, over.attempt))
        session, name = (
            f"{over.tenant}/{over.session_id}",
            f"attempt {over.attempt} of activity {over.activity_id}",
        )
        if at_ms is None:
            yield Violation(
                ATTEMPT_FENCE,
                session,
                record.offset,
                f"workers are to drop {name}, which nothing ended",
            )
        elif record.timestamp_ms + CLOCK_STEP_MS < at_ms:
            yield Violation(
                ATTEMPT_FENCE,
                session,
                record.offset,
                f"workers are to drop {name} before it was over",
            )
        own = f"{session}/{over.activity_id.replace('.', '/')}"
        if over.idempotency_key != own:
            told = f"the word to drop {name} has the key {over.idempotency_key!r}, expected {own!r}"
            yield Violation(ATTEMPT_FENCE, session, record.offset, told)


def _ended_by(body: r.EventBody) -> tuple[str, int] | None:
    """The attempt that an event ends without its worker."""
    match body:
        case r.ActivityCancelled():
            return body.activity_id, body.attempt
        case r.ActivityRetryScheduled(worker=""):
            return body.activity_id, body.attempt - 1
        case r.ActivityFailed(worker="") | r.ActivityUncertain(worker=""):
            return body.activity_id, body.attempt
        case _:
            return None


def at_most_once(history: History) -> Iterator[Violation]:
    """17: a write that must not run twice is tried again only after an attempt that ran nothing, or was given back.

    And such a write is not called failed while nobody knows what it did.
    """
    for facts in history.sessions.values():
        contracts: dict[str, str] = {}
        dispatched: dict[str, int] = defaultdict(int)
        excused: dict[str, int] = {}
        for fact in facts:
            body = fact.event.body
            match body:
                case r.ActivityRequested():
                    contracts[body.activity_id] = body.contract
                    dispatched[body.activity_id] = body.attempt
                case r.ActivityRetryScheduled() if contracts.get(body.activity_id) in ONCE:
                    if body.failure.kind in NOTHING_RAN:
                        excused[body.activity_id] = body.attempt
                    else:
                        told = f"activity {body.activity_id} may have run, and is to be tried again"
                        yield of(fact, AT_MOST_ONCE, f"{told} ({body.failure.kind})")
                case r.ActivityReturned() if contracts.get(body.activity_id) in ONCE:
                    dispatched[body.activity_id] = body.attempt + 1
                case r.ActivityRetried() if contracts.get(body.activity_id) in ONCE:
                    before = dispatched[body.activity_id]
                    dispatched[body.activity_id] = body.attempt
                    if excused.pop(body.activity_id, None) != body.attempt:
                        told = f"attempt {before} of activity {body.activity_id} may have run"
                        yield of(
                            fact, AT_MOST_ONCE, f"{told}, and attempt {body.attempt} is dispatched"
                        )
                case r.ActivityFailed() if contracts.get(body.activity_id) in ONCE:
                    contract = contracts[body.activity_id]
                    rests = body.activity_id in excused
                    if (
                        body.failure.kind != "returned"
                        and not rests
                        and in_doubt(contract, body.failure)
                    ):
                        told = f"activity {body.activity_id} may have run, and is called failed"
                        yield of(fact, AT_MOST_ONCE, f"{told} ({body.failure.kind})")
                case _:
                    pass  # the others dispatch nothing again
            held = withheld(body)
            if held is not None:  # it ran nothing, and may be dispatched yet
                excused[held.activity_id] = held.attempt
