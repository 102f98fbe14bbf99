"""A clean chronicle of every topic, written as a processor would, that a test can tamper with while it is written."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from tempfile import mkdtemp

import pytest

from wakeful.commands import models as m
from wakeful.commands.wire import command_hash, decode_command, encode_command
from wakeful.events import records as r
from wakeful.events.codec import (
    ATTEMPTS,
    STATES,
    decode_event,
    encode_outcome,
    encode_snapshot,
    encode_task,
)
from wakeful.events.contracts import ONCE
from wakeful.events.evolve import evolve, fold_head
from wakeful.events.headers import batch_headers, dead_letter_headers, record_headers
from wakeful.events.keys import partition_of, session_key, task_key
from wakeful.events.log.protocol import Place, Record
from wakeful.events.state import STATE_VERSION, Head, SessionState
from wakeful.events.topics import Topics
from wakeful.projections.audit import Evidence, Violation, asked_by, audit, rebuild_rows
from wakeful.projections.audit.slices import KINDS, SLICE_RECORDS, Source, audit_slices
from wakeful.projections.audit.tasks import OUTCOME_KINDS, newest_of, withheld

S = ("acme", "s1")
TOPICS = Topics("test")
DIGEST = b"\1" * 32


def same(body: r.EventBody) -> list[r.EventBody]:
    return [body]


@dataclass
class Chronicle:
    """One session's commands and what came of them. `tamper` may change, drop or repeat each fact."""

    scribe: object
    tamper: Callable[[r.EventBody], list[r.EventBody]] = same
    commands: list[Record] = field(default_factory=list)
    tasks: list[Record] = field(default_factory=list)
    outcomes: list[Record] = field(default_factory=list)
    snapshots: list[Record] = field(default_factory=list)
    dead: list[Record] = field(default_factory=list)
    overs: list[Record] = field(default_factory=list)
    state: object = None
    head: Head = field(default_factory=Head)
    batch: int = 0
    requests: dict[str, r.ActivityRequested] = field(default_factory=dict)
    actors: dict[tuple[int, int], str] = field(default_factory=dict)

    def ask(
        self, body: m.CommandBody, *, command_id: str | None = None, session=S, actor="ann"
    ) -> r.Cause:
        self.batch += 1
        command_id = command_id or f"c{len(self.commands)}"
        header = m.CommandHeader(
            *session, command_id, self.scribe.now_ms, actor, None, "test", None
        )
        encoded = encode_command(m.Command(header, body))
        record = self.put(
            TOPICS.commands,
            session_key(*session),
            encoded.value,
            record_headers(encoded, command_id),
        )
        self.commands.append(record)
        self.actors[record.partition, record.offset] = actor
        hashed = None if isinstance(body, m.INTERNAL) else command_hash(encoded)
        issued = None if hashed is None else header.issued_at_ms
        return r.Cause(record.topic, record.partition, record.offset, command_id, hashed, issued)

    def put(self, topic: str, key: bytes, value: bytes | None, headers=()) -> Record:
        of_topic = [
            *self.commands,
            *self.tasks,
            *self.outcomes,
            *self.snapshots,
            *self.dead,
            *self.overs,
        ]
        partition = partition_of(key, self.scribe.partitions)
        offset = sum((x.topic, x.partition) == (topic, partition) for x in of_topic)
        return Record(topic, partition, offset, self.scribe.now_ms, key, value, tuple(headers))

    def fact(self, cause: r.Cause, *bodies: r.EventBody, at_ms: int | None = None) -> None:
        for body in bodies:
            for told in self.tamper(body):
                self.append(cause, told, at_ms)

    def append(self, cause: r.Cause, body: r.EventBody, at_ms: int | None) -> None:
        attempt = None if withheld(body) is not None else newest_of(body)
        count = 1 + (type(body) in OUTCOME_KINDS) + (attempt is not None)
        marks = batch_headers(f"b{len(self.scribe.records)}", count)
        actor = self.actors.get((cause.partition, cause.offset), "ann")
        event = self.scribe.add(S, body, actor=actor, cause=cause, extra_headers=marks, at_ms=at_ms)
        envelope = event.envelope
        try:
            self.state = evolve(self.state, event)
        except Exception:
            self.state = self.state  # a planted fact need not fold
        self.head = fold_head(self.head, envelope, self.scribe.heads[S][1])
        if isinstance(body, r.ActivityRequested):
            self.requests[body.activity_id] = body
        if attempt is not None and body.activity_id in self.requests:
            self.task(self.requests[body.activity_id], attempt, envelope.seq, marks)
        if type(body) in OUTCOME_KINDS:
            self.outcome(envelope.seq, OUTCOME_KINDS[type(body)], marks=marks)

    def task(self, asked: r.ActivityRequested, attempt: int, seq: int, marks=()) -> None:
        task = r.ActivityTask(
            *S,
            asked.activity_id,
            attempt,
            asked.name,
            asked.queue,
            asked.contract,
            asked.arguments,
            asked.idempotency_key,
            asked.start_to_close_ms,
            asked.deadline_ms,
            seq,
            "ann",
            None,
            asked.settle_ms,
            asked.heartbeat_ms,
        )
        encoded = encode_task(task)
        key = task_key(asked.idempotency_key, attempt)
        headers = [*record_headers(encoded, key.decode()), *marks]
        topic = TOPICS.activities(asked.queue, once=asked.contract in ONCE)
        self.tasks.append(self.put(topic, key, encoded.value, headers))

    def over(self, activity_id: str, attempt: int) -> None:
        """Tells the workers that nobody waits for this attempt any more."""
        own = f"acme/s1/{activity_id.replace('.', '/')}"
        encoded = ATTEMPTS.encode(r.AttemptOver(*S, activity_id, attempt, own, "why"))
        key = task_key(own, attempt)
        headers = record_headers(encoded, key.decode())
        self.overs.append(self.put(TOPICS.attempts, key, encoded.value, headers))

    def outcome(self, seq: int | None, kind: str, *, session=S, command_id=None, marks=()) -> None:
        outcome = r.Outcome(
            *session, seq, 1, kind, None, None, command_id, None, None, None, None, None
        )
        encoded = encode_outcome(outcome)
        headers = [*record_headers(encoded, f"{session}{seq}"), *marks]
        self.outcomes.append(
            self.put(TOPICS.outcomes, session_key(*session), encoded.value, headers)
        )

    def bury(self, record: Record, reason: str = "why", *, count: int = 1, last: int = -1) -> None:
        headers = dead_letter_headers(record, reason, "because", count=count, last_offset=last)
        self.dead.append(self.put(TOPICS.dead_letters, record.key or b"", record.value, headers))

    def snapshot(self, state: SessionState | None = None) -> None:
        stored = STATES.encode(state or SessionState(self.head, self.state)).value
        value = r.Snapshot(*S, self.head.seq, STATE_VERSION, stored, sha256(stored).digest())
        encoded = encode_snapshot(value)
        self.snapshots.append(
            self.put(TOPICS.snapshots, session_key(*S), encoded.value, record_headers(encoded, "x"))
        )

    def story(self) -> Chronicle:
        """Everything once: message, tool, approval, gated tool, timer, repeats, refusals, strangers, end."""
        say, scribe = self.scribe.payload, self.scribe
        self.fact(self.ask(m.OpenSession("desk")), r.SessionOpened("desk"))
        cause = self.ask(m.SendMessage(say("hi")), command_id="m1")
        self.fact(
            cause,
            r.MessageReceived("m1", say("hi")),
            r.TurnStarted(1, "message", "", "m1", "desk", 1, ()),
            self.activity("1.1"),
        )
        self.ask(
            m.SendMessage(say("hi")), command_id="m1"
        )  # the caller did not see the first acknowledged
        cause = self.ask(m.CompleteActivity("1.1", 1, say(1), "w1"), actor="w1")
        expires_ms = scribe.now_ms + 1_000
        self.fact(
            cause,
            r.ActivityCompleted("1.1", 1, say(1), "w1"),
            r.ApprovalRequested(
                "1.2-p", 1, 2, "refund", "write", say(2), DIGEST, "boss", expires_ms
            ),
            r.SessionWaiting(1, (), ()),
        )
        self.ask(
            m.CompleteActivity("1.1", 1, say(1), "w1"), actor="w1"
        )  # the worker did not, either
        cause = self.ask(m.DecideApproval("1.2-p", DIGEST, "approve", ""), actor="boss")
        self.fact(
            cause,
            r.ApprovalGranted("1.2-p", DIGEST, ""),
            self.activity("1.3", approval="granted", proposal="1.2-p", digest=DIGEST),
        )
        cause = self.ask(
            m.FailActivity("1.3", 1, r.Failure("raised", "E", "m", ""), "w1"), actor="w1"
        )
        due_ms = scribe.now_ms + 50
        self.fact(
            cause,
            r.ActivityFailed("1.3", 1, r.Failure("raised", "E", "m", ""), "w1"),
            r.TimerSet("1.4", 1, 4, due_ms),
            r.SessionWaiting(1, (), ()),
        )
        self.ask(m.FireTimer("1.4", due_ms), actor="engine")  # early: nothing comes of it
        scribe.now_ms = due_ms
        cause = self.ask(m.FireTimer("1.4", due_ms), actor="engine")
        self.fact(
            cause,
            r.TimerFired("1.4", due_ms),
            r.ReplySent(1, 5, say("done")),
            r.TurnCompleted(1, 5, say(0), (), ()),
        )
        self.snapshot()
        cause = self.ask(m.DecideApproval("1.2-p", DIGEST, "reject", ""), actor="eve")
        self.fact(
            cause, r.CommandRefused("DecideApproval", "ordering", "already_decided", "by boss")
        )
        cause = self.ask(m.CompleteActivity("1.3", 1, say(9), "w2"), actor="w2")
        self.fact(cause, r.LateResultRecorded("1.3", 1, "completed", say(9), None, "w2"))
        self.strangers()
        self.fact(
            self.ask(m.CancelSession("enough")),
            r.CancellationRequested("enough"),
            r.SessionCancelled(("1.1",), (), ()),
        )
        return self

    def strangers(self) -> None:
        self.ask(
            m.SendMessage(self.scribe.payload(1)), session=("acme", "nobody"), command_id="lost"
        )
        self.outcome(None, "refused", session=("acme", "nobody"), command_id="lost")
        self.bury(self.commands[-1])
        self.commands.append(self.put(TOPICS.commands, b"acme/s1", b"garbage"))
        self.bury(self.commands[-1])

    def activity(
        self,
        activity_id: str,
        *,
        approval="none",
        proposal=None,
        digest=b"\2" * 32,
        retry=None,
        contract="read",
        **more,
    ) -> r.ActivityRequested:
        turn, step = map(int, activity_id.split("."))
        return r.ActivityRequested(
            activity_id,
            turn,
            step,
            "refund",
            "payments",
            contract,
            self.scribe.payload(1),
            digest,
            f"acme/s1/{turn}/{step}",
            1,
            10_000,
            self.scribe.now_ms + 30_000,
            approval,
            proposal,
            retry,
            **more,
        )

    def evidence(self, **changes) -> Evidence:
        committed: dict[Place, int] = {}
        for record in self.commands:
            committed[Place(record.topic, record.partition)] = record.offset + 1
        clean = Evidence(
            topics=TOPICS,
            partitions=self.scribe.partitions,
            commands=self.commands,
            events=self.scribe.records,
            activities=self.tasks,
            outcomes=self.outcomes,
            snapshots=self.snapshots,
            dead_letters=self.dead,
            attempts=self.overs,
            committed=committed,
            rows=rebuild_rows(decode_event(x.value, x.headers) for x in self.scribe.records),
            positions=dict(self.scribe.ends),
            quiescent=True,
        )
        return replace(clean, **changes)


@pytest.fixture
def begin(new_scribe):
    """A chronicle with nothing in it; `tamper` is called for each fact."""

    def start(tamper=same) -> Chronicle:
        return Chronicle(new_scribe(), tamper)

    return start


@pytest.fixture
def found(tmp_path):
    """The numbers of the broken promises in some evidence; in slices they are the same, word for word.

    Not where a record was moved to another key or partition (`moved`): there slices tell of more.
    """

    def numbers(evidence: Evidence, *, moved: bool = False) -> set[int | str]:
        violations = audit(evidence, asked_by(decode_command))
        assert all(str(violation).startswith(f"{violation.promise} ") for violation in violations)
        sliced = in_slices(evidence, tmp_path)
        told = {violation.invariant for violation in violations}
        if moved:
            assert told <= {violation.invariant for violation in sliced}
        else:
            assert sorted(map(str, sliced)) == sorted(map(str, violations))
        return told

    return numbers


def in_slices(evidence: Evidence, folder) -> list[Violation]:
    """What an audit finds that has a slice in memory at a time, of as many slices as there are records."""
    records = [record for kind in KINDS for record in getattr(evidence, kind)]
    rows = evidence.rows
    source = Source(
        evidence=replace(evidence, rows=None, **dict.fromkeys(KINDS, ())),
        records=lambda: records,
        rows=None
        if rows is None
        else lambda: [(table, key, row) for table in rows for key, row in rows[table].items()],
        expected=len(records) * SLICE_RECORDS,
    )
    own = Path(mkdtemp(dir=folder))
    return audit_slices(source, asked_by(decode_command), own).violations
