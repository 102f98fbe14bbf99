"""A long history of many sessions, of every topic, as processors write it: one session recorded, and then retold.

The recorded session is decided by the processor's own loop on the log in memory. Each retelling has another session id
and other places, with all that hangs on these: keys, causes, the chain, the state in its snapshots.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Any

from bench.app import gated_tool, model, tool, turns
from wakeful.commands.check import Facts
from wakeful.commands.models import (
    Command,
    CommandBody,
    CommandHeader,
    CompleteActivity,
    DecideApproval,
    OpenSession,
    SendMessage,
)
from wakeful.commands.policy import EVERYBODY
from wakeful.commands.wire import command_hash, decode_command, encode_command
from wakeful.events import records as r
from wakeful.events.codec import (
    decode_event,
    decode_outcome,
    decode_snapshot,
    decode_task,
    encode_event,
    encode_outcome,
    encode_snapshot,
    encode_state,
    encode_task,
)
from wakeful.events.envelopes import read_envelope
from wakeful.events.evolve import evolve, fold_head
from wakeful.events.hashing import event_hash
from wakeful.events.headers import (
    BATCH,
    BATCH_COUNT,
    batch_headers,
    event_headers,
    find,
    record_headers,
)
from wakeful.events.keys import partition_of, session_key, task_key
from wakeful.events.log.memory import MemoryLog
from wakeful.events.log.protocol import Place, Record
from wakeful.events.payloads import json_payload
from wakeful.events.state import Head, SessionState, State
from wakeful.events.topics import Topics
from wakeful.processors.app import gather
from wakeful.processors.clock import Clock
from wakeful.processors.handler import CommandHandler
from wakeful.processors.loop import Loop, LoopSettings

TOPICS, PARTITIONS = Topics("bench"), 4
DIGEST_KEY = b"bench digest key"
START_MS = 1_700_000_000_000
TEMPLATE = "s000000"
"""The recorded session; all ids are of its length."""

MARKS = frozenset({BATCH, BATCH_COUNT})

STEPS_BEFORE = 10
PASSES_MAX = 2_000


class _Clock(Clock):
    def __init__(self) -> None:
        self.ms = START_MS

    def now_ms(self) -> int:
        return self.ms

    def steady_ms(self) -> int:
        return self.ms


def recorded() -> list[Record]:
    """All committed records of one session, from its opening to its completion, in the order of time."""
    clock = _Clock()
    app = gather((turns, model, tool, gated_tool))
    with MemoryLog(now_ms=lambda: clock.ms) as log:
        log.create_topics(TOPICS.specs(app.queues, 1))
        loop = Loop(
            log,
            TOPICS,
            CommandHandler(app, Facts(DIGEST_KEY, policy=EVERYBODY)),
            LoopSettings("bench.processors", "bench.processors.0", None),
            clock,
        )
        steps = loop.steps()
        hand = _Hand(log, clock)
        hand.send(OpenSession("turns"), "ann")
        hand.send(SendMessage(json_payload({"before": STEPS_BEFORE}, DIGEST_KEY)), "ann")
        for _ in range(PASSES_MAX):
            clock.ms += 1
            next(steps)
            if hand.answer():
                break
        else:
            raise RuntimeError("the recorded session does not come to its end")
        names = [TOPICS.commands, TOPICS.activities("default"), TOPICS.events, TOPICS.outcomes]
        return [record for name in [*names, TOPICS.snapshots] for record in log.dump(name)]


@dataclass(slots=True)
class _Hand:
    """Who asks, approves and works."""

    log: MemoryLog
    clock: _Clock
    sent: int = 0
    seen: int = 0

    def send(self, body: CommandBody, actor: str) -> None:
        self.sent += 1
        header = CommandHeader(
            "acme", TEMPLATE, f"c{self.sent}", self.clock.ms, actor, None, "bench", None
        )
        encoded = encode_command(Command(header, body))
        producer = self.log.producer()
        producer.produce(
            TOPICS.commands,
            key=session_key("acme", TEMPLATE),
            value=encoded.value,
            headers=record_headers(encoded, header.command_id),
        )
        producer.flush(1_000)

    def answer(self) -> bool:
        """Says what new events ask for; whether the session is over."""
        events = self.log.dump(TOPICS.events)[self.seen :]
        self.seen += len(events)
        for record in events:
            match decode_event(record.value, record.headers).body:
                case r.ActivityRequested() as asked:
                    answer = json_payload({"step": asked.step, "text": "x" * 300}, DIGEST_KEY)
                    self.send(CompleteActivity(asked.activity_id, 1, answer, "w1"), "worker:w1")
                case r.ApprovalRequested() as asked:
                    self.send(DecideApproval(asked.proposal_id, asked.digest, "approve", ""), "sue")
                case r.SessionCompleted():
                    return True
                case _:
                    pass
        return False


def retold(template: list[Record], sessions: int) -> Iterator[Record]:
    """The records of so many sessions, one session after another."""
    places: dict[Place, int] = {}
    for number in range(1, sessions + 1):
        yield from _Retold(f"s{number:06}", places).records(template)


@dataclass(slots=True)
class _Retold:
    """One session more; `places` are the ends of partitions, which it moves."""

    session_id: str
    places: dict[Place, int]
    commands: dict[int, Record] = field(default_factory=dict)
    hashes: dict[int, bytes | None] = field(default_factory=dict)
    snapshots: dict[int, SessionState] = field(default_factory=dict)
    stored: dict[int, r.StoredEvent] = field(default_factory=dict)
    head: Head = field(default_factory=Head)
    state: State | None = None

    def records(self, template: list[Record]) -> Iterator[Record]:
        """Commands come first in the template, since events name them, and snapshots last."""
        yield from map(self._told, template)

    def _told(self, record: Record) -> Record:
        key = session_key("acme", self.session_id)
        if record.topic == TOPICS.commands:
            return self._command(record, key)
        if record.topic == TOPICS.events:
            return self._event(record, key)
        if record.topic == TOPICS.outcomes:
            outcome = replace(
                decode_outcome(record.value, record.headers), session_id=self.session_id
            )
            encoded = encode_outcome(outcome)
            return self._put(record, key, encoded.value, record_headers(encoded, "o"))
        if record.topic == TOPICS.snapshots:
            return self._snapshot(record, key)
        task = decode_task(record.value, record.headers)
        own = self._own(task.idempotency_key)
        encoded = encode_task(replace(task, session_id=self.session_id, idempotency_key=own))
        key = task_key(own, task.attempt)
        return self._put(record, key, encoded.value, record_headers(encoded, key.decode()))

    def _command(self, record: Record, key: bytes) -> Record:
        command = decode_command(record.value, record.headers)
        header = replace(command.header, session_id=self.session_id)
        encoded = encode_command(replace(command, header=header))
        told = self._put(record, key, encoded.value, record_headers(encoded, header.command_id))
        self.commands[record.offset] = told
        self.hashes[record.offset] = command_hash(encoded)
        return told

    def _event(self, record: Record, key: bytes) -> Record:
        event = decode_event(record.value, record.headers)
        envelope, body = event.envelope, event.body
        asked = self.commands[envelope.cause.offset]
        hashed = envelope.cause.command_hash and self.hashes[envelope.cause.offset]
        cause = replace(
            envelope.cause, partition=asked.partition, offset=asked.offset, command_hash=hashed
        )
        envelope = replace(
            envelope, session_id=self.session_id, cause=cause, prev_hash=self.head.hash
        )
        if isinstance(body, r.ActivityRequested):
            body = replace(body, idempotency_key=self._own(body.idempotency_key))
        event = r.Event(envelope, body)
        encoded = encode_event(event)
        hashed = event_hash(encoded.fingerprint, encoded.body, envelope.prev_hash)
        self.head = fold_head(self.head, envelope, hashed)
        self.state = evolve(self.state, event)
        self.stored[envelope.seq] = r.StoredEvent(encoded.fingerprint, encoded.body)
        self.snapshots[envelope.seq] = SessionState(self.head, self.state)
        return self._put(record, key, encoded.value, event_headers(encoded, key, envelope.seq))

    def _snapshot(self, record: Record, key: bytes) -> Record:
        snapshot = record.value and decode_snapshot(record.value, record.headers)
        own = (record.key or b"").replace(TEMPLATE.encode(), self.session_id.encode())
        if isinstance(snapshot, r.JournalChunk):
            kept = tuple(self.stored[read_envelope(one.body).seq] for one in snapshot.events)
            chunk = encode_snapshot(replace(snapshot, session_id=self.session_id, events=kept))
            return self._put(record, own, chunk.value, record_headers(chunk, "c"))
        if not isinstance(snapshot, r.Snapshot):  # the word that a chunk is gone
            plain = [(name, value) for name, value in record.headers if name not in MARKS]
            return self._put(record, own, record.value, plain)
        state = encode_state(self.snapshots[snapshot.seq])
        hashed = sha256(state).digest()
        encoded = encode_snapshot(
            replace(snapshot, session_id=self.session_id, state=state, state_hash=hashed)
        )
        return self._put(record, key, encoded.value, record_headers(encoded, "s"))

    def _own(self, idempotency_key: str) -> str:
        return idempotency_key.replace(TEMPLATE, self.session_id)

    def _put(self, record: Record, key: bytes, value: bytes | None, headers: list[Any]) -> Record:
        """Where it would lie; in a transaction of its session's own."""
        home = key if "activities" in record.topic else session_key("acme", self.session_id)
        place = Place(record.topic, partition_of(home, PARTITIONS))
        offset = self.places[place] = self.places.get(place, -1) + 1
        batch = find(record.headers, BATCH)
        if batch is not None:
            count = int(find(record.headers, BATCH_COUNT) or b"0")
            headers += batch_headers(f"{self.session_id}-{batch.decode()}", count)
        return Record(*place, offset, record.timestamp_ms, key, value, tuple(headers))


def events_of(template: list[Record]) -> int:
    """How many events each session has."""
    return sum(record.topic == TOPICS.events for record in itertools.chain(template))
