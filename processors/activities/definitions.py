"""What a user declares: `@activity`, its contract and approval rule, and the action a call of it makes.

Pure: declaring an activity checks everything that can be known without running it, and fails at import with the
name of the function.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, get_type_hints

from pydantic import BaseModel, ConfigDict, TypeAdapter, create_model

from ..durations import Duration, to_ms
from .contracts import Contract, Read, Write

R = TypeVar("R")

TIMEOUT_DEFAULT = "60s"
"""Start-to-close where none is named: longer than a slow model call, shorter than a person's patience."""

SCHEDULE_TO_CLOSE_DEFAULT = "24h"
"""From request to result, queueing and dead workers included."""


class Declined(TypeError):
    """A declaration that cannot work; raised at import, names the function and what to write instead."""


@dataclass(frozen=True, slots=True)
class Needs:
    """Who must approve the action (`approver`), for which arguments (`when`, all if absent), and until when."""

    approver: str
    when: Callable[..., bool] | None = None
    expires: Duration = "24h"


@dataclass(frozen=True, slots=True)
class Action(Generic[R]):
    """One activity call with its arguments, before it runs: what can be proposed, approved and executed."""

    activity: Activity[R]
    arguments: dict[str, Any]
    """JSON-able, by parameter name, defaults included."""

    def needs_approval(self) -> bool:
        """Whether the activity's rule asks somebody about these arguments."""
        rule = self.activity.approval
        if rule is None:
            return False
        return rule.when is None or bool(rule.when(**self.activity.typed(self.arguments)))


class Activity(Generic[R]):
    """A tool or model call that workers run; made by `@activity`, turned into an action by `.call(…)`."""

    def __init__(
        self,
        function: Callable[..., Awaitable[R]],
        *,
        contract: Contract,
        name: str,
        queue: str,
        timeout: Duration,
        schedule_to_close: Duration,
        approval: Needs | None,
    ) -> None:
        self.function = function
        self.name = name
        self.contract = contract
        self.queue = queue
        self.start_to_close_ms = to_ms(timeout)
        self.schedule_to_close_ms = to_ms(schedule_to_close)
        self.approval = approval
        self.approval_expires_ms = to_ms(approval.expires) if approval else 0
        self.takes_key = False
        self._signature, self._model, self.result_type = self._read_signature()
        self.__doc__ = function.__doc__

    def call(self, *args: Any, **kwargs: Any) -> Action[R]:
        """The action of calling it with these arguments; wrong ones raise here, in the workflow."""
        try:
            bound = self._signature.bind(*args, **kwargs)
        except TypeError as error:
            raise TypeError(f"{self.name}{self._signature}: {error}") from error
        return Action(self, self._model(**bound.arguments).model_dump(mode="json"))

    def typed(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """The arguments as the function's own types."""
        model = self._model.model_validate(arguments)
        return {name: getattr(model, name) for name in type(model).model_fields}

    def _read_signature(self) -> tuple[inspect.Signature, type[BaseModel], TypeAdapter[R]]:
        signature, hints = inspect.signature(self.function), get_type_hints(self.function)
        fields: dict[str, Any] = {}
        kept = []
        for parameter in signature.parameters.values():
            if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
                raise Declined(f"activity {self.name!r} takes *{parameter.name}: name each parameter instead")
            if parameter.name == "key" and parameter.kind is parameter.KEYWORD_ONLY:
                self.takes_key = True
                continue
            kind = hints.get(parameter.name)
            if kind is None:
                raise Declined(f"parameter {parameter.name!r} of activity {self.name!r} has no type: annotate it")
            default = ... if parameter.default is parameter.empty else parameter.default
            fields[parameter.name] = (kind, default)
            kept.append(parameter)
        model = create_model(
            f"{self.name}_arguments", __config__=ConfigDict(arbitrary_types_allowed=False, extra="forbid"), **fields
        )
        return signature.replace(parameters=kept), model, TypeAdapter(hints.get("return", Any))


def activity(
    *,
    contract: Contract | None = None,
    name: str | None = None,
    queue: str = "default",
    timeout: Duration = TIMEOUT_DEFAULT,
    schedule_to_close: Duration = SCHEDULE_TO_CLOSE_DEFAULT,
    approval: Needs | None = None,
) -> Callable[[Callable[..., Awaitable[R]]], Activity[R]]:
    """Declares an async function as an activity.

    `contract` says how it may be retried and has no default. `timeout` is start-to-close, kept by the worker;
    `schedule_to_close` runs from the request and is kept by the log's clock. A keyword-only parameter `key: str`
    receives the idempotency key, stable over attempts.
    """

    def declare(function: Callable[..., Awaitable[R]]) -> Activity[R]:
        label = name or function.__name__
        if contract is None:
            raise Declined(
                f"activity {label!r} has no contract: write contract=Read() if it changes nothing, "
                "or contract=Write(idempotent=True) if it honours its key"
            )
        if not inspect.iscoroutinefunction(function):
            raise Declined(f"activity {label!r} is not an async function: write 'async def {function.__name__}'")
        if isinstance(contract, Write) and not contract.idempotent:
            raise Declined(
                f"activity {label!r} has contract Write(): this version runs only Read() and Write(idempotent=True)"
            )
        if isinstance(contract, Read) and approval is not None:
            raise Declined(f"activity {label!r} is a Read() with an approval rule: reads cannot be gated")
        return Activity(
            function,
            contract=contract,
            name=label,
            queue=queue,
            timeout=timeout,
            schedule_to_close=schedule_to_close,
            approval=approval,
        )

    return declare
