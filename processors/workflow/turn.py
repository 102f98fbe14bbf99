"""`Turn`: what a workflow can ask of the engine. Every answer is a recorded fact, so a replay gets the same."""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Mapping
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Literal, TypeVar, overload

from pydantic import ValidationError

from ..activities.definitions import Action, Activity, problems
from ..durations import Duration
from ..stored_json import read_json
from .answers import Ended
from .approval import NOT_NEEDED, Approval, approval_of
from .child import Child, opened
from .definitions import Message, Workflow
from .engine import (
    Engine,
    checked_action,
    checked_choice,
    checked_duration,
    checked_flag,
    checked_name,
    checked_values,
    checked_verification,
    read_result,
    reader,
    written,
)
from .errors import (
    ActivityError,
    TurnDropped,
    VerificationFailed,
    WorkflowMisuse,
    WrongSignal,
)
from .job import Job
from .noting import noted
from .resources import EPOCH, Holding
from .undoing import run_or_undo
from .waits import Refused, Several, Step, Strand, Winner, all_done, any_done, let_all_go

R = TypeVar("R")
S = TypeVar("S")
T = TypeVar("T")
A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
D = TypeVar("D")

_IDS = uuid.uuid5(uuid.NAMESPACE_URL, "wakeful:turn")


REFUSALS_MAX = 100
"""Times that code which uses a turn that is over is told so; one that still goes on catches whatever it is told."""


class Turn(Holding):
    """One turn of one session, as its workflow sees it. Its methods work while the turn's own function runs."""

    def __init__(
        self, engine: Engine, *, tenant: str, session_id: str, number: int, stretch: int = 0
    ) -> None:
        self._engine = engine
        self._refusals = 0
        self._ids_drawn = 0
        self._numbers_drawn = 0
        self._place = f"{number}.{stretch}" if stretch else f"{number}"
        self.tenant = tenant
        self.session_id = session_id
        self.number = number

    @noted
    async def run(
        self,
        action: Action[R],
        *,
        on_uncertain: Literal["wait", "raise"] = "wait",
        compensate: Action[Any] | Activity[Any] | None = None,
    ) -> R:
        """Runs the action on a worker and returns its recorded result.

        Raises `ActivityError` when it ended without one, `UnapprovedAction` when it is gated and no live approval
        of exactly this action is there. Where nobody can know whether it was carried out, it waits until somebody
        resolves it, or raises `Uncertain` where `on_uncertain` says so. An activity with an undo is undone instead,
        and `ActivityError` of kind `undone` is raised.

        `compensate` takes it back, should the session fail or be cancelled: an action, or an activity that is called with
        the same arguments (and the key of this call as `done_key`, if it takes it). It is recorded with the request, and
        kept over turns until the session completes or `committed` says that what was done stands.
        """
        await self._to_wait()
        checked_action(action, "run")
        payload = await run_or_undo(self._live, action, checked_choice(on_uncertain), compensate)
        result: R = read_json(action.activity.result_type, payload.inline or b"null")
        return result

    @noted
    async def approval(self, action: Action[R]) -> Approval[R]:
        """Asks for approval of this action; at once where its rule asks nobody. An approval is used by one `run`.

        Run the `action` of what it returns: an approver may have changed the arguments, and approved those. An approval
        that was not used is gone with the stretch: `again` has to ask anew.
        """
        await self._here()
        checked_action(action, "approval")
        if not action.needs_approval():
            return Approval(True, NOT_NEEDED, actor="", comment="", action=action)
        ended: Ended = await (await self._to_wait()).approval(action)
        return approval_of(action, ended)

    @noted
    async def sleep(self, duration: Duration) -> None:
        """Waits on the log's clock, without holding a process."""
        await (await self._to_wait()).sleep(checked_duration(duration))

    @overload
    async def signal(self, name: str) -> Any: ...
    @overload
    async def signal(self, name: str, kind: type[T]) -> T: ...
    @noted
    async def signal(self, name: str, kind: Any = Any) -> Any:
        """Waits for a signal of this name and returns its data, read as `kind`.

        Signals that came before are kept, and the oldest is taken first; each is taken once. Data of another shape
        raises `WrongSignal`.
        """
        engine = await self._to_wait()
        kind = reader(kind)
        data = await engine.signal(checked_name(name, "signal name"))
        try:
            return read_json(kind, data.inline or b"null")
        except ValidationError as error:
            raise WrongSignal(name, problems(error)) from error

    @overload
    def job(self, name: str, *, within: Duration, untrusted: bool = False) -> Job[Any]: ...
    @overload
    def job(
        self, name: str, *, within: Duration, expect: type[T], untrusted: bool = False
    ) -> Job[T]: ...
    @noted
    def job(
        self, name: str, *, within: Duration, expect: Any = Any, untrusted: bool = False
    ) -> Job[Any]:
        """Waits for work that somebody else does: hand the job's `id` to them, then `await` it for the result.

        The wait begins here: whoever is told the id can answer at once. `JobError` is raised where they say that it will not be
        done, or nothing `within` that time; `WrongResult` where the result is no `expect`. `untrusted`: as of an activity.
        """
        if not (engine := self._live()).may_wait():
            raise WorkflowMisuse(engine.misuse)
        kind = reader(expect, "job")
        name, within_ms = checked_name(name, "job name"), checked_duration(within, "job")
        step = engine.job(name, within_ms, untrusted=bool(untrusted))
        return Job(step.wait_id, name, partial(self._done, "job", name, step, kind))

    @overload
    def child(
        self,
        workflow: str | Workflow[Any],
        given: Any = None,
        *,
        within: Duration,
        attributes: Mapping[str, Any] | None = None,
    ) -> Child[Any]: ...
    @overload
    def child(
        self,
        workflow: str | Workflow[Any],
        given: Any = None,
        *,
        within: Duration,
        expect: type[T],
        attributes: Mapping[str, Any] | None = None,
    ) -> Child[T]: ...
    @noted
    def child(
        self,
        workflow: str | Workflow[Any],
        given: Any = None,
        *,
        within: Duration,
        expect: Any = Any,
        attributes: Mapping[str, Any] | None = None,
    ) -> Child[Any]:
        """Opens a session of this workflow with this message; `await` it for what it completes with (`turn.complete`).

        It begins here, for the same person as this turn, and several of them run side by side. `ChildError` is raised where
        it fails, is cancelled, or has not ended `within` that time, which is never more than is left to this session if
        that is a child as well; `WrongResult` where its outcome cannot be read as `expect`. A child that is not waited for
        any more is cancelled: when it is late, lost in `first`, or when the turn or the session ends.
        """
        engine = self._live()
        if not engine.may_wait():
            raise WorkflowMisuse(engine.misuse)
        kind = reader(expect, "child")
        name, step = opened(engine, workflow, given, within, attributes)
        return Child(step.wait_id, name, partial(self._done, "child", name, step, kind))

    @noted
    async def _done(self, what: str, name: str, step: Step, kind: Any) -> Any:
        engine = await self._to_wait()
        if not engine.is_open(step):
            raise WorkflowMisuse(
                f"{what} {name!r} ({step.wait_id}) is not awaited any more: it lost in turn.first, or is another stretch's"
            )
        return read_result(what, name, kind, await step)

    @noted
    async def inbox(self, *, wait: bool = False) -> list[Message]:
        """Takes the messages that came since the turn began, so that they start no turn of their own.

        There may be none, unless `wait`: then it waits for the first. One look takes 512 KiB at most, oldest first; what
        is left waits for the next.
        """
        engine = await self._to_wait()
        taken: list[Message] = await engine.inbox(wait=checked_flag(wait, "inbox", "wait"))
        return taken

    @overload
    async def gather(self, a: Awaitable[A], b: Awaitable[B], /) -> tuple[A, B]: ...
    @overload
    async def gather(
        self, a: Awaitable[A], b: Awaitable[B], c: Awaitable[C], /
    ) -> tuple[A, B, C]: ...
    @overload
    async def gather(
        self, a: Awaitable[A], b: Awaitable[B], c: Awaitable[C], d: Awaitable[D], /
    ) -> tuple[A, B, C, D]: ...
    @overload
    async def gather(self, *awaitables: Awaitable[R]) -> tuple[R, ...]: ...
    @noted
    async def gather(self, *awaitables: Awaitable[Any]) -> tuple[Any, ...]:
        """Waits until all are done and returns their values in the order given; of none, at once.

        If some failed, the first of them in that order is raised, once all are done: nothing is left in flight.
        """
        await self._here()
        if not awaitables:
            return ()  # a list that the data happens to leave empty
        several = Several(awaitables, all_done)
        await several
        for strand in several.strands:
            if strand.error is not None:
                raise strand.error
        return tuple(strand.value for strand in several.strands)

    @noted
    async def first(self, *awaitables: Awaitable[R], cancel: bool = False) -> Winner[R]:
        """Waits until one is done; gives its place and value, or raises what it raised.

        In the same moment the others' timers, approvals, signals and looks into the inbox are withdrawn. Their
        activities run on until the turn or the stretch ends, and are cancelled then, or at once where `cancel` says so
        (they may have run all the same); their results count for nothing. An undo that has begun always runs on.

        The others' `finally` blocks are run, and may not wait. What they raise is raised here, with what the winner
        raised as a `BaseExceptionGroup` where it is more than one.
        """
        await self._here()
        checked_flag(cancel, "first", "cancel")
        several = Several(awaitables, any_done)
        await several
        winner = next(i for i, strand in enumerate(several.strands) if strand.done)
        won = several.strands[winner]
        with self._live().letting_go():
            let_all_go(several.strands, partial(self._let_go, cancel=cancel), won.error)
        return Winner(winner, won.value)

    @noted
    async def say(self, message: Any) -> None:
        """Sends a reply (text, JSON, or a pydantic model) to whoever listens to the session's outcomes."""
        written(message, "say", (await self._here()).say)

    @noted
    async def committed(self) -> None:
        """Says that what was done so far stands: nothing of it is taken back, should the session fail or be cancelled."""
        (await self._here()).committed()

    @noted
    async def artifact(self, artifact_id: str, version: str) -> None:
        """Records that the turn relies on this version of something outside: a document, a price list, a data set."""
        engine = await self._here()
        engine.artifact(
            checked_name(artifact_id, "artifact id"), checked_name(version, "artifact version")
        )

    @noted
    async def attributes(self, values: Mapping[str, str | float | bool | datetime | None]) -> None:
        """Says by what the session is found: 8 names at most, each a text, integer, number, boolean or timestamp.

        What is not named stays as it is, None removes, and to set the same again is nothing new. Attributes are no secrets:
        they stand in lists and addresses.
        """
        (await self._here()).attributes(checked_values(values))

    @noted
    async def complete(self, outcome: Any, *, verify: Action[bool] | None = None) -> None:
        """Ends the session with this outcome (JSON, or a pydantic model) when the function returns; nothing may be run after it.

        `verify` is an action of a `Read()` activity that returns a bool. It is run first; where it says no, or fails,
        `VerificationFailed` is raised here. Uncaught, that holds the session, and a release verifies again.
        """
        engine = await self._here()
        engine.may_end("turn.complete")
        payload = written(outcome, "complete", engine.payload)
        if verify is None:
            engine.complete(payload, verified_by=None)
            return
        checked_verification(verify)
        while (refused := await self._verify(verify)) is not None:
            if self._live().refused(refused):
                raise refused
        self._live().complete(payload, verified_by=verify.activity.name)

    @noted
    def again(self, state: S) -> S:
        """`return turn.again(state)` ends this stretch of the turn: the function runs again from its top.

        It gets this state and the same message, and begins a new journal, so a turn stays cheap however long it goes on.
        Nothing may be in flight.
        """
        self._live().again(state)
        return state

    @noted
    def version(self, change: str) -> bool:
        """Whether this stretch takes the new side of a change: false where its history was made without it."""
        return self._live().version(checked_name(change, "name of a change"))

    def now(self) -> datetime:
        """The log's time of the fact that this activation goes on from; the same in every replay."""
        return EPOCH + timedelta(milliseconds=self._live().now_ms)

    def uuid(self) -> uuid.UUID:
        """A fresh id, derived from the session and how many were drawn in this stretch; the same in every replay."""
        self._live()
        self._ids_drawn += 1
        return uuid.uuid5(_IDS, f"{self.tenant}/{self.session_id}/{self._place}/{self._ids_drawn}")

    def random(self) -> float:
        """A number from 0 up to 1, derived like `uuid`: the same in every replay, another one at each call."""
        self._live()
        self._numbers_drawn += 1
        name = f"{self.tenant}/{self.session_id}/{self._place}/random/{self._numbers_drawn}"
        return (uuid.uuid5(_IDS, name).int >> 75) / (1 << 53)

    def _note(self, error: WorkflowMisuse) -> None:
        """The driver holds the session for the first of these; one of a turn that does not run is another's to see."""
        if self._engine.running and not self._engine.misuse:
            self._engine.misuse = str(error)

    def _let_go(self, loser: Strand, *, cancel: bool) -> None:
        for step in loser.open_steps():
            self._live().withdraw(step, cancel=cancel)
        loser.let_go()

    async def _verify(self, check: Action[bool]) -> VerificationFailed | None:
        name = check.activity.name
        try:
            payload = await (await self._to_wait()).verify(check)
        except ActivityError as error:
            return VerificationFailed(name, error.failure)
        holds = read_json(check.activity.result_type, payload.inline or b"null")
        return None if holds else VerificationFailed(name, None)

    async def _to_wait(self) -> Engine:
        """The engine, for what waits: nothing does in a branch that lost and is let go."""
        engine = await self._here()
        if not engine.may_wait():
            await Refused(engine.misuse)
        return engine

    async def _here(self) -> Engine:
        """The engine; code that catches whatever it is told is left where it stands, and not told for ever."""
        engine = self._engine
        is_over = engine.dead or not engine.running
        if engine.misuse or (is_over and self._refusals >= REFUSALS_MAX):
            await Refused(engine.misuse or self._told())
        return self._live()

    def _live(self) -> Engine:
        engine = self._engine
        if engine.running and not engine.dead:
            return engine
        self._refusals += 1
        raise TurnDropped(self._told()) if engine.running else WorkflowMisuse(self._told())

    def _told(self) -> str:
        turn = f"turn {self.number} of session {self.session_id!r}"
        if self._engine.running:
            return f"{turn} was let go in this process: what it asks for from here on counts for nothing"
        return (
            f"{turn} was used while its function does not run: "
            "use the turn that the function was given, inside it, and do not keep it"
        )
