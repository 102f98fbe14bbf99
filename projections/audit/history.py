"""The evidence, decoded once: facts per session in their order, tasks, outcomes, snapshots, dead letters."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ...events import records as r
from ...events.avro import Encoded
from ...events.codec import (
    ATTEMPTS,
    decode_outcome,
    decode_snapshot,
    decode_task,
    read_event,
)
from ...events.errors import Undecodable
from ...events.hashing import HASH_SIZE, event_hash
from ...events.headers import DeadLetter, dead_letter_in, fingerprint_in
from ...events.log.protocol import Headers, Place, Record
from .evidence import Asked, Evidence, Kept, ReadCommand, Violation
from .invariants import GAPLESS

Session = tuple[str, str]
At = tuple[str, int, int]


class Fact(NamedTuple):
    """One event where it lies, with its bytes as stored."""

    record: Record
    event: r.Event
    stored: Encoded


class Request(NamedTuple):
    """One command where it lies; `asked` is null where it cannot be read."""

    record: Record
    asked: Asked | None


@dataclass(slots=True)
class History:
    """See the module. `unreadable` are records of ours that do not decode: each is a violation."""

    evidence: Evidence
    facts: list[Fact]
    sessions: dict[Session, list[Fact]]
    requests: list[Request]
    tasks: list[tuple[Record, r.ActivityTask]]
    outcomes: list[tuple[Record, r.Outcome]]
    snapshots: list[tuple[Record, r.Snapshot | r.PartitionMark]]
    dead_letters: list[tuple[Record, DeadLetter]]
    overs: list[tuple[Record, r.AttemptOver]] = field(default_factory=list)
    unreadable: list[Violation] = field(default_factory=list)
    knows_commands: bool = False
    since_ms: int = 0
    """From when on tasks and outcomes are still complete."""

    @classmethod
    def read(cls, evidence: Evidence, read_command: ReadCommand | None) -> History:
        """Decodes everything; commands only where somebody who knows them reads them.

        What no worker could read is no task once there is a dead letter of it.
        """
        unreadable: list[Violation] = []
        facts = [
            Fact(record, *read)
            for record, read in _decoded(evidence.events, read_event, unreadable)
        ]
        sessions: dict[Session, list[Fact]] = defaultdict(list)
        for fact in facts:
            envelope = fact.event.envelope
            sessions[envelope.tenant, envelope.session_id].append(fact)
        dead = [(record, dead_letter_in(record.headers)) for record in evidence.dead_letters]
        letters = [(record, letter) for record, letter in dead if letter is not None]
        aside = {(letter.topic, letter.partition, letter.offset) for _, letter in letters}
        activities = [
            record
            for record in evidence.activities
            if (record.topic, record.partition, record.offset) not in aside
        ]
        return cls(
            evidence=evidence,
            facts=facts,
            sessions=dict(sessions),
            requests=[Request(record, read_command(record)) for record in evidence.commands]
            if read_command
            else [],
            tasks=_decoded(activities, decode_task, unreadable),
            outcomes=_decoded(evidence.outcomes, decode_outcome, unreadable),
            snapshots=_decoded(evidence.snapshots, decode_snapshot, unreadable),
            dead_letters=letters,
            overs=_decoded(evidence.attempts, _decode_over, unreadable),
            unreadable=unreadable,
            knows_commands=read_command is not None,
            since_ms=_since_ms(evidence),
        )


def name_of(session: Session) -> str:
    """How a session is named in a sentence."""
    return "/".join(session)


def place_of(record: Record) -> Place:
    """Where a record lies."""
    return Place(record.topic, record.partition)


def cause_of(fact: Fact) -> At:
    """Where the command lies that led to an event."""
    cause = fact.event.envelope.cause
    return cause.topic, cause.partition, cause.offset


def hash_of(fact: Fact) -> bytes:
    """The event's own hash, over its stored bytes; none for an event that names no hash before it, but something else."""
    prev_hash = fact.event.envelope.prev_hash
    if len(prev_hash) != HASH_SIZE:
        return b""
    return event_hash(fact.stored.fingerprint, fact.stored.body, prev_hash)


def of(fact: Fact, invariant: int | str, sentence: str) -> Violation:
    """A violation found at an event."""
    envelope = fact.event.envelope
    session = f"{envelope.tenant}/{envelope.session_id}"
    return Violation(invariant, session, fact.record.offset, sentence, envelope.seq)


def _since_ms(evidence: Evidence) -> int:
    if evidence.complete_since_ms is not None:
        return evidence.complete_since_ms
    kept = Kept(evidence.topics, evidence.trimmed)
    if evidence.trimmed:
        for record in (*evidence.activities, *evidence.outcomes, *evidence.dead_letters):
            kept.see(record)
    return kept.since_ms


def _decode_over(value: bytes | None, headers: Headers) -> Any:
    return ATTEMPTS.decode(value, fingerprint_in(headers))


def _decoded(
    records: Any, decode: Callable[[bytes | None, Headers], Any], unreadable: list[Violation]
) -> list[tuple[Record, Any]]:
    found: list[tuple[Record, Any]] = []
    for record in records:
        if record.value is None and record.topic.endswith(".snapshots.v1"):
            continue  # a tombstone: compaction may drop what it names
        try:
            found.append((record, decode(record.value, record.headers)))
        except Undecodable as error:
            key = (record.key or b"").decode(errors="backslashreplace")
            told = f"a record of {record.topic} does not decode: {error.message}"
            unreadable.append(Violation(GAPLESS, key, record.offset, told))
    return found
