"""Checks of what became of each command: disposed of once, not skewed, idempotent, nobody left waiting."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ...events import records as r
from ...events.log.protocol import Place, Record
from .evidence import Asked, Violation
from .history import At, Fact, History, Request, cause_of, of, place_of
from .invariants import IDEMPOTENT, NO_KEY_REUSE, NO_SKEW, NOBODY_STRANDED, ONE_DISPOSITION
from .turned_away import TurnedAway

NO_OP_KINDS = frozenset({"FireTimer", "HeartbeatActivity", "EndChild", "CancelChild"})
"""Commands that may leave nothing: what is due becomes fact before a nudge is looked at, signs of life
are many, and what sessions tell each other of a child may find that one of them has ended."""

NO_CONSENT = (r.CommandRefused, r.CommandParked, r.SessionWaiting)
"""What a command may lead to without being accepted: refused, kept for later, or the session parks after a repeat."""

KEPT = (r.CommandParked, r.SessionReleased, r.SessionReset)
"""What has events at two places: a command that was kept, and the one that let it be decided."""


def one_disposition(history: History) -> Iterator[Violation]:
    """3: each command below the committed offset has events, a refusal, a dead letter, or is a repeat.

    A dead letter may be one for many, and then says for how many: see `turned_away`.
    """
    together = TurnedAway(history.evidence, history.dead_letters)
    yield from disposed(history, together)
    if history.evidence.committed is not None:
        yield from together.too_many()


def disposed(history: History, together: TurnedAway) -> Iterator[Violation]:
    """The same for these sessions alone: letters may tell of others' commands, too."""
    committed = history.evidence.committed
    if committed is None:
        return
    causes = {cause_of(fact) for fact in history.facts}
    dead = {(letter.topic, letter.partition, letter.offset) for _, letter in history.dead_letters}
    refused = {
        (outcome.tenant, outcome.session_id, outcome.command_id)
        for _, outcome in history.outcomes
        if outcome.kind == "refused" and outcome.seq is None
    }
    settled = _settled(history)
    first = _first_by_id(history)
    for request in history.requests:
        record, asked = request
        if record.offset >= committed.get(place_of(record), 0):
            continue
        at = (record.topic, record.partition, record.offset)
        if at in causes and at in dead:
            yield _about(request, ONE_DISPOSITION, "it has events and a dead letter")
        id_ = (asked.tenant, asked.session_id, asked.command_id) if asked else None
        repeats = id_ is not None and first.setdefault(id_, record.offset) < record.offset
        if at in causes or at in dead:
            continue
        if id_ in refused or repeats or (asked is not None and _is_no_op(asked, settled)):
            together.may_mean(request)
        elif not together.covers(request):
            told = "it is below the committed offset and nothing became of it"
            yield _about(request, ONE_DISPOSITION, told)


def _first_by_id(history: History) -> dict[tuple[str, str, str], int]:
    """Where each command id had its first events; the command itself may be gone by now."""
    first: dict[tuple[str, str, str], int] = {}
    for fact in history.facts:
        envelope = fact.event.envelope
        id_ = (envelope.tenant, envelope.session_id, envelope.cause.command_id)
        first.setdefault(id_, envelope.cause.offset)
    return first


def _settled(history: History) -> set[tuple[str, str, str, int]]:
    found: set[tuple[str, str, str, int]] = set()
    for fact in history.facts:
        body, envelope = fact.event.body, fact.event.envelope
        if isinstance(
            body,
            r.ActivityCompleted
            | r.ActivityFailed
            | r.ActivityCancelled
            | r.ActivityReturned
            | r.ActivityUncertain
            | r.ActivityResolved
            | r.LateResultRecorded,
        ):
            found.add((envelope.tenant, envelope.session_id, body.activity_id, body.attempt))
        elif isinstance(body, r.ActivityRetryScheduled):
            found.add((envelope.tenant, envelope.session_id, body.activity_id, body.attempt - 1))
    return found


def _is_no_op(asked: Asked, settled: set[tuple[str, str, str, int]]) -> bool:
    """Whether the rules let this command leave nothing: a wake-up, or a result that was recorded before."""
    if asked.kind in NO_OP_KINDS:
        return True
    return (
        asked.result_of is not None
        and (asked.tenant, asked.session_id, *asked.result_of) in settled
    )


def no_skew(history: History) -> Iterator[Violation]:
    """4: nothing is disposed of at or above the committed offset, and no command is disposed of that is not there."""
    committed = history.evidence.committed
    if committed is None:
        return
    there = {(record.topic, record.partition, record.offset) for record, _ in history.requests}
    knows = history.knows_commands
    for fact in history.facts:
        cause = fact.event.envelope.cause
        limit = committed.get(Place(cause.topic, cause.partition))
        if cause.topic == history.evidence.topics.commands and (
            limit is None or cause.offset >= limit
        ):
            yield of(
                fact,
                NO_SKEW,
                f"its command at {cause.partition}/{cause.offset} is above the committed offset {limit}",
            )
        elif knows and cause_of(fact) not in there and not _is_trimmed(history, cause_of(fact)):
            yield of(
                fact,
                NO_SKEW,
                f"there is no command at {cause.topic} {cause.partition}/{cause.offset}",
            )
    for record, letter in history.dead_letters:
        if letter.topic != history.evidence.topics.commands:
            continue
        limit = committed.get(Place(letter.topic, letter.partition))
        if limit is None or letter.offset >= limit:
            told = f"the command at {letter.partition}/{letter.offset} is dead, but above the committed offset {limit}"
            yield Violation(NO_SKEW, _key(record), record.offset, told)


def _is_trimmed(history: History, at: At) -> bool:
    topic, partition, offset = at
    return offset < history.evidence.trimmed.get(Place(topic, partition), 0)


def idempotent(history: History) -> Iterator[Violation]:
    """5 and 6: one command id is accepted once per session, and never with two contents."""
    for facts in history.sessions.values():
        accepted: dict[str, Fact] = {}
        for fact in facts:
            cause = fact.event.envelope.cause
            if cause.command_hash is None or isinstance(fact.event.body, NO_CONSENT):
                continue
            known = accepted.setdefault(cause.command_id, fact)
            before = known.event.envelope.cause
            if before.command_hash != cause.command_hash:
                told = f"command id {cause.command_id!r} is accepted with two contents (first: seq {_seq(known)})"
                yield of(fact, NO_KEY_REUSE, told)
            elif cause_of(known) != cause_of(fact):
                told = f"command {cause.command_id!r} is accepted at offsets {before.offset} and {cause.offset}"
                yield of(fact, IDEMPOTENT, told)


def decided_once(history: History) -> Iterator[Violation]:
    """5: the events of one command lie together: it was decided in one go, or kept and decided on release."""
    for facts in history.sessions.values():
        last: At | None = None
        closed: set[At] = set()
        comes_back = {cause_of(fact) for fact in facts if isinstance(fact.event.body, KEPT)}
        for fact in facts:
            cause = cause_of(fact)
            if cause == last:
                continue
            if cause in closed and cause not in comes_back:
                yield of(
                    fact, IDEMPOTENT, f"the command at {cause[1]}/{cause[2]} was decided twice"
                )
            if last is not None:
                closed.add(last)
            last = cause


def kept_are_decided(history: History) -> Iterator[Violation]:
    """5: what was kept while a session was held is decided, or kept once more, where it goes on; once each.

    Results are left out: one that was recorded before leaves nothing. What goes on is held or over, or has an event of each.
    """
    for facts in history.sessions.values():
        kept: dict[At, Fact] = {}
        owed: dict[At, Fact] = {}
        for fact in facts:
            body, cause = fact.event.body, cause_of(fact)
            owed.pop(cause, None)
            if isinstance(body, r.CommandParked) and fact.event.envelope.cause.command_hash:
                kept[cause] = fact
            elif isinstance(body, r.SessionReleased | r.SessionReset):
                owed, kept = {**owed, **kept}, {}
            elif isinstance(body, r.SessionCancelled | r.CompensationStarted):
                kept.clear()
                owed.clear()
        for fact in owed.values():
            kind = getattr(fact.event.body, "command_type", "command")
            yield of(fact, IDEMPOTENT, f"the {kind} that was kept was never decided")


def nothing_waits(history: History) -> Iterator[Violation]:
    """38, first half: at quiescence every command is below the committed offset."""
    committed = history.evidence.committed
    if not history.evidence.quiescent or committed is None:
        return
    ends = {place_of(record): record for record, _ in history.requests}
    yield from unread(ends, committed)


def unread(ends: Mapping[Place, Record], committed: Mapping[Place, int]) -> Iterator[Violation]:
    """38, first half, from the last command of each partition."""
    for place, record in ends.items():
        limit = committed.get(place, 0)
        if record.offset >= limit:
            told = f"all is quiet, but commands from {limit} on in partition {record.partition} are not read"
            yield Violation(NOBODY_STRANDED, _key(record), record.offset, told)


def _seq(fact: Fact) -> int:
    return fact.event.envelope.seq


def _key(record: Record) -> str:
    return (record.key or b"").decode(errors="backslashreplace")


def _about(request: Request, invariant: int, told: str) -> Violation:
    asked = request.asked
    kind = asked.kind if asked else "unreadable command"
    return Violation(invariant, _key(request.record), request.record.offset, f"{kind}: {told}")
