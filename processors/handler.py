"""What happens to a session when a command comes: check, decide, evolve, advance.

Everything is done on a copy (`Session.copy`); the loop replaces the live one after the commit. The only I/O-like
thing here is encoding, since an event's hash is over its bytes.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from typing import get_args

from ..commands import children, compensating, runs
from ..commands import models as m
from ..commands.actors import ENGINE, WORKFLOW
from ..commands.check import Facts, Refusal
from ..commands.decide import decide, decide_parked, due, keep
from ..commands.decisions import refused
from ..commands.identity import INSECURE, Identity, disowned
from ..commands.next_valid import next_valid, obligations
from ..commands.opening import check_unknown
from ..commands.policy import Policy
from ..commands.rollouts import NO_ROLLOUTS, Rollouts
from ..commands.wire import COMMANDS
from ..events import records as r
from ..events.codec import EVENTS, Encoded
from ..events.evolve import fold_head
from ..events.evolve_resources import Attaches
from ..events.hashing import event_hash
from ..events.payloads import storable_text
from ..events.sharing import recorded
from ..events.shown import name_of, said
from ..events.state import ParkedCommand, SessionState
from .app import App
from .between import commands_of
from .effects import task_of
from .fitting import fitting
from .gate import look
from .in_hand import InHand, NothingNoted, hold_reason
from .kept import heard_now, uses_up, waits_for_another
from .proposals import OpenProposals
from .session import WORKFLOW_ENDS, Received, Session, Stamped
from .stamping import envelope_of
from .workflow.advance import advance, withdrawals
from .workflow.choosing import Position
from .workflow.errors import WorkflowSpins, WorkflowStuck

FACTS_PER_COMMAND_MAX = 5_000
"""Facts that one command may lead to; more is a loop in a workflow and holds the session."""

FACTS_AT_ONCE = 2_000
"""Facts after which a command begins nothing new: a long backlog is worked off by several transactions."""

FAULT_MAX = 2_000
"""Characters of an engine fault that a hold tells."""


@dataclass(slots=True)
class _Run:
    """One command on its way through a session."""

    received: Received
    now_ms: int
    by_clock: bool = False
    """While facts are recorded that the clock owes, or that hold the session: the command only came by, and is not
    disposed of by them."""
    counted_from: int = 0
    """Where in `out` the facts of this command begin: those of a kept one count for themselves."""
    out: list[Stamped] = field(default_factory=list)


class CommandHandler:
    """Applies commands to sessions. Total: whatever a command or a workflow does, others go on."""

    def __init__(
        self,
        app: App,
        facts: Facts,
        *,
        always_replay: bool = False,
        limit: AbstractContextManager[object] | None = None,
        last_words: AbstractContextManager[object] | None = None,
        in_hand: InHand | None = None,
    ) -> None:
        """`limit` is entered around each command, and may raise `WorkflowStuck` in it after a while; so is `last_words`
        around what a coroutine does while it is let go (its `finally` blocks), without which it is `limit` again.

        `in_hand` is told of each command, and refuses the one that its process has died of too often.
        """
        self._limit = limit or nullcontext()
        self._last_words = last_words or self._limit
        self._in_hand = in_hand or NothingNoted()
        self._app = app
        self._facts = facts
        self._always_replay = always_replay
        self._identity: Identity = INSECURE

    def believe(self, identity: Identity) -> None:
        """From now on asks it about what was kept: whether the key that vouched for it still counts."""
        self._identity = identity

    def go_by(self, policy: Policy, control_offset: int, rollouts: Rollouts = NO_ROLLOUTS) -> None:
        """From now on decides by these, in force at this end of the control topic; between transactions."""
        self._facts = replace(
            self._facts, policy=policy, control_offset=control_offset, rollouts=rollouts
        )

    def handle(self, session: Session, received: Received) -> tuple[list[Stamped], Refusal | None]:
        """The events that follow, applied to `session`; a refusal where nothing may be recorded."""
        run = _Run(received, max(session.head.now_ms, received.timestamp_ms))
        if received.offset <= session.head.cause_offset:
            return [], None  # disposed of before: somebody moved the group's offsets back
        before = session.copy()
        try:
            self._in_hand.begins(received.partition, received.offset)
            with self._limit:
                refusal = self._handle(session, run)
        except BaseException as error:  # noqa: BLE001 - one session must never stop a partition, nor a `sys.exit` in its state's class
            run = _Run(received, run.now_ms)  # it may have failed at a kept command
            self._go_back(session, before)
            named = "" if isinstance(error, WorkflowSpins) else f"{name_of(type(error))}: "
            told = storable_text(f"{named}{said(error)}", FAULT_MAX)
            return run.out, self._hold_broken(session, run, hold_reason(error), told)
        finally:
            self._in_hand.ends()
        if refusal is not None and run.out:
            # A stranger's command leaves no event. What the clock owes comes with the next one, or with a wake-up.
            run.out.clear()
            self._go_back(session, before)
        return run.out, refusal

    def let_go(self, session: Session) -> None:
        """Drops the session's coroutine; one that does not want to end is left where it stands, and its words are lost."""
        if session.stretch is not None:
            with suppress(WorkflowStuck), self._last_words:
                session.drop()

    def _go_back(self, session: Session, before: Session) -> None:
        self.let_go(session)
        session.go_back(before)

    def _handle(self, session: Session, run: _Run) -> Refusal | None:
        command, hashed = run.received.command, run.received.command_hash
        if session.broken is not None:
            self._handle_broken(session, run)
            return None
        if session.state is None:
            refusal = check_unknown(command, frozenset(self._app.workflows), run.now_ms)
            if refusal is None:
                self._open(session, run)
            return refusal
        session.listen(run.now_ms)
        self._go_on(session, run)
        self._fire_due(session, run, run.now_ms)
        folded = SessionState(session.head, session.state)
        encoded = (run.received.encoded.fingerprint, run.received.encoded.body)
        proposals = self._proposals(session, run.now_ms)
        decided = decide(folded, command, hashed or b"", encoded, run.now_ms, proposals)
        if isinstance(decided, Refusal):
            return decided
        parked = heard_now(session.state.parked, command.body)
        for body in fitting(session.state, command, decided, self._app, self._facts):
            self._record(session, run, body, command.header.actor)
        if isinstance(command.body, m.HeartbeatActivity):
            session.heard(command.body.activity_id, command.body.attempt, run.now_ms)
        if decided and isinstance(decided[0], _LETS_ON):
            self._decide_parked(session, run, parked)
            self._fire_due(session, run, run.now_ms)
        elif decided and isinstance(decided[0], r.CancellationRequested):
            self._decide_parked(session, run, parked)
        self._park_if_waiting(session, run)
        return None

    def _open(self, session: Session, run: _Run) -> None:
        """A new session; a child begins its first turn at once, for whomever its parent acts, and so does a run."""
        header, body = run.received.command.header, run.received.command.body
        match body:
            case m.OpenSession():
                opened = r.SessionOpened(body.workflow, body.attributes)
                self._record(session, run, opened, header.actor)
            case m.StartChild():
                self._record(session, run, children.opened(body), header.actor)
                message = r.MessageReceived(header.command_id, body.message)
                self._record(session, run, message, header.on_behalf_of or header.actor)
                self._park_if_waiting(session, run)
            case m.StartRun():
                self._record(session, run, runs.opened(body), header.actor)
                received = runs.received(header.command_id, body)
                self._record(session, run, received, header.actor)
                self._park_if_waiting(session, run)
            case _:
                pass  # nothing else opens one

    def _proposals(self, session: Session, now_ms: int) -> OpenProposals:
        return OpenProposals(self._app, self._facts, session.tenant, session.journal, now_ms)

    def _fire_due(self, session: Session, run: _Run, now_ms: int) -> None:
        while (
            (owed := session.next_due()) is not None
            and owed[0] <= now_ms
            and session.state is not None
        ):
            name = f"{session.tenant}/{session.session_id}"
            body = due(session.state, now_ms, beats=session.beats, session=name)
            body = body or session.owed(now_ms)
            if body is None:
                break
            run.by_clock = True
            self._record(session, run, body, ENGINE)
        run.by_clock = False

    def _decide_parked(
        self, session: Session, run: _Run, parked: tuple[ParkedCommand, ...]
    ) -> None:
        """Decides what was kept, in order, each at its own place in time and with itself as the cause.

        By the keys of now, as by the policy of now: what a thief has sent meanwhile counts for nothing once his is revoked.
        """
        release = run.received
        for kept in parked:
            command: m.Command = COMMANDS.decode_body(kept.command, kept.fingerprint)
            encoded = Encoded(kept.fingerprint, kept.command, b"", "")
            run.received = Received(
                command,
                encoded,
                kept.command_hash,
                kept.topic,
                kept.partition,
                kept.offset,
                kept.at_ms,
                kept.vouched_by,
            )
            run.counted_from = len(run.out)
            self._fire_due(session, run, kept.at_ms)
            if session.state is None:
                continue
            if session.state.hold is not None:
                decided: list[r.EventBody] | Refusal = [
                    r.CommandParked(type(command.body).__name__, kept.fingerprint, kept.command)
                ]
            else:
                folded = SessionState(session.head, session.state)
                proposals = self._proposals(session, run.now_ms)
                decided = disowned(
                    self._identity, command, kept.vouched_by, kept.at_ms
                ) or decide_parked(folded, command, kept.command_hash, kept.at_ms, proposals)
            if isinstance(decided, Refusal):
                decided = [refused(command, decided)]
            for body in fitting(session.state, command, decided, self._app, self._facts):
                self._record(session, run, body, command.header.actor)
        run.received = release

    def _record(self, session: Session, run: _Run, body: r.EventBody, actor: str) -> None:
        """Appends one fact, folds it, and then all that the workflow makes of it, before anything else."""
        self._follow(session, run, [(body, actor)])

    def _follow(self, session: Session, run: _Run, work: list[tuple[r.EventBody, str]]) -> None:
        """Appends facts, the last of them first, and what follows from each before the next.

        A command that has led to much already begins no other turn, and delivers nothing more: `_go_on` does, when the
        next one comes, and the session owes itself a wake-up until then. Both use up what is kept, so it has an end; a
        workflow that goes round by itself has none, and is held.
        """
        while work:
            body, actor = work.pop()
            if len(run.out) - run.counted_from >= FACTS_PER_COMMAND_MAX:
                name = session.state.workflow if session.state is not None else ""
                raise WorkflowSpins(name, FACTS_PER_COMMAND_MAX)
            if isinstance(body, r.SessionFailed) and session.state is not None:
                body = compensating.instead_of(session.state, body)
            if isinstance(body, _LETS_GO) and session.state is not None:
                for withdrawal in withdrawals(session.state, body):
                    self._stamp(session, run, withdrawal, actor)
            body, at_once = look(session, self._app, self._facts, run.now_ms, body)
            event = self._stamp(session, run, body, actor)
            tired = len(run.out) - run.counted_from >= FACTS_AT_ONCE
            following = (
                [] if tired and isinstance(body, r.TurnStarted) else self._advance(session, event)
            )
            author = f"{WORKFLOW}{session.state.workflow}" if session.state else ENGINE
            work.extend((body, author) for body in reversed(following))
            work.extend((body, ENGINE) for body in reversed(at_once))
            if not work and session.state is not None and session.broken is None:
                owed = session.owed(run.now_ms)
                if owed is not None and not (tired and uses_up(owed)):
                    work.append((owed, ENGINE))

    def _go_on(self, session: Session, run: _Run) -> None:
        """Does what an earlier command stopped short of, before anything of this one."""
        state = session.state
        if state is None or not session.stopped_short:
            return
        run.by_clock = True
        owed = session.owed()
        if owed is not None:
            self._record(session, run, owed, ENGINE)
        else:
            following = self._advance(session, session.journal[0])
            author = f"{WORKFLOW}{state.workflow}"
            self._follow(session, run, [(body, author) for body in reversed(following)])
        run.by_clock = False
        run.counted_from = len(run.out)

    def _stamp(self, session: Session, run: _Run, body: r.EventBody, actor: str) -> r.Event:
        head, before = session.head, session.state
        envelope = envelope_of(
            session,
            run.received,
            body,
            actor=actor,
            at_ms=run.now_ms,
            control_offset=self._facts.control_offset,
            disposes=not run.by_clock,
        )
        requested = session.requested_by(r.Event(envelope, body))
        event = r.Event(envelope, recorded(body, before.data if before is not None else None))
        encoded = EVENTS.encode(event)
        hashed = event_hash(encoded.fingerprint, encoded.body, head.hash)
        session.head = fold_head(head, envelope, hashed)
        if session.broken is None:
            session.fold(event)
        task = task_of(event, requested, session.state)
        run.out.append(Stamped(event, encoded, task, commands_of(event, before)))
        return event

    def _advance(self, session: Session, event: r.Event) -> list[r.EventBody]:
        if session.state is None or session.broken is not None:
            return []
        if self._always_replay:
            session.drop()
        position = Position(session.tenant, session.session_id, session.state, session.journal)
        advanced = advance(self._app, position, event, session.stretch, self._facts)
        session.stretch = advanced.stretch
        return advanced.bodies

    def _park_if_waiting(self, session: Session, run: _Run) -> None:
        state = session.state
        if state is not None and (state.only_waits or waits_for_another(state, run.out)):
            body = r.SessionWaiting(state.turn, obligations(state), next_valid(state))
            self._record(session, run, body, ENGINE)

    def _handle_broken(self, session: Session, run: _Run) -> None:
        """A session whose history does not fold keeps every command; a cancellation still ends it."""
        command = run.received.command
        told, kind = session.broken or "", type(command.body).__name__
        if isinstance(command.body, m.FireTimer | m.StartChild):
            return
        kept = self._kept(session, run)
        if not session.announced:
            session.announced = run.by_clock = True
            self._stamp(session, run, r.SessionHeld("does_not_fold", told), ENGINE)
            run.by_clock = False
        if isinstance(command.body, m.CancelSession | m.CancelChild):
            self._stamp(
                session, run, r.CancellationRequested(command.body.reason), command.header.actor
            )
            ended = self._stamp(session, run, r.SessionCancelled((), (), ()), command.header.actor)
            session.fold(ended)
        elif isinstance(command.body, m.ReleaseSession | m.ResetSession):
            again = f"the history still does not fold ({told}): deploy code that folds it, restart, release again"
            refusal = r.CommandRefused(kind, "freshness", "does_not_fold", again)
            self._stamp(session, run, refusal, command.header.actor)
        else:
            for body in kept:
                self._stamp(session, run, body, command.header.actor)

    @staticmethod
    def _kept(session: Session, run: _Run) -> list[r.EventBody]:
        """The command as something to look at later; asked before anything of it is recorded."""
        received = run.received
        encoded = (received.encoded.fingerprint, received.encoded.body)
        state = session.state if session.broken is None else None
        hashed = received.command_hash or b""
        return keep(session.head, state, received.command, hashed, encoded, run.now_ms)

    def _hold_broken(self, session: Session, run: _Run, reason: str, told: str) -> Refusal | None:
        """A fault of the engine, or a workflow that spins, met this command: hold the session, keep the command.

        Where there is no session to hold, the command goes to the dead letters.
        """
        if session.state is None:
            return Refusal("scope", reason, told)
        kept = self._kept(session, run)
        if session.state.hold is None:
            run.by_clock = True
            self._record(session, run, r.SessionHeld(reason, told), ENGINE)
            run.by_clock = False
        for body in kept:
            self._record(session, run, body, run.received.command.header.actor)
        return None


_LETS_GO = (*WORKFLOW_ENDS, r.CompensationStarted, r.SessionReset, *get_args(Attaches))
_LETS_ON = (r.SessionReleased, r.SessionReset)
"""Facts after which what was kept while the session was held is decided."""
