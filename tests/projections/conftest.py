"""Histories made by hand: a writer that chains, encodes and places events as a processor would."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import pytest

from wakeful.events import records as r
from wakeful.events.codec import encode_event
from wakeful.events.hashing import event_hash
from wakeful.events.headers import event_headers
from wakeful.events.keys import partition_of, session_key
from wakeful.events.log.protocol import EndOfPartition, Place, Record
from wakeful.events.state import NO_HASH
from wakeful.projections.database import drop, install

Session = tuple[str, str]
TOPIC = "test.events.v1"
T0_MS = 1_800_000_000_000


def payload(value: object) -> r.Payload:
    return raw_payload(json.dumps(value).encode())


def raw_payload(data: bytes) -> r.Payload:
    return r.Payload("json", data, None, b"\7" * 32, len(data), None)


@dataclass
class Scribe:
    """Appends events to partitions in memory; a marker takes an offset after each transaction."""

    topic: str = TOPIC
    partitions: int = 2
    events: list[r.Event] = field(default_factory=list)
    records: list[Record] = field(default_factory=list)
    ends: dict[Place, int] = field(default_factory=dict)
    heads: dict[Session, tuple[int, bytes]] = field(default_factory=dict)
    now_ms: int = T0_MS
    payload = staticmethod(payload)
    raw_payload = staticmethod(raw_payload)

    @property
    def places(self) -> list[Place]:
        return [Place(self.topic, partition) for partition in range(self.partitions)]

    def add(
        self,
        session: Session,
        body: r.EventBody,
        *,
        actor: str = "ann",
        cause: r.Cause | None = None,
        seq: int | None = None,
        prev_hash: bytes | None = None,
        on_behalf_of: str | None = None,
        at_ms: int | None = None,
        key: bytes | None = None,
        partition: int | None = None,
        extra_headers: Sequence[tuple[str, bytes]] = (),
        channel: str = "test",
    ) -> r.Event:
        last, chain = self.heads.get(session, (0, NO_HASH))
        self.now_ms += 1
        envelope = r.Envelope(
            tenant=session[0],
            session_id=session[1],
            seq=last + 1 if seq is None else seq,
            at_ms=self.now_ms if at_ms is None else at_ms,
            actor=actor,
            on_behalf_of=on_behalf_of,
            channel=channel,
            cause=cause
            or r.Cause(
                "test.commands.v1", 0, len(self.records), f"c{len(self.records)}", None, None
            ),
            control_offset=None,
            versions_seq=None,
            prev_hash=chain if prev_hash is None else prev_hash,
        )
        event = r.Event(envelope, body)
        encoded = encode_event(event)
        key = session_key(*session) if key is None else key
        headers = [*event_headers(encoded, key, envelope.seq), *extra_headers]
        where = (
            partition_of(session_key(*session), self.partitions) if partition is None else partition
        )
        self.append(where, key, encoded.value, headers)
        self.events.append(event)
        hashed = event_hash(encoded.fingerprint, encoded.body, envelope.prev_hash)
        self.heads[session] = (envelope.seq, hashed)
        return event

    def append(self, partition: int, key: bytes | None, value: bytes | None, headers=()) -> Record:
        place = Place(self.topic, partition)
        offset = self.ends.get(place, 0)
        self.ends[place] = offset + 1
        record = Record(self.topic, partition, offset, self.now_ms, key, value, tuple(headers))
        self.records.append(record)
        return record

    def commit(self) -> None:
        for place in self.places:
            self.ends[place] = self.ends.get(place, 0) + 1

    def tell(self, session: Session, rng: random.Random) -> Iterator[None]:
        """One session's story, an event at a time, so that several can be interleaved."""
        say = payload
        self.add(session, r.SessionOpened("desk"))
        yield
        for turn in range(1, rng.randint(1, 3) + 1):
            message = f"m{turn}"
            self.add(session, r.MessageReceived(message, say({"text": f"help {turn} \N{SNOWMAN}"})))
            yield
            versions = (r.Version("workflow", "1"), r.Version("model", "m-2"))
            self.add(session, r.TurnStarted(turn, "message", "", message, "desk", 1, versions))
            yield
            step = 0
            for _ in range(rng.randint(0, 2)):
                step += 1
                yield from self._act(session, turn, step, rng, approval="none", proposal=None)
            if rng.random() < 0.6:
                step += 1
                granted = yield from self._ask(session, turn, step, rng)
                if granted:
                    step += 1
                    yield from self._act(
                        session, turn, step, rng, approval="granted", proposal=f"{turn}.{step - 1}"
                    )
            if rng.random() < 0.3:
                self.add(
                    session, r.CommandRefused("SendMessage", "ordering", "too_old", "issue it anew")
                )
                yield
            step += 1
            self.add(session, r.ReplySent(turn, step, say({"text": "done", "cents": 12.50})))
            yield
            if rng.random() < 0.3:
                step += 1
                yield from self._sleep(session, turn, step, rng)
            if rng.random() < 0.25:
                step += 1
                yield from self._hold(session, turn, step)
            next_valid = (r.NextValid("SendMessage", True, ""),)
            self.add(session, r.TurnCompleted(turn, step, say({"n": turn}), (), next_valid))
            yield
        if rng.random() < 0.3:
            self.add(session, r.CancellationRequested("enough"))
            self.add(session, r.SessionCancelled((), (), ()))
            yield

    def _sleep(self, session: Session, turn: int, step: int, rng) -> Iterator[None]:
        timer = f"{turn}.{step}"
        due_ms = self.now_ms + 50
        self.add(session, r.TimerSet(timer, turn, step, due_ms), actor="workflow:desk")
        yield
        owed = (r.Obligation("timer", timer, "", due_ms, "fires"),)
        self.add(session, r.SessionWaiting(turn, owed, ()))
        yield
        self.add(session, r.TimerFired(timer, due_ms), actor="clock")
        yield

    def _hold(self, session: Session, turn: int, step: int) -> Iterator[None]:
        """Held; a command kept meanwhile is decided behind the release, as itself, and then the release goes on."""
        self.add(session, r.SessionHeld("unfoldable", "because"))
        yield
        kept = self.cause(f"kept-{turn}\N{SNOWMAN}")
        parked = r.CommandParked("SendSignal", b"\1" * 8, b"\2")
        self.add(session, parked, cause=kept)
        yield
        release = self.cause("free")
        self.add(session, r.SessionReleased("fixed"), cause=release)
        yield
        self.add(session, r.SignalReceived(f"kept-{turn}", "go", payload("late")), cause=kept)
        yield
        self.add(session, r.VersionMarked(turn, step, "change"), cause=release)
        yield

    def cause(self, command_id: str, *, offset: int | None = None) -> r.Cause:
        """A command of its own; several events may name it."""
        offset = len(self.records) if offset is None else offset
        return r.Cause("test.commands.v1", 0, offset, command_id, b"\5" * 8, self.now_ms)

    def _act(
        self, session: Session, turn: int, step: int, rng, *, approval, proposal
    ) -> Iterator[None]:
        activity = f"{turn}.{step}"
        self.request(session, activity, approval=approval, proposal=proposal)
        yield
        if rng.random() < 0.8:
            self.add(
                session,
                r.ActivityCompleted(activity, 1, payload({"ok": True}), "w1"),
                actor="worker",
            )
            if rng.random() < 0.3:
                yield
                late = r.LateResultRecorded(activity, 1, "completed", payload(2), None, "w2")
                self.add(session, late, actor="worker")
        else:
            failure = r.Failure("raised", "ValueError", "no such order\0", "")
            self.add(session, r.ActivityFailed(activity, 1, failure, "w1"), actor="worker")
        yield

    def _ask(self, session: Session, turn: int, step: int, rng) -> Iterator[None]:
        proposal = f"{turn}.{step}"
        self.add(
            session,
            r.ApprovalRequested(
                proposal,
                turn,
                step,
                "refund",
                "write",
                payload({"cents": 1200, "note": "a\0b"}),
                b"\1" * 32,
                "supervisor",
                self.now_ms + 60_000,
            ),
        )
        yield
        owed = (r.Obligation("approval", proposal, "refund", self.now_ms + 60_000, "expires"),)
        self.add(session, r.SessionWaiting(turn, owed, (r.NextValid("DecideApproval", True, ""),)))
        yield
        if rng.random() < 0.6:
            self.add(
                session,
                r.ApprovalGranted(proposal, b"\1" * 32, "fine"),
                actor="boss",
                on_behalf_of="bank",
            )
            yield
            return True
        if rng.random() < 0.5:
            self.add(session, r.ApprovalRejected(proposal, b"\1" * 32, "no"), actor="boss")
        else:
            self.add(session, r.ApprovalExpired(proposal), actor="clock")
        yield
        return False

    def request(
        self,
        session: Session,
        activity: str,
        *,
        approval: str = "none",
        proposal: str | None = None,
        digest: bytes = b"\1" * 32,
        on_uncertain: str = "wait",
        withheld_ms: int | None = None,
        untrusted: bool = False,
        cause: r.Cause | None = None,
        extra_headers: Sequence[tuple[str, bytes]] = (),
    ) -> r.Event:
        turn, _, step = activity.partition(".")
        return self.add(
            session,
            r.ActivityRequested(
                activity,
                int(turn),
                int(step),
                "refund",
                "payments",
                "read",
                payload({"order": "o-1"}),
                digest,
                f"{session[0]}/{session[1]}/{activity.replace('.', '/')}",
                1,
                10_000,
                self.now_ms + 30_000,
                approval,
                proposal,
                on_uncertain=on_uncertain,
                withheld_ms=withheld_ms,
                untrusted=untrusted,
            ),
            cause=cause,
            extra_headers=extra_headers,
        )

    def tell_many(self, sessions: int, rng: random.Random) -> None:
        """Interleaves many stories, with a marker now and then."""
        stories = [self.tell((f"t{n % 3}", f"s{n}"), rng) for n in range(sessions)]
        while stories:
            story = rng.choice(stories)
            if next(story, 1) == 1:
                stories.remove(story)
            if rng.random() < 0.2:
                self.commit()
        self.commit()


class ListReader:
    """A reader over records in memory; `deliver` may repeat or reorder what the n-th poll since `assign` returns."""

    def __init__(
        self,
        scribe: Scribe,
        deliver: Callable[[list[Record], int], list[Record]] = lambda records, polls: records,
    ) -> None:
        self._scribe = scribe
        self._deliver = deliver
        self._next: dict[Place, int] = {}
        self._told: set[tuple[Place, int]] = set()
        self.closed = False

    def assign(self, positions) -> None:
        self._next = dict(positions)
        self._told.clear()
        self._polls = 0

    def poll(self, records_max: int, timeout_ms: int) -> list[Record | EndOfPartition]:
        found = [
            record
            for record in self._scribe.records
            if record.offset >= self._next.get(Place(record.topic, record.partition), 1 << 60)
        ][:records_max]
        for record in found:
            self._next[Place(record.topic, record.partition)] = record.offset + 1
        ends: list[Record | EndOfPartition] = []
        for place, at in self._next.items():
            end = self._scribe.ends.get(place, 0)
            later = any(
                (x.topic, x.partition) == place and x.offset >= at for x in self._scribe.records
            )
            if not later and (place, end) not in self._told:
                self._told.add((place, end))
                ends.append(EndOfPartition(*place, end))
        self._polls += 1
        return [*self._deliver(found, self._polls - 1), *ends]

    def close(self) -> None:
        self.closed = True


def finish(steps: Iterable[str], done: Callable[[], bool], steps_max: int = 20_000) -> list[str]:
    """Walks until done; the names passed."""
    names: list[str] = []
    for name in steps:
        names.append(name)
        if done():
            return names
        if len(names) >= steps_max:
            raise AssertionError(f"not done after {steps_max} steps, the last were {names[-6:]}")
    return names


@pytest.fixture
def installed(postgres_url, namespace):
    """Where empty views are: URL and namespace."""
    install(postgres_url, namespace)
    yield postgres_url, namespace
    drop(postgres_url, namespace)


@pytest.fixture
def scribe() -> Scribe:
    """An empty history."""
    return Scribe()


@pytest.fixture
def new_scribe() -> type[Scribe]:
    return Scribe


@pytest.fixture
def list_reader() -> type[ListReader]:
    return ListReader


@pytest.fixture
def walk():
    return finish


@pytest.fixture
def catch_up():
    """Runs a projector until all that is in the log is in the views."""
    return lambda projector: finish(projector.steps(), lambda: projector.caught_up)
