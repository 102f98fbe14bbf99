"""`Turn`: what a workflow can ask of the engine. Every answer is a recorded fact, so a replay gets the same."""

from __future__ import annotations

import uuid
from collections.abc import Awaitable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol, TypeVar, overload

from ...events.records import Payload
from ..activities.definitions import Action
from ..durations import Duration, to_ms
from ..stored_json import read_json
from .errors import TurnDropped, WorkflowMisuse
from .waits import Several, Step, Winner, all_done, any_done

R = TypeVar("R")
A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
D = TypeVar("D")

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_IDS = uuid.uuid5(uuid.NAMESPACE_URL, "wakeful:turn")


@dataclass(frozen=True, slots=True)
class Approval:
    """How a proposal ended: `decision` is approved, rejected, expired, withdrawn or not_needed."""

    granted: bool
    decision: str
    actor: str
    comment: str


class Engine(Protocol):
    """What `Turn` needs of the driver that runs it."""

    now_ms: int
    dead: bool

    def run(self, action: Action[Any]) -> Step: ...
    def approval(self, action: Action[Any]) -> Step: ...
    def sleep(self, duration_ms: int) -> Step: ...
    def say(self, message: Any) -> None: ...
    def complete(self, outcome: Any) -> None: ...
    def withdraw(self, step: Step, *, cancel: bool) -> None: ...


class Turn:
    """One turn of one session, as its workflow sees it."""

    def __init__(self, engine: Engine, *, tenant: str, session_id: str, number: int) -> None:
        self._engine = engine
        self._ids_drawn = 0
        self._numbers_drawn = 0
        self.tenant = tenant
        self.session_id = session_id
        self.number = number

    async def run(self, action: Action[R]) -> R:
        """Runs the action on a worker and returns its recorded result.

        Raises `ActivityError` when it ended without one, `UnapprovedAction` when it is gated and no live approval
        of exactly this action is there.
        """
        if not isinstance(action, Action):
            raise WorkflowMisuse(
                f"turn.run takes an action, got {action!r}: write turn.run(activity.call(…))"
            )
        payload: Payload = await self._live().run(action)
        result: R = read_json(action.activity.result_type, payload.inline or b"null")
        return result

    async def approval(self, action: Action[Any]) -> Approval:
        """Asks for approval of this action; at once where its rule asks nobody. An approval is used by one `run`."""
        if not isinstance(action, Action):
            raise WorkflowMisuse(
                f"turn.approval takes an action, got {action!r}: write activity.call(…)"
            )
        if not action.needs_approval():
            return Approval(granted=True, decision="not_needed", actor="", comment="")
        decided: Approval = await self._live().approval(action)
        return decided

    async def sleep(self, duration: Duration) -> None:
        """Waits on the log's clock, without holding a process."""
        await self._live().sleep(to_ms(duration))

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
    async def gather(self, *awaitables: Awaitable[Any]) -> tuple[Any, ...]:
        """Waits until all are done and returns their values in the order given.

        If some failed, the first of them in that order is raised, once all are done: nothing is left in flight.
        """
        several = Several(awaitables, all_done)
        await several
        for strand in several.strands:
            if strand.error is not None:
                raise strand.error
        return tuple(strand.value for strand in several.strands)

    async def first(self, *awaitables: Awaitable[R], cancel: bool = False) -> Winner[R]:
        """Waits until one is done; gives its place and value, or raises what it raised.

        In the same moment the timers and approvals of the others are withdrawn. Their activities run on and their
        results count for nothing, or are cancelled where `cancel` says so (they may have run all the same).
        """
        several = Several(awaitables, any_done)
        await several
        winner = next(i for i, strand in enumerate(several.strands) if strand.done)
        for loser in several.strands:
            for step in loser.open_steps():
                self._live().withdraw(step, cancel=cancel)
            if not loser.done:
                loser.close()
        won = several.strands[winner]
        if won.error is not None:
            raise won.error
        return Winner(winner, won.value)

    async def say(self, message: Any) -> None:
        """Sends a reply (text, or anything that is JSON) to whoever listens to the session's outcomes."""
        self._live().say(message)

    async def complete(self, outcome: Any) -> None:
        """Ends the session with this outcome when the function returns; nothing may be run after it."""
        self._live().complete(outcome)

    def now(self) -> datetime:
        """The log's time of the fact that this activation goes on from; the same in every replay."""
        return _EPOCH + timedelta(milliseconds=self._live().now_ms)

    def uuid(self) -> uuid.UUID:
        """A fresh id, derived from the session and how many were drawn in this turn; the same in every replay."""
        self._live()
        self._ids_drawn += 1
        return uuid.uuid5(_IDS, f"{self.tenant}/{self.session_id}/{self.number}/{self._ids_drawn}")

    def random(self) -> float:
        """A number from 0 up to 1, derived like `uuid`: the same in every replay, another one at each call."""
        self._live()
        self._numbers_drawn += 1
        name = f"{self.tenant}/{self.session_id}/{self.number}/random/{self._numbers_drawn}"
        return (uuid.uuid5(_IDS, name).int >> 75) / (1 << 53)

    def _live(self) -> Engine:
        if self._engine.dead:
            raise TurnDropped
        return self._engine
