"""One session of the real core with its log in a list: commands go in at the next offset, facts come out.

What this adds to the core are its promises, checked at every command:

- Its session equals one that is folded from the stored bytes alone (`mirror`).
- A crash before the commit loses what was decided; the same command, handled again, decides the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

from ...commands.check import Facts, Refusal
from ...commands.models import INTERNAL, Command, CommandBody, CommandHeader
from ...commands.policy import EVERYBODY, Policy
from ...commands.wire import COMMANDS, command_hash
from ...events import records as r
from ...events.blobs import MemoryBlobs, fetched, put_payload
from ...events.codec import EVENTS
from ...events.errors import Corrupt
from ...events.hashing import event_hash
from ..app import App
from ..handler import CommandHandler
from ..session import Received, Session, Stamped
from ..time_limit import BorrowedTimeLimit
from ..workflow.errors import WorkflowStuck
from .errors import Diverged, Misuse

DIGEST_KEY = b"rehearsal"
TENANT = "rehearsal"
TOPIC = "rehearsal.commands.v1"

LIMIT_S = 20.0
"""How long one command may take; more than in a processor, since each step may be a replay, and the machine a busy one."""


@dataclass(frozen=True, slots=True, order=True)
class StepAt:
    """The n-th step of a turn; both count from 1."""

    turn: int
    step: int


class Engine:
    """See the module. `now_ms` is the log's clock, and only whoever holds this moves it."""

    def __init__(self, app: App, session_id: str, now_ms: int, *, always_replay: bool) -> None:
        self.now_ms = now_ms
        self.log: list[Stamped] = []
        self.session = Session(TENANT, session_id)
        self.crash_everywhere = False
        self.crashes: list[StepAt] = []
        self._mirror = Session(TENANT, session_id)
        self._always_replay = always_replay
        self._limit = BorrowedTimeLimit(LIMIT_S)
        self.blobs = MemoryBlobs()
        self._policy: Policy = EVERYBODY
        self._control_offset = 0
        self._handler = self._start(app)
        self._doomed: set[StepAt] = set()
        self._offset = 0

    def redeploy(self, app: App) -> None:
        """Another process, with this code: what it knows of the session is its history."""
        self._handler = self._start(app)
        self._forget()

    def go_by(self, policy: Policy) -> None:
        """From now on decides by this policy, as if it had just been published."""
        self._policy, self._control_offset = policy, self._control_offset + 1
        self._handler.go_by(policy, self._control_offset)

    def doom(self, at: StepAt) -> None:
        """It will crash when it comes to this step."""
        self._doomed.add(at)

    @property
    def running(self) -> bool:
        """Whether a turn is open."""
        return bool(self._mirror.journal)

    def is_past(self, at: StepAt) -> bool:
        """Whether the session has come by this step, or by the end of its turn."""
        state = self._mirror.state
        if state is None or at.turn > state.turn:
            return False
        return at.turn < state.turn or not self.running or at.step <= state.steps

    def give(
        self, body: CommandBody, *, actor: str, command_id: str | None = None
    ) -> tuple[list[Stamped], Refusal | None]:
        """The facts that this command leads to, committed; a refusal where it leaves none."""
        received = self._receive(body, actor, command_id)
        stamped, refusal = self._handler.handle(self.session, received)
        reached = [at for at in _steps(stamped) if self.crash_everywhere or at in self._doomed]
        if reached or self.crash_everywhere:
            stamped, refusal = self._handle_again(received, stamped)
            self._doomed.difference_update(reached)
            self.crashes += reached
        self._commit(stamped)
        self._check_doomed()
        return stamped, refusal

    def payload(self, value: object) -> r.Payload:
        """The value as a client sends it."""
        return put_payload(value, TENANT, DIGEST_KEY, self.blobs)

    def inline(self, payload: r.Payload) -> r.Payload:
        """The same payload with its bytes in it, whichever way it was recorded."""
        return fetched(payload, TENANT, DIGEST_KEY, self.blobs)

    def _start(self, app: App) -> CommandHandler:
        return CommandHandler(
            app,
            Facts(
                DIGEST_KEY,
                blobs=self.blobs,
                policy=self._policy,
                control_offset=self._control_offset,
            ),
            always_replay=self._always_replay,
            limit=self._limit,
        )

    def _receive(self, body: CommandBody, actor: str, command_id: str | None) -> Received:
        """The command as it would be read from the log."""
        self._offset += 1
        header = CommandHeader(
            tenant=TENANT,
            session_id=self.session.session_id,
            command_id=command_id or f"command-{self._offset}",
            issued_at_ms=self.now_ms,
            actor=actor,
            on_behalf_of=None,
            channel="rehearsal",
            expected_seq=None,
        )
        encoded = COMMANDS.encode(Command(header, body))
        command: Command = COMMANDS.decode_body(encoded.body, encoded.fingerprint)
        hashed = None if isinstance(body, INTERNAL) else command_hash(encoded)
        return Received(command, encoded, hashed, TOPIC, 0, self._offset, self.now_ms)

    def _handle_again(
        self, received: Received, lost: list[Stamped]
    ) -> tuple[list[Stamped], Refusal | None]:
        self._forget()
        stamped, refusal = self._handler.handle(self.session, received)
        if [one.encoded.body for one in stamped] != [one.encoded.body for one in lost]:
            told = "after a crash the same command led to other facts: "
            told += f"first {_names(lost)}, then {_names(stamped)}"
            self._forget()
            raise Diverged(
                f"{told}; a workflow may depend on its state, its message and what `turn` gives, "
                "and on nothing else"
            )
        return stamped, refusal

    def _forget(self) -> None:
        with suppress(WorkflowStuck), self._limit:  # a dying coroutine can spin as well
            self.session.drop()
        self.session = self._mirror.copy()

    def _commit(self, stamped: list[Stamped]) -> None:
        for one in stamped:
            event: r.Event = EVENTS.decode_body(one.encoded.body, one.encoded.fingerprint)
            before = self._mirror.head.hash
            self._mirror.apply(event, event_hash(one.encoded.fingerprint, one.encoded.body, before))
        self.log += stamped
        self._check_folds(new=len(stamped))

    def _check_folds(self, *, new: int) -> None:
        """Of the journal only the `new` end is compared: its events never change, and a long turn has many."""
        live, folded = self.session, self._mirror
        pairs = {
            "head": (live.head, folded.head),
            "state": (live.state, folded.state),
            "journal": (live.journal[-new:], folded.journal[-new:]) if new else ([], []),
            "journal's length": (len(live.journal), len(folded.journal)),
            "broken": (live.broken, folded.broken),
        }
        for part, (is_, should_be) in pairs.items():
            if is_ != should_be:
                raise Corrupt(
                    f"the {part} of the session is not what its history folds to: "
                    f"{is_!r} against {should_be!r}; this is a fault of wakeful: report it",
                    session=live.session_id,
                )

    def _check_doomed(self) -> None:
        missed = sorted(at for at in self._doomed if self.is_past(at))
        if missed:
            self._doomed.difference_update(missed)
            at = missed[0]
            raise Misuse(
                f"turn {at.turn} ended before it came to step {at.step}, where to crash: name an earlier step"
            )


STEPS = (
    r.ActivityRequested
    | r.ApprovalRequested
    | r.TimerSet
    | r.SignalAwaited
    | r.InboxAwaited
    | r.JobAwaited
    | r.ChildStarted
    | r.RunStarted
    | r.ReplySent
    | r.ArtifactRecorded
    | r.AttributesSet
    | r.VersionMarked
    | r.CompensationsReleased
    | r.ResourceAttached
    | r.ResourceReattached
    | r.ResourceReleased
)
"""Facts that are the record of a step."""


def _steps(stamped: list[Stamped]) -> Iterator[StepAt]:
    """The steps that these facts are the record of."""
    for one in stamped:
        body = one.event.body
        if isinstance(body, STEPS):
            yield StepAt(body.turn, body.step)


def _names(stamped: list[Stamped]) -> str:
    return ", ".join(type(one.event.body).__name__ for one in stamped) or "nothing"
