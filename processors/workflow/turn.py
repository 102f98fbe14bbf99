"""`Turn`: what a workflow can ask of the engine. Every answer is a recorded fact, so a replay gets the same."""

from __future__ import annotations

import uuid
from collections.abc import Generator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol, TypeVar

from ...events.records import Payload
from ..activities.definitions import Action
from ..durations import Duration, to_ms
from ..stored_json import read_json
from .errors import TurnDropped, WorkflowMisuse

R = TypeVar("R")

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_IDS = uuid.uuid5(uuid.NAMESPACE_URL, "wakeful:turn")


@dataclass(frozen=True, slots=True)
class Approval:
    """How a proposal ended: `decision` is approved, rejected, expired, withdrawn or not_needed."""

    granted: bool
    decision: str
    actor: str
    comment: str


@dataclass(slots=True)
class Step:
    """A wait for one recorded fact; awaiting it hands control back to the engine until the fact is there."""

    name: str
    value: Any = None
    error: Exception | None = None
    done: bool = False

    def __await__(self) -> Generator[Step, None, Any]:
        if not self.done:
            yield self
        if self.error is not None:
            raise self.error
        return self.value


class Engine(Protocol):
    """What `Turn` needs of the driver that runs it."""

    now_ms: int
    dead: bool

    def run(self, action: Action[Any]) -> Step: ...
    def approval(self, action: Action[Any]) -> Step: ...
    def sleep(self, duration_ms: int) -> Step: ...
    def say(self, message: Any) -> None: ...
    def complete(self, outcome: Any) -> None: ...


class Turn:
    """One turn of one session, as its workflow sees it."""

    def __init__(self, engine: Engine, *, tenant: str, session_id: str, number: int) -> None:
        self._engine = engine
        self._ids_drawn = 0
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

    def _live(self) -> Engine:
        if self._engine.dead:
            raise TurnDropped
        return self._engine
