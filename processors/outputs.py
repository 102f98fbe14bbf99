"""From a batch of commands to the records of one transaction: pure, but for the encoding.

Everything that the transaction will hold is known before the first record is produced, so that each can carry the
batch's id and count, and a reader can tell a torn transaction.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ..commands.check import Refusal
from ..commands.identity import INSECURE, Identity
from ..commands.models import INTERNAL, Command
from ..commands.wire import command_hash, encode_command, read_command
from ..events import freezing
from ..events import records as r
from ..events.codec import ATTEMPTS, SNAPSHOTS, encode_outcome, encode_task
from ..events.contracts import ONCE
from ..events.errors import Rejected, Undecodable
from ..events.headers import (
    OVER_QUOTA,
    TRACEPARENT,
    batch_headers,
    dead_letter_headers,
    event_headers,
    record_headers,
)
from ..events.keys import chunk_key, mark_key, partition_of, session_key, task_key
from ..events.log.protocol import Headers, Record
from ..events.topics import Topics
from .between import refused
from .effects import outcome_of, over_of, refused_outcome
from .handler import CommandHandler
from .partition import Partition
from .quotas import Quotas, Trial, over_quota
from .session import Parts, Received, Session, Stamped
from .snapshots import chunks_of, snapshot_of, void_keys, written_parts
from .store import Change, TailEvent, encode_base

IDENTITY = "identity"
"""What fails this check was said by nobody we know: nobody is told of it but its sender."""

MARK_EVERY_EVENTS = 1_000
"""Events between two partition marks: a recovery without a store reads at most about that much too much."""


@freezing.dataclass(frozen=True, slots=True)
class Output:
    """One record to be produced; `partition` is null where the key decides.

    `counted`: it stays as long as the events do, for practical purposes. A snapshot does not, since its topic is
    compacted, and a word to running workers is gone after a day.
    """

    topic: str
    key: bytes | None
    value: bytes | None
    headers: Headers
    partition: int | None
    counted: bool = True


@dataclass(slots=True)
class Folded:
    """What one partition's share of a batch came to."""

    partition: Partition
    next_offset: int
    cause_high: int
    meters: Trial
    outputs: list[Output] = field(default_factory=list)
    scratch: dict[bytes, Session] = field(default_factory=dict)
    tails: dict[bytes, list[TailEvent]] = field(default_factory=dict)
    bases: dict[bytes, bytes] = field(default_factory=dict)
    events: int = 0

    def changes(self) -> list[Change]:
        """The sessions that got events, or of which only a sign of life was observed, for `Partition.keep`."""
        return [
            Change(key, session, self.tails.get(key, ()), self.bases.get(key))
            for key, session in self.scratch.items()
        ]


class Folder:
    """Folds commands of one partition into outputs, on scratch copies of its sessions."""

    def __init__(
        self,
        topics: Topics,
        handler: CommandHandler,
        quotas: Quotas | None = None,
        identity: Identity = INSECURE,
    ) -> None:
        self._topics = topics
        self._quotas = quotas or Quotas()
        self._identity = identity
        self._handler = handler
        handler.believe(identity)
        self.partitions: int | None = None
        """How many there are of each topic; not known to whoever folds records that it has placed itself."""
        self._since_mark: dict[int, int] = {}

    def fold(self, partition: Partition, records: Sequence[Record]) -> Folded:
        """The outputs of these commands, in order; nothing live is touched."""
        last = records[-1].offset
        folded = Folded(partition, last + 1, last, partition.meters.trial())
        for record in records:
            self._fold_one(folded, record)
        for untold in folded.meters.untold():
            told = untold.sentence()
            folded.outputs.append(
                self._dead(untold.first, untold.reason, told, untold.count, untold.last_offset)
            )
        for key in folded.tails:
            self._snapshot(folded, key)
        self._mark(folded)
        return folded

    def _fold_one(self, folded: Folded, record: Record) -> None:
        try:
            command, stored = read_command(record.value, record.headers)
            key = session_key(command.header.tenant, command.header.session_id)
        except Rejected as error:
            reason = error.reason if isinstance(error, Undecodable) else "invalid_key"
            self._turn_away(folded, record, reason, str(error))
            return
        if record.key != key:
            told = f"the record's key is {record.key!r}, its header says {key!r}"
            self._turn_away(folded, record, "key_mismatch", told)
            return
        if self._is_misplaced(folded, record, key):
            return
        evidence = self._identity.check(command, stored, record)
        if isinstance(evidence, Refusal):
            self._refuse(folded, record, command, evidence)
            return
        hashed = None if isinstance(command.body, INTERNAL) else command_hash(stored)
        received = Received(
            command,
            stored,
            hashed,
            record.topic,
            record.partition,
            record.offset,
            record.timestamp_ms,
            evidence.kid,
        )
        session = folded.scratch.get(key)
        if session is None:
            session = folded.partition.session(key).copy()
        over = over_quota(self._quotas, folded.meters, session, received)
        if over is not None:
            self._refuse(folded, record, command, over)
            return
        heard = dict(session.beats)
        stamped, refusal = self._handler.handle(session, received)
        if stamped or session.beats != heard:
            folded.scratch[key] = session
        if stamped:
            tail = folded.tails.setdefault(key, [])
            tail.extend(
                TailEvent(s.event.envelope.seq, s.encoded.fingerprint, s.encoded.body)
                for s in stamped
            )
            folded.events += len(stamped)
            trace = _traceparent(record)
            for one in stamped:
                self._emit(folded, key, one, trace)
        elif refusal is not None:
            self._refuse(folded, record, command, refusal)

    def _is_misplaced(self, folded: Folded, record: Record, key: bytes) -> bool:
        """A record lies where its key says. A signed one that was copied elsewhere would find no session there, and be new."""
        if self.partitions is None:
            return False
        number = partition_of(key, self.partitions)
        if number == record.partition:
            return False
        told = f"key {key!r} belongs in partition {number} of {self.partitions}: partition by murmur2, as Java does"
        self._turn_away(folded, record, "wrong_partition", told)
        return True

    def _emit(self, folded: Folded, key: bytes, stamped: Stamped, trace: bytes | None) -> None:
        event, number = stamped.event, folded.partition.number
        seq = event.envelope.seq
        headers = event_headers(stamped.encoded, key, seq, trace)
        folded.outputs.append(
            Output(self._topics.events, key, stamped.encoded.value, headers, number)
        )
        task = stamped.task
        if task is not None:
            encoded = encode_task(task)
            own_key = task_key(task.idempotency_key, task.attempt)
            headers = record_headers(encoded, own_key.decode(), trace)
            topic = self._topics.activities(task.queue, once=task.contract in ONCE)
            folded.outputs.append(Output(topic, own_key, encoded.value, headers, None))
        over = over_of(event)
        if over is not None:
            encoded = ATTEMPTS.encode(over)
            own_key = task_key(over.idempotency_key, over.attempt)
            headers = record_headers(encoded, own_key.decode(), trace)
            folded.outputs.append(
                Output(
                    self._topics.attempts,
                    own_key,
                    encoded.value,
                    headers,
                    None,
                    counted=False,
                )
            )
        for command in stamped.commands:
            folded.outputs.append(self._command(command, trace))
        outcome = outcome_of(event)
        if outcome is not None:
            outcome_id = f"{key.decode()}/{seq}"
            folded.outputs.append(self._outcome(key, outcome, outcome_id, number, trace))

    def _command(self, command: Command, trace: bytes | None) -> Output:
        """What another session is told: signed by the key of this processor, in the transaction of what it follows from."""
        header, topic = command.header, self._topics.commands
        key, encoded = session_key(header.tenant, header.session_id), encode_command(command)
        headers = record_headers(encoded, f"{key.decode()}/{header.command_id}", trace)
        headers.extend(self._identity.sign(command, topic, key, encoded.value))
        return Output(topic, key, encoded.value, headers, None, counted=False)

    def _refuse(self, folded: Folded, record: Record, command: Command, refusal: Refusal) -> None:
        """A refusal that leaves no event: strangers cannot grow a history, nor, by sending many, the outcomes."""
        if refusal.check != IDENTITY:
            told = refused(command, refusal.reason, refusal.detail, record.timestamp_ms)
            if told is not None:
                folded.outputs.append(self._command(told, _traceparent(record)))
        tenant = command.header.tenant if refusal.reason == OVER_QUOTA else None
        if not self._turn_away(folded, record, refusal.reason, refusal.detail, tenant):
            return
        key = record.key or b""
        outcome = refused_outcome(command, refusal, record.timestamp_ms)
        outcome_id = f"{record.topic}/{record.partition}/{record.offset}"
        number = folded.partition.number
        folded.outputs.append(self._outcome(key, outcome, outcome_id, number, _traceparent(record)))

    def _turn_away(
        self, folded: Folded, record: Record, reason: str, detail: str, tenant: str | None = None
    ) -> bool:
        """A dead letter; or, where its key (or its tenant) has had many, one with others at the batch's end: then false."""
        whose = (reason, tenant) if tenant is not None else ("refusals", record.key)
        if not folded.meters.tells(record, reason, detail, whose, self._quotas.refusals):
            return False
        folded.outputs.append(self._dead(record, reason, detail))
        return True

    def _outcome(
        self, key: bytes, outcome: r.Outcome, id_: str, number: int, trace: bytes | None
    ) -> Output:
        encoded = encode_outcome(outcome)
        return Output(
            self._topics.outcomes, key, encoded.value, record_headers(encoded, id_, trace), number
        )

    def _dead(
        self, record: Record, reason: str, detail: str, count: int = 1, last_offset: int = -1
    ) -> Output:
        headers = dead_letter_headers(record, reason, detail, count=count, last_offset=last_offset)
        return Output(self._topics.dead_letters, record.key, record.value, headers, None)

    def _snapshot(self, folded: Folded, key: bytes) -> None:
        """What the snapshots topic is to hold of a session that got events; see `snapshots`."""
        session, tail = folded.scratch[key], folded.tails[key]
        if session.at_rest:
            session.rebase()
        moved = session.base_seq >= tail[0].seq
        before, parts = session.parts, written_parts(session, moved=moved)
        if moved:
            base = folded.bases[key] = encode_base(session)
            self._keep_beside(folded, key, snapshot_of(session, base))
        begun = moved and session.tail_from == session.base_seq
        if begun or (session.parked and session.broken is None):
            if parts.upto + 1 < tail[0].seq:
                tail = [*folded.partition.tail(key, parts.upto), *tail]
            chunks = chunks_of(session, parts, [e for e in tail if e.seq > parts.upto])
            for chunk in chunks:
                self._keep_beside(folded, chunk_key(key, chunk.chunk), chunk)
            if chunks:
                parts = Parts(parts.base_seq, chunks[-1].chunk, session.head.seq)
        for void in void_keys(key, before, parts):
            self._keep_beside(folded, void, None)
        session.parts = parts

    def _keep_beside(
        self, folded: Folded, key: bytes, kept: r.Snapshot | r.JournalChunk | r.PartitionMark | None
    ) -> None:
        """One record of the snapshots topic, to be told by its key; without a value it deletes."""
        value: bytes | None = None
        headers: Headers = ()
        if kept is not None:
            encoded = SNAPSHOTS.encode(kept)
            value, headers = encoded.value, record_headers(encoded, key.decode())
        number = folded.partition.number
        folded.outputs.append(
            Output(self._topics.snapshots, key, value, headers, number, counted=False)
        )

    def _mark(self, folded: Folded) -> None:
        """From time to time, where a recovery without a store may start to read events."""
        partition = folded.partition
        since = self._since_mark.get(partition.number, 0) + folded.events
        if since >= MARK_EVERY_EVENTS:
            since = 0
            low_offset = partition.low_offset()
            mark = r.PartitionMark(partition.number, low_offset)
            self._keep_beside(folded, mark_key(partition.number), mark)
        self._since_mark[partition.number] = since


def with_batch(outputs: Sequence[Output], batch_id: str) -> list[Output]:
    """The outputs; those that stay carry the batch's id and their count, so that a torn batch can be told."""
    marks = batch_headers(batch_id, sum(o.counted for o in outputs))
    return [
        Output(o.topic, o.key, o.value, (*o.headers, *marks), o.partition) if o.counted else o
        for o in outputs
    ]


def _traceparent(record: Record) -> bytes | None:
    """The trace that the command belongs to; everything it leads to belongs to it as well."""
    return next((value for name, value in record.headers if name == TRACEPARENT), None)
