"""Watches what becomes of one command, and of the turn it starts, in the session's own partitions.

The reader stands at the ends of events and outcomes before the command is sent, so nothing of it is missed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from time import monotonic
from types import TracebackType
from typing import Self

from ...commands.sending import Receipt
from ...events import records as r
from ...events.codec import decode_event, decode_outcome
from ...events.errors import Undecodable
from ...events.keys import partition_of, session_key
from ...events.log.protocol import Isolation, Log, Place, Reader, Record
from ...events.topics import Topics
from ...projections.tokens import token_of
from .words import waits_among

POLL_MS = 50
RECORDS_MAX = 500

TOGETHER_MS = 300
"""How long the events of one transaction may take to be read, once the first was."""

LOOK_MS = 400
"""Between two questions whether the processors are past a command from which no fact has come."""

Fact = r.Event | r.Outcome

TOLD_BY = (
    *(r.ApprovalRequested, r.ApprovalVoted, r.ApprovalGranted, r.ApprovalVoided),
    *(r.ActivityRequested, r.ActivityRetried),
    *(r.ActivityCompleted, r.ActivityFailed, r.ActivityUncertain, r.ActivityCancelled),
)
"""Facts that say something of an approval and its action."""

FROM_OUTSIDE = frozenset({"approval", "uncertain", "signal", "inbox", "job"})
"""Waits that somebody has to end. Timers and activities go on by themselves."""


@dataclass(slots=True)
class Verdict:
    """What became of a command: `applied`, `refused`, `kept` (the session is held), `held` (released, and held again),
    `repeat`, or `undecided` in time.
    """

    kind: str
    reason: str = ""
    detail: str = ""


@dataclass(slots=True)
class Rest:
    """Where the session came to rest: its replies on the way, and `status`, empty where it did not in time."""

    status: str = ""
    detail: str = ""
    replies: list[r.Payload] = field(default_factory=list)
    outcome: r.Payload | None = None
    approvals: list[r.ApprovalRequested] = field(default_factory=list)
    obligations: tuple[r.Obligation, ...] = ()
    doubts: dict[str, str] = field(default_factory=dict)
    """Why nobody knows the end of an activity, by its id."""
    facts: list[r.EventBody] = field(default_factory=list)
    """What was met on the way and says something of approvals and their actions."""


class Watch:
    """See the module. Use it as `with Watch(…) as watch:`, then send, then ask."""

    def __init__(self, log: Log, topics: Topics, tenant: str, session_id: str) -> None:
        self._key = session_key(tenant, session_id)
        number = partition_of(self._key, log.partitions(topics.events))
        self._events = Place(topics.events, number)
        self._outcomes = Place(topics.outcomes, number)
        places = [self._events, self._outcomes]
        ends = log.ends(places, Isolation.COMMITTED)
        self._reader: Reader = log.reader(Isolation.COMMITTED)
        self._reader.assign({place: ends[place][1] for place in places})
        self._queue: deque[Fact] = deque()
        self._reached = ends[self._events][1]

    @property
    def position(self) -> str:
        """Up to where the session's events were read, as a token: views that have come there show what it saw."""
        return token_of({self._events: self._reached})

    def verdict(self, command_id: str, timeout_ms: int) -> Verdict:
        """What became of the command; its events stay to be read by `rest`."""
        limit = monotonic() + timeout_ms / 1000
        held: tuple[str, str] | None = None
        while (fact := self._next(limit)) is not None:
            if isinstance(fact, r.Event) and isinstance(fact.body, r.SessionHeld):
                held = (fact.body.reason, fact.body.detail)
            if isinstance(fact, r.Outcome):
                if fact.seq is None and fact.command_id == command_id:
                    return Verdict("refused", fact.reason or "", fact.detail or "")
            elif came_of(fact, command_id):
                self._queue.appendleft(fact)
                if isinstance(fact.body, r.SessionReleased | r.SessionReset):
                    return self._released(command_id)
                verdict = verdict_of(fact.body)
                return Verdict("kept", *held) if verdict.kind == "kept" and held else verdict
        return Verdict("undecided")

    def rest(self, timeout_ms: int, *, message_id: str | None = None) -> Rest:
        """The session's next rest; with a `message_id`, that of the turn which takes this message (or signal)."""
        limit = monotonic() + timeout_ms / 1000
        rest = Rest()
        ours = message_id is None
        while not rest.status and (fact := self._next(limit)) is not None:
            if isinstance(fact, r.Event):
                body = fact.body
                rest.facts += [body] if isinstance(body, TOLD_BY) else []
                ours = ours or _takes(body, message_id)
                _take(rest, body, ours=ours)
        return rest

    def _released(self, command_id: str) -> Verdict:
        """A release is decided together with what follows from it: the session may be held again at once."""
        limit = monotonic() + TOGETHER_MS / 1000
        seen: list[Fact] = []
        verdict = Verdict("applied")
        while (fact := self._next(limit)) is not None:
            seen.append(fact)
            if isinstance(fact, r.Event) and fact.envelope.cause.command_id == command_id:
                if isinstance(fact.body, r.SessionHeld):
                    verdict = Verdict("held", fact.body.reason, fact.body.detail)
                elif isinstance(fact.body, r.NondeterminismFound):
                    verdict = Verdict("held", "nondeterminism", nondeterminism(fact.body))
        self._queue.extend(seen)
        return verdict

    def together(self) -> list[r.EventBody]:
        """What the transaction of the verdict says of approvals and their actions; it stays to be read by `rest`."""
        limit = monotonic() + TOGETHER_MS / 1000
        seen: list[Fact] = []
        while (fact := self._next(limit)) is not None:
            seen.append(fact)
        self._queue.extend(seen)
        bodies = [fact.body for fact in seen if isinstance(fact, r.Event)]
        return [body for body in bodies if isinstance(body, TOLD_BY)]

    def close(self) -> None:
        """Frees the reader."""
        self._reader.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _next(self, limit: float) -> Fact | None:
        while not self._queue:
            if monotonic() >= limit:
                return None
            for item in self._reader.poll(RECORDS_MAX, POLL_MS):
                fact = self._fact(item) if isinstance(item, Record) else None
                if fact is not None:
                    self._queue.append(fact)
        return self._queue.popleft()

    def _fact(self, record: Record) -> Fact | None:
        if record.topic == self._events.topic:
            self._reached = record.offset + 1
        if record.key != self._key:
            return None
        try:
            if record.topic == self._events.topic:
                return decode_event(record.value, record.headers)
            return decode_outcome(record.value, record.headers)
        except Undecodable:
            return None  # written by a later release: a watcher shows what it can


def awaited(
    watch: Watch,
    receipt: Receipt,
    *,
    timeout_ms: int,
    next_offset: Callable[[Place], int],
    late_ms: int | None = None,
    late: Callable[[], None] = lambda: None,
) -> Verdict:
    """The verdict on this command; `repeat` where the processors are past it and no fact came of it.

    `next_offset` gives the first command of a partition that they have not decided. Where nobody has decided it after
    `late_ms`, `late` is called, once.
    """
    place = Place(receipt.topic, receipt.partition)
    since = monotonic()
    limit = since + timeout_ms / 1000
    tell_at = limit if late_ms is None else since + late_ms / 1000
    while True:
        left_ms = max(0, int((limit - monotonic()) * 1000))
        verdict = watch.verdict(receipt.command_id, min(LOOK_MS, left_ms))
        if verdict.kind != "undecided" or monotonic() >= limit:
            return verdict
        if monotonic() >= tell_at:
            late()
            tell_at = limit  # once: the last word is the answer
        if next_offset(place) > receipt.offset:
            verdict = watch.verdict(receipt.command_id, LOOK_MS)  # what came in between
            return verdict if verdict.kind != "undecided" else Verdict("repeat")


def _takes(body: r.EventBody, message_id: str | None) -> bool:
    """Whether a turn gets the message, trigger or signal of this id."""
    match body:
        case r.TurnStarted():
            return body.message_id == message_id
        case r.InboxTaken():
            return any(taken.message_id == message_id for taken in body.messages)
        case r.SignalDelivered():
            return body.signal_id == message_id
        case _:
            return False


def came_of(fact: r.Event, command_id: str) -> bool:
    """Whether the command itself led to it: what the clock owed when the command came by carries its id, and no hash."""
    cause = fact.envelope.cause
    return cause.command_id == command_id and cause.command_hash is not None


def nondeterminism(body: r.NondeterminismFound) -> str:
    """What was expected, and what came."""
    return f"step {body.step}: the history holds {body.expected}, the code gave {body.actual}"


def verdict_of(body: r.EventBody) -> Verdict:
    """What the first fact that a command led to says of it."""
    match body:
        case r.CommandRefused():
            return Verdict("refused", body.reason, body.detail)
        case r.CommandParked():
            return Verdict("kept")
        case _:
            return Verdict("applied")


def _take(rest: Rest, body: r.EventBody, *, ours: bool) -> None:
    """Notes what was said, and whether the session rests now. A held or ended session rests for every turn."""
    match body:
        case r.SessionCompleted():
            rest.status, rest.outcome = "Completed", body.outcome
        case r.SessionFailed():
            rest.status = "Failed"
            rest.detail = f"{body.failure.kind}: {body.failure.message}"
        case r.SessionCancelled():
            rest.status = "Cancelled"
        case r.SessionHeld():
            rest.status, rest.detail = "Held", f"{body.reason}: {body.detail}"
        case r.NondeterminismFound():
            rest.status, rest.detail = "Held", nondeterminism(body)
        case r.ReplySent() if ours:
            rest.replies.append(body.message)
        case r.ApprovalRequested() if ours:
            rest.approvals.append(body)
        case r.ActivityUncertain() if ours:
            rest.doubts[body.activity_id] = f"{body.failure.kind}: {body.failure.message}"
        case r.SessionWaiting() if ours and any(o.kind in FROM_OUTSIDE for o in body.obligations):
            rest.status, rest.obligations = "Waiting", waits_among(body.obligations)
            rest.detail = ", ".join(f"{o.kind} {o.name}" for o in rest.obligations)
        case r.TurnCompleted() if ours:
            rest.status = "Suspended"
        case _:
            pass
