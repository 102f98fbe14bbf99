"""What a user declares: `@activity`, its contract and approval rule, and the action a call of it makes.

Pure: declaring an activity checks everything that can be known without running it, and fails at import with the
name of the function.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Generic, Never, NoReturn, Protocol, TypeVar, overload

from pydantic import TypeAdapter, ValidationError
from pydantic_core import PydanticSerializationError, to_jsonable_python

from ...events import contracts as words
from ...events.errors import OwnSignal
from ...events.shown import name_of, worded
from ..durations import Duration, to_ms
from ..stored_json import lost_number, read_json
from . import declaring, signatures
from .companions import DONE_KEY, LookUp, check_undo, checked_look_up
from .contracts import Contract, Read, Retry, Write
from .credentials import Provider
from .rules import Needs, check_when

R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)

ONCE = Retry(attempts=1)

KEY = signatures.KEY
CREDENTIALS = signatures.CREDENTIALS

Declined = signatures.Declined


class WrongArguments(TypeError):
    """A call that the activity does not take; says which argument, and why. `why` is that alone, without the signature."""

    def __init__(self, message: str, why: str = "") -> None:
        super().__init__(message)
        self.why = why or message


@dataclass(frozen=True, slots=True)
class Action(Generic[R_co]):
    """One activity call with its arguments, before it runs: what can be proposed, approved and executed."""

    activity: Activity[R_co]
    arguments: dict[str, Any]
    """JSON-able, by parameter name, defaults included."""

    def needs_approval(self) -> bool:
        """Whether the activity's rule asks somebody about these arguments."""
        rule = self.activity.approval
        if rule is None:
            return False
        return rule.when is None or bool(rule.when(**self.activity.typed(self.arguments)))


class Activity(Generic[R_co]):
    """A tool or model call that workers run; made by `@activity`, turned into an action by `.call(…)`."""

    def __init__(
        self,
        function: Callable[..., Awaitable[R_co] | R_co],
        *,
        contract: Contract,
        name: str,
        queue: str,
        times: declaring.Times,
        approval: Needs | None,
        retry: Retry,
        untrusted: bool = False,
    ) -> None:
        self.function = function
        self.untrusted = untrusted
        self.is_sync = not inspect.iscoroutinefunction(function)
        self.name = name
        self.contract = contract
        self.queue = queue
        self.start_to_close_ms = to_ms(times.timeout)
        self.schedule_to_close_ms = to_ms(times.schedule_to_close)
        self.approval = approval
        self.retry = retry
        self.approval_expires_ms = to_ms(approval.expires) if approval else 0
        self.heartbeat_ms = None if times.heartbeat is None else to_ms(times.heartbeat)
        signature = inspect.signature(function)
        hints = signatures.hints(f"activity {name!r}", function)
        self.takes_key = signatures.takes_key(name, signature, hints)
        self.takes_credentials = signatures.takes_credentials(f"activity {name!r}", signature)
        self._signature = signatures.of_callers(signature)
        self._hints = {n: kind for n, kind in hints.items() if n != CREDENTIALS}
        self._positional = signatures.all_positional(self._signature)
        self._arguments = signatures.arguments_type(name, self._signature, hints)
        self.result_type: TypeAdapter[R_co] = signatures.result_type(name, hints)
        if approval is not None:
            check_when(name, approval, tuple(self._signature.parameters))
        self.look_up, self.settle_ms = self._looked_up()
        self.undo = self._undone()
        self.__doc__ = function.__doc__

    def __call__(self, *_args: object, **_kwargs: object) -> NoReturn:
        """Refuses: an activity runs on a worker, and only its recorded result reaches a workflow."""
        raise TypeError(
            f"activity {self.name!r} is not called directly: in a workflow write "
            f"'await turn.run({self.name}.call(…))', in a test call {self.name}.function"
        )

    def __repr__(self) -> str:
        return f"<activity {self.name!r}>"

    def call(self, *args: Any, **kwargs: Any) -> Action[R_co]:
        """The action of calling it with these arguments; wrong ones raise here, in the workflow."""
        try:
            typed = self._arguments.validate_python(self._bind(args, kwargs))
        except ValidationError as error:
            raise self._wrong(problems(error)) from error
        try:
            arguments: dict[str, Any] = self._arguments.dump_python(
                typed, mode="json", by_alias=True
            )
        except (PydanticSerializationError, UnicodeError) as error:
            told = f"the arguments cannot be stored as JSON ({worded(error)})"
            raise self._wrong(told) from error
        lost = lost_number(self._arguments, typed, arguments)
        if lost is not None:
            raise self._wrong(lost)
        return Action(self, arguments)

    def _bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        """The arguments by name, defaults included; the usual call, all of them by position, takes no detour."""
        names = self._positional
        if names is not None and not kwargs and len(args) == len(names):
            return dict(zip(names, args, strict=True))
        try:
            bound = self._signature.bind(*args, **kwargs)
        except TypeError as error:
            raise self._wrong(str(error)) from error
        bound.apply_defaults()
        return bound.arguments

    def _wrong(self, why: str) -> WrongArguments:
        return WrongArguments(f"{self.name}{self._signature}: {why}", why)

    def schema(self) -> dict[str, Any]:
        """The JSON schema of its arguments, an object, with the defaults of those that may be left out.

        `PydanticInvalidForJsonSchema` where one of them has none.
        """
        schema = self._arguments.json_schema()
        for parameter in self._signature.parameters.values():
            known = schema.get("properties", {}).get(parameter.name)
            if known is not None and parameter.default is not parameter.empty:
                known["default"] = to_jsonable_python(parameter.default)
        return schema

    def typed(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """The arguments as the function's own types."""
        return self.typed_json(json.dumps(arguments).encode())

    def typed_json(self, arguments: bytes) -> dict[str, Any]:
        """The same, from stored JSON; `ValidationError` where the function no longer takes them.

        Parameters that got a default since the call was recorded may be absent; the default is used.
        """
        return read_json(self._arguments, arguments)

    def stored(self, result: Any) -> Any:
        """The result as JSON-able values; `ValueError` or `TypeError` where its type has no such form."""
        value = self.result_type.dump_python(result, mode="json", by_alias=True, warnings="error")
        lost = lost_number(self.result_type, result, value)
        if lost is not None:
            raise ValueError(lost)
        return value

    @property
    def companions(self) -> tuple[Activity[Any], ...]:
        """The activities that its contract names, which a worker must know as well."""
        return () if self.undo is None else (self.undo,)

    def undo_action(self, arguments: dict[str, Any], done_key: str) -> Action[Any]:
        """What undoes the call with these arguments, as they were recorded, that was made under this key.

        `TypeError` where the contract has no undo, or where it does not take what was recorded.
        """
        if self.undo is None:
            raise TypeError(f"activity {self.name!r} has no undo: its contract is {self.contract}")
        given = {**self.typed(arguments), DONE_KEY: done_key}
        taken = self.undo._signature.parameters  # noqa: SLF001 another of its own kind
        return self.undo.call(**{name: value for name, value in given.items() if name in taken})

    def taking_back(self, action: Action[Any], done_key: str) -> Action[R_co]:
        """The action of this activity with what `action` was given under the same names, and its key where it takes it."""
        given = {**action.activity.typed(action.arguments), DONE_KEY: done_key}
        taken = self._signature.parameters
        return self.call(**{name: value for name, value in given.items() if name in taken})

    def _looked_up(self) -> tuple[LookUp | None, int | None]:
        contract = self.contract
        if not isinstance(contract, Write) or contract.lookup is None:
            return None, None
        function = contract.lookup
        if isinstance(function, Activity):
            raise Declined(
                f"the look-up of activity {self.name!r} is activity {function.name!r}: "
                "give a plain function, it runs within the attempt"
            )
        look_up = checked_look_up(self.name, self._signature, self._hints, function)
        settle_ms = to_ms(contract.settle)
        if settle_ms >= self.schedule_to_close_ms:
            raise Declined(
                f"activity {self.name!r} has settle={contract.settle!r}: its look-up "
                f"{look_up.name!r} would come after schedule_to_close"
            )
        return look_up, settle_ms

    def _undone(self) -> Activity[Any] | None:
        undo = self.contract.undo if isinstance(self.contract, Write) else None
        if undo is None:
            return None
        if not isinstance(undo, Activity):
            named = getattr(undo, "__name__", repr(undo))
            raise Declined(
                f"the undo of activity {self.name!r}, {named!r}, is not an activity: declare it with @activity"
            )
        both = f"the undo of activity {self.name!r}, {undo.name!r},"
        if isinstance(undo.contract, Read):
            raise Declined(
                f"{both} is a Read(), which changes nothing and so undoes nothing: "
                "give it contract=Write(idempotent=True) or a look-up"
            )
        if undo.approval is not None:
            raise Declined(
                f"{both} needs the approval of {undo.approval.approver!r}, and nobody is asked when something is "
                "undone: give the undo no approval=, or have the workflow ask first and run it by itself"
            )
        if undo.contract.word in words.ONCE:
            raise Declined(
                f"{both} is itself called at most once: "
                "an undo must be safe to repeat, so make it idempotent or give it a look-up"
            )
        theirs = undo._signature, undo._hints  # noqa: SLF001 another of its own kind
        check_undo(self.name, self._signature, self._hints, undo.name, *theirs)
        return undo


class Declared(Protocol):
    """The activities of an app, as a worker needs them; see `processors.app.App`."""

    name: str
    activities: dict[str, Activity[Any]]
    credentials: Provider[Any] | None

    @property
    def queues(self) -> list[str]: ...


class Declaring(Protocol):
    """What `@activity(…)` is: it takes async and sync functions, and both give an activity of their result."""

    @overload
    def __call__(self, function: Callable[..., Awaitable[R]], /) -> Activity[R]: ...

    @overload
    def __call__(self, function: Callable[..., R], /) -> Activity[R]: ...


def activity(
    *misplaced: Never,
    contract: Contract | None = None,
    name: str | None = None,
    queue: str = "default",
    timeout: Duration | None = None,
    schedule_to_close: Duration | None = None,
    approval: Needs | None = None,
    retry: Retry = ONCE,
    heartbeat: Duration | None = None,
    untrusted: bool = False,
) -> Declaring:
    """Declares a function as an activity: `async def`, or `def` for calls that block.

    `contract` says how it may be retried and has no default. `timeout` is start-to-close, kept by the worker,
    by default 60 seconds; `schedule_to_close` runs from the request and is kept by the log's clock; by default 24
    hours, and one hour where the contract calls it at most once, since its end is what tells that a lost call is
    uncertain. Of times that are named, none may end before another can matter. A keyword-only
    parameter `key: str` receives the idempotency key, stable over attempts, and one named `credentials` what the app's
    provider (`@credentials`) returns for this attempt. `heartbeat` is how long a begun attempt may be silent.

    Async activities of a worker share one event loop and are cancelled at their time-out. Sync ones run in a few
    threads, each call in a context of its own; their clock starts when they have a thread. Nothing can stop a sync
    activity past its time-out, nor an async one that blocks the event loop past it: the worker reports `timed_out`,
    lets the others finish for a bounded time, and ends its process with exit code 70, to be started again. So a
    sync activity needs time-outs of its own inside, shorter than this one.

    `untrusted` says that nobody vouches for what it returns, as for a page of the web: from its first result on, the
    session is tainted, and policy decides what may then be carried out without somebody's approval.

    `retry` is how often a failed attempt is followed by another; by default never. The policy is recorded with the
    request, and a deploy changes it for later requests only. A workflow sees one wait and its one end: the result of
    the attempt that succeeded, or the last failure. A back-off holds no worker and survives every crash; the next
    attempt is dispatched with the same key when the log's clock passes its due time, and none beyond
    `schedule_to_close`. A result of an attempt that has failed or timed out is recorded as late, and not applied.
    """

    declaring.check_keywords(misplaced)

    def declare(function: Callable[..., Any]) -> Activity[Any]:
        own_name = str(getattr(function, "__name__", function))
        label = declaring.check_name("activity", own_name if name is None else name)
        checked = declaring.checked_contract(label, function, contract, approval)
        return Activity(
            function,
            contract=checked,
            name=label,
            queue=declaring.checked_queue(label, queue),
            times=declaring.checked_times(
                label,
                once=checked.word in words.ONCE,
                timeout=timeout,
                schedule_to_close=schedule_to_close,
                heartbeat=heartbeat,
            ),
            approval=approval,
            retry=declaring.checked_retry(label, retry),
            untrusted=declaring.checked_untrusted(label, untrusted),
        )

    return declare


def problems(error: ValidationError) -> str:
    """What does not fit, one phrase per field, without the values (they may be secrets)."""
    try:
        found = error.errors(include_url=False, include_context=False, include_input=False)
    except OwnSignal:
        raise
    except BaseException as second:  # noqa: BLE001 it asks a validator's own exception for its words
        return f"<its message raised {name_of(type(second))}>"
    parts = (f"{'.'.join(str(at) for at in e['loc']) or 'value'}: {e['msg']}" for e in found[:5])
    return "; ".join(parts)
