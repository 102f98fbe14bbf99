"""One session in memory: both folds, the open turn's journal, and the coroutine while there is one."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..commands import compensating
from ..commands import models as m
from ..commands.decide import deliverable
from ..events import freezing
from ..events import records as r
from ..events.codec import Encoded
from ..events.due import next_due
from ..events.errors import Corrupt, Unfoldable
from ..events.evolve import evolve, fold_head
from ..events.sharing import whole
from ..events.state import Head, SessionState, State, Status
from .journal import Journal
from .workflow.driver import Stretch
from .workflow.facts import STARTS

GOES_ON = "goes on"
"""What a session owes itself that stopped short."""


@freezing.dataclass(frozen=True, slots=True)
class Received:
    """A command as read from the log. `command_hash` is null for internal ones, which need no memory.

    `vouched_by` is the key that signed it, as `commands/identity.py` found it; null where nothing is signed.
    """

    command: m.Command
    encoded: Encoded
    command_hash: bytes | None
    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    vouched_by: str | None = None


@freezing.dataclass(frozen=True, slots=True)
class Stamped:
    """An event with its bytes, ready to be appended; the attempt that it dispatches to workers, if any, and the commands
    that it sends to other sessions."""

    event: r.Event
    encoded: Encoded
    task: r.ActivityTask | None = None
    commands: tuple[m.Command, ...] = ()


@dataclass(frozen=True, slots=True)
class Parts:
    """What the snapshots topic holds beside the snapshot at `base_seq`: `count` chunks, with all events up to `upto`.

    What is known of it: whoever folded the session from its events knows of less than there is, which is safe.
    """

    base_seq: int = 0
    count: int = 0
    upto: int = 0


@dataclass(slots=True)
class Session:
    """Both folds, the open stretch's journal, and the coroutine while there is one."""

    tenant: str
    session_id: str
    head: Head = field(default_factory=Head)
    state: State | None = None
    journal: Journal = field(default_factory=Journal)
    base: SessionState | None = None
    """The folds at the last end of a turn, or at the start of the open stretch where that was later: what a snapshot
    holds, and what the events since are kept for. None before the first."""
    parts: Parts = Parts()
    stretch: Stretch | None = None
    broken: str | None = None
    """Why the body fold failed; the head goes on, and every command is parked."""
    announced: bool = False
    """Whether the history already says so."""
    beats: dict[str, int] = field(default_factory=dict)
    """The last heartbeat of each begun attempt, by activity, on the log's clock. Not part of the state: a new owner
    begins without, and the first command that it sees gives each attempt a fresh interval."""

    def copy(self) -> Session:
        """A scratch copy, at the same price however old the session is.

        The coroutine moves along, since it cannot be copied.
        """
        return Session(
            self.tenant,
            self.session_id,
            self.head,
            self.state,
            self.journal.branch(),
            self.base,
            self.parts,
            self.stretch,
            self.broken,
            self.announced,
            dict(self.beats),
        )

    def go_back(self, before: Session) -> None:
        """Takes back all that happened since `before` was copied from it; the coroutine is gone."""
        self.drop()
        self.head, self.state, self.journal = before.head, before.state, before.journal
        self.base, self.broken, self.announced = before.base, before.broken, before.announced

    def apply(self, event: r.Event, hashed: bytes) -> None:
        """Folds one event of the log in; never raises, a body that does not fold breaks the session only."""
        self.head = fold_head(self.head, event.envelope, hashed)
        if self.broken is not None and not isinstance(event.body, r.SessionCancelled):
            self.announced = self.announced or isinstance(event.body, r.SessionHeld)
            return
        try:
            self.fold(event)
        except Unfoldable as error:
            self.broken = str(error)

    def apply_unreadable(self, envelope: r.Envelope, hashed: bytes, told: str) -> None:
        """Folds in an event of which only the envelope could be read."""
        self.head = fold_head(self.head, envelope, hashed)
        if self.broken is None:
            self.broken = told

    def fold(self, event: r.Event) -> None:
        """The body fold and the journal."""
        if isinstance(event.body, r.SessionCancelled) and self.broken is not None:
            parent = None if self.state is None else self.state.parent
            self.state = State(workflow="", status=Status.CANCELLED, parent=parent)
            self.broken, self.journal = None, Journal()
            self.rebase()
            return
        self.state = evolve(self.state, event)
        if isinstance(event.body, STARTS | r.CompensationStarted):
            self.journal = Journal((event,))
        elif isinstance(event.body, TURN_ENDS):
            self.journal = Journal()
        elif self.journal:
            self.journal.append(event)
        if isinstance(event.body, BASES):
            self.rebase()

    def rebase(self) -> None:
        """Lets the snapshot be of now; the events before are needed no more."""
        if self.state is not None:
            self.base = SessionState(self.head, self.state)

    @property
    def base_seq(self) -> int:
        """The last event that `base` holds; 0 where there is no base."""
        return self.base.head.seq if self.base is not None else 0

    @property
    def tail_from(self) -> int:
        """The first event that is kept beside `base`: the one that began the open stretch, though `base` holds it."""
        return self.base_seq if self._base_began else self.base_seq + 1

    @property
    def awaits_start(self) -> bool:
        """Whether it was made from its base, and the event that began the open stretch is not in the journal yet."""
        return self._base_began and not self.journal and self.head.seq == self.base_seq

    @property
    def _base_began(self) -> bool:
        return self.base is not None and self.base.state.status in _JOURNALLED

    @property
    def stopped_short(self) -> bool:
        """Whether there is more to do than its last command did: a stretch to begin, or what is kept to be delivered."""
        state = self.state
        if state is None or self.broken is not None or state.hold is not None:
            return False
        begins = state.status == Status.RUNNING and not state.activities and not state.waits
        return begins or self.owed() is not None

    def owed(self, now_ms: int = 0) -> r.EventBody | None:
        """What follows from what it has kept, or from what it has still to take back, once nothing else does."""
        state, now_ms = self.state, max(now_ms, self.head.now_ms)
        if state is None or self.broken is not None:
            return None
        if state.undoing is None:
            return deliverable(state)
        next_ = compensating.following(state, self.tenant, self.session_id, now_ms)
        return deliverable(state) or next_

    def next_due(self) -> tuple[int, str] | None:
        """When a wake-up is owed, and for what; see `events.due.next_due`."""
        if self.state is None or self.broken is not None:
            return None
        if self.stopped_short:
            return self.head.now_ms, GOES_ON
        return next_due(self.state, self.beats, self.head.now_ms)

    def heard(self, activity_id: str, attempt: int, now_ms: int) -> None:
        """Notes a sign of life of an attempt that runs; of any other it means nothing."""
        running = self.state.activities if self.state is not None else ()
        if any(
            (a.activity_id, a.attempt, a.started) == (activity_id, attempt, True) for a in running
        ):
            self.beats[activity_id] = now_ms

    def listen(self, now_ms: int) -> None:
        """Begins a fresh interval for each begun attempt of which nothing was heard here, and forgets the others."""
        running = self.state.activities if self.state is not None else ()
        if self.beats or any(a.started for a in running):
            heard = self.beats
            self.beats = {
                a.activity_id: heard.get(a.activity_id, now_ms) for a in running if a.started
            }

    def requested_by(self, event: r.Event) -> r.Event | None:
        """The request whose attempt `event`, with all that it says, dispatches; an earlier one lies in the open journal, as
        nothing outlives its stretch."""
        body = event.body
        if isinstance(body, r.ActivityRequested):
            return event
        return self.request_of(body.activity_id) if isinstance(body, DISPATCHES) else None

    def request_of(self, activity_id: str) -> r.Event:
        """The request of an activity that is dispatched again, with all its arguments."""
        requested = self.journal.request_of(activity_id)
        if requested is None:
            told = f"activity {activity_id} is dispatched again, and the journal has no request"
            raise Corrupt(told)
        body = whole(requested.body, self.state.data if self.state is not None else None)
        return requested if body is requested.body else r.Event(requested.envelope, body)

    @property
    def at_rest(self) -> bool:
        """Whether no turn is open, so that the folds alone are the whole session.

        Not while it is held: what is kept would be written whole with every command that is added to it.
        """
        state = self.state
        return state is not None and state.hold is None and self.broken is None and not self.journal

    @property
    def parked(self) -> bool:
        """Whether it need not be in memory: nothing will happen before somebody or some time comes.

        Nor need one that takes back what it did: no workflow is asked, and a person may take a week.
        """
        state = self.state
        running = state is not None and state.status == Status.RUNNING and state.hold is None
        return not running or self.broken is not None

    @property
    def snapshotted(self) -> bool:
        """Whether the snapshots topic holds all of it, so that recovery needs no event.

        At rest it does: whoever wrote its last events wrote a snapshot with them. (A message in the queue means
        that these were not the last of their transaction: they are being read, a slice at a time.)
        """
        if self.at_rest:
            return self.state is not None and not self.state.queue
        parts = self.parts
        return (parts.base_seq, parts.upto) == (self.base_seq, self.head.seq)

    def drop(self) -> None:
        """Lets the coroutine go; marked dead first, so that what its `finally` blocks ask for is discarded."""
        if self.stretch is not None:
            self.stretch.drop()
            self.stretch = None


WORKFLOW_ENDS = (r.TurnCompleted, r.SessionCompleted, r.SessionFailed)
TURN_ENDS = (*WORKFLOW_ENDS, r.SessionCancelled, r.SessionReset)
BASES = (*TURN_ENDS, r.TurnContinued, r.CompensationStarted)
"""Facts that leave nothing to remember but the folds, and what a stretch began with."""
_JOURNALLED = (Status.RUNNING, Status.COMPENSATING)
DISPATCHES = (r.ActivityRetried, r.ActivityReturned)
"""Facts that send an open activity to the workers once more."""
