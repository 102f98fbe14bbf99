"""Resources as a turn asks for them: what activities have set up outside, and the session holds from turn to turn."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Generic, Literal, TypeVar

from pydantic import ValidationError

from ...events.holding import HeldResource
from ...events.shown import shown
from ..activities.contracts import Read
from ..activities.definitions import Action, Activity, problems
from ..durations import Duration
from ..stored_json import read_json
from .engine import Engine, checked_action, checked_duration, checked_name
from .errors import ActivityError, WorkflowMisuse, WrongHandle
from .noting import noted
from .undoing import run_or_undo

R = TypeVar("R")

Given = Callable[[R], Action[Any]] | Activity[Any] | Action[Any]
"""How an action is made of a handle: by a function such as `restore.call`, by the activity itself, or it is the action."""

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Resource(Generic[R]):
    """What the session holds of a kind, as of this step. See `Turn.resource`.

    `how` is `held` where it was attached before, `attached` or `reattached` where that was done for this step.
    """

    kind: str
    handle: R
    how: Literal["held", "attached", "reattached"]
    expires_at: datetime
    id: str
    release: Action[Any] | None = field(repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class _Wanted(Generic[R]):
    """What `turn.resource` was given, checked."""

    kind: str
    attach: Action[R]
    ttl_ms: int
    reconstruct: Given[R] | None
    release: Given[R] | None

    def made(
        self, held: HeldResource, how: Literal["held", "attached", "reattached"]
    ) -> Resource[R]:
        """The resource as the workflow sees it."""
        handle = self.read(held)
        expires_at = EPOCH + timedelta(milliseconds=held.expires_at_ms)
        return Resource(
            self.kind, handle, how, expires_at, held.resource_id, self.give_back(handle)
        )

    def give_back(self, handle: R) -> Action[Any] | None:
        """The action that gives it back, if there is one."""
        if self.release is None:
            return None
        action = _made("release", self.release, handle)
        if isinstance(action.activity.contract, Read):
            name = action.activity.name
            raise WorkflowMisuse(
                f"turn.resource({self.kind!r}) was given release={name}, which is a Read() and so gives nothing back: "
                "give it a Write(…)"
            )
        return action

    def read(self, held: HeldResource) -> R:
        """Its handle, as what `attach` returns."""
        try:
            handle: R = read_json(self.attach.activity.result_type, held.handle.inline or b"null")
        except ValidationError as error:
            raise WrongHandle(self.kind, problems(error)) from error
        return handle


class Holding(ABC):
    """The half of a turn that is about resources."""

    @noted
    async def resource(
        self,
        kind: str,
        *,
        attach: Action[R],
        ttl: Duration,
        reconstruct: Given[R] | None = None,
        release: Given[R] | None = None,
    ) -> Resource[R]:
        """What the session holds of this kind (a sandbox, a browser): at once, in later turns too, and set up where it is not.

        `attach` sets it up, and what it returns is the handle. It is held for `ttl` on the log's clock, whatever process
        or worker ends meanwhile, or until a tool raises `ResourceLost(kind)`. Asked for again after that, `reconstruct`
        sets it up anew from its last handle, or `attach` does where there is none. Both are activities like any other:
        recorded, retried by their own rules, and they raise `ActivityError`.

        Branches that ask for it at once share it: one sets it up, the others wait for that.

        `release` is made of the handle as well, and is carried out by `turn.release`, and should the session fail or be
        cancelled while it holds the resource.
        """
        engine = await self._here()
        wanted = _Wanted(
            checked_name(kind, "kind of resource"),
            checked_action(attach, "resource(attach=…)"),
            _checked_ttl(ttl),
            _checked_given("reconstruct", reconstruct),
            _checked_given("release", release),
        )
        held = engine.holdings.live(wanted.kind, engine.now_ms)
        while held is None:
            engine = await self._to_wait()
            if not engine.holdings.is_attaching(wanted.kind):
                return await self._attached(engine, wanted)
            await engine.holdings.attached(wanted.kind)
            held = (engine := self._live()).holdings.live(wanted.kind, engine.now_ms)
        return wanted.made(held, "held")

    @noted
    async def release(self, resource: Resource[Any]) -> None:
        """Gives the resource back: runs its `release`, if it has one, and holds it no more. Nothing where that is so already.

        Raises `ActivityError` where its release fails: then it is still held.
        """
        engine = await self._to_wait()
        if not isinstance(resource, Resource):
            raise WorkflowMisuse(
                f"turn.release was given {shown(resource)}: give it what turn.resource(…) returned"
            )
        if not engine.holds(resource.kind, resource.id):
            return
        if resource.release is not None:
            try:
                await run_or_undo(self._live, resource.release, "wait", None)
            except ActivityError as error:
                if error.lost != resource.kind:
                    raise
        if (engine := self._live()).holds(resource.kind, resource.id):
            engine.released(resource.kind, resource.id)

    async def _attached(self, engine: Engine, wanted: _Wanted[R]) -> Resource[R]:
        kind, holdings = wanted.kind, engine.holdings
        holdings.check_room(kind)
        last, action = holdings.last(kind), wanted.attach
        again = last is not None and wanted.reconstruct is not None
        if last is not None and wanted.reconstruct is not None:
            action = _made("reconstruct", wanted.reconstruct, wanted.read(last))
        resource_id = engine.next_place
        with holdings.attaching(kind):
            given = await run_or_undo(self._live, action, "wait", None)
            engine = self._live()
            held = engine.held(kind, resource_id, given, wanted.ttl_ms)
            made = wanted.made(held, "reattached" if again else "attached")
            engine.attached(held, made.release, again=again)
        return made

    @abstractmethod
    async def _here(self) -> Engine: ...

    @abstractmethod
    async def _to_wait(self) -> Engine: ...

    @abstractmethod
    def _live(self) -> Engine: ...


def _made(what: str, given: Given[R], handle: R) -> Action[Any]:
    if isinstance(given, Action):
        return given
    made = given.call(handle) if isinstance(given, Activity) else given(handle)
    if not isinstance(made, Action):
        raise WorkflowMisuse(
            f"turn.resource: {what} made {shown(made)} of the handle: let it return an action, as activity.call does"
        )
    return made


def _checked_given(what: str, given: Given[R] | None) -> Given[R] | None:
    if given is not None and not isinstance(given, Action | Activity) and not callable(given):
        raise WorkflowMisuse(
            f"turn.resource was given {what}={shown(given)}: give it an activity, its .call, or a function that makes an "
            "action of the handle"
        )
    return given


def _checked_ttl(given: Duration) -> int:
    ttl_ms = checked_duration(given, "resource")
    if ttl_ms < 1:
        raise WorkflowMisuse(
            f"turn.resource was given ttl={shown(given)}: say how long it may be held, as in ttl='30m'"
        )
    return ttl_ms
