"""One session in memory: both folds, the open turn's journal, and the coroutine while there is one."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..commands import models as m
from ..events import records as r
from ..events.codec import Encoded
from ..events.errors import Corrupt, Unfoldable
from ..events.evolve import evolve, fold_head
from ..events.state import Head, State, Status, next_due
from .workflow.driver import Stretch

ENGINE = "engine"
"""The actor of facts that nobody asked for: expiries, parks, holds."""


@dataclass(frozen=True, slots=True)
class Received:
    """A command as read from the log. `command_hash` is null for internal ones, which need no memory."""

    command: m.Command
    encoded: Encoded
    command_hash: bytes | None
    topic: str
    partition: int
    offset: int
    timestamp_ms: int


@dataclass(frozen=True, slots=True)
class Stamped:
    """An event with its bytes, ready to be appended, and the attempt that it dispatches to workers, if any."""

    event: r.Event
    encoded: Encoded
    task: r.ActivityTask | None = None


@dataclass(slots=True)
class Session:
    """Both folds, the open turn's journal, and the coroutine while there is one."""

    tenant: str
    session_id: str
    head: Head = field(default_factory=Head)
    state: State | None = None
    journal: list[r.Event] = field(default_factory=list)
    stretch: Stretch | None = None
    broken: str | None = None
    """Why the body fold failed; the head goes on, and every command is parked."""
    announced: bool = False
    """Whether the history already says so."""
    beats: dict[str, int] = field(default_factory=dict)
    """The last heartbeat of each begun attempt, by activity, on the log's clock. Not part of the state: a new owner
    begins without, and the first command that it sees gives each attempt a fresh interval."""

    def copy(self) -> Session:
        """A scratch copy; the coroutine moves along, since it cannot be copied."""
        return Session(
            self.tenant,
            self.session_id,
            self.head,
            self.state,
            list(self.journal),
            self.stretch,
            self.broken,
            self.announced,
            dict(self.beats),
        )

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
            self.state = State(workflow="", status=Status.CANCELLED)
            self.broken, self.journal = None, []
            return
        self.state = evolve(self.state, event)
        if isinstance(event.body, STRETCH_STARTS):
            self.journal = [event]
        elif isinstance(event.body, TURN_ENDS):
            self.journal = []
        elif self.journal:
            self.journal.append(event)

    def next_due(self) -> tuple[int, str] | None:
        """When a wake-up is owed, and for what; see `events.state.next_due`."""
        if self.state is None or self.broken is not None:
            return None
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
        """The request whose attempt `event` dispatches; it lies in the open journal, as nothing outlives its stretch."""
        body = event.body
        if isinstance(body, r.ActivityRequested):
            return event
        if not isinstance(body, DISPATCHES):
            return None
        for past in reversed(self.journal):
            asked = past.body
            if isinstance(asked, r.ActivityRequested) and asked.activity_id == body.activity_id:
                return past
        raise Corrupt(
            f"activity {body.activity_id} is dispatched again, and the journal has no request"
        )

    @property
    def at_rest(self) -> bool:
        """Whether no turn is open, so that the folds alone are the whole session.

        Not while it is held: what is kept would be written whole with every command that is added to it.
        """
        state = self.state
        return state is not None and state.hold is None and self.broken is None and not self.journal

    def drop(self) -> None:
        """Lets the coroutine go."""
        if self.stretch is not None:
            self.stretch.drop()
            self.stretch = None


WORKFLOW_ENDS = (r.TurnCompleted, r.SessionCompleted, r.SessionFailed)
TURN_ENDS = (*WORKFLOW_ENDS, r.SessionCancelled)
STRETCH_STARTS = (r.TurnStarted, r.TurnContinued)
DISPATCHES = (r.ActivityRetried, r.ActivityReturned)
"""Facts that send an open activity to the workers once more."""
