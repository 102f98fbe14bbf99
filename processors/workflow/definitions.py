"""What a user declares: `@workflow`, its name, version, and the state that lives between turns."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, get_type_hints

from pydantic import PydanticSchemaGenerationError, TypeAdapter, ValidationError

from ...events.state import MESSAGE
from ..activities.definitions import Declined, check_name

S = TypeVar("S")

VERSION_MAX = 2**31 - 1
"""What the views hold; records could hold more."""

_PARAMETERS = 3  # turn, state, message


@dataclass(frozen=True, slots=True)
class Message:
    """What a turn answers: `text` where it has one, `data` as it was sent, and who sent it.

    `trigger` is `message`, or the kind of occasion that asked for the turn without one (a schedule, a webhook), and
    then `reason` says which.
    """

    id: str
    actor: str
    text: str
    data: Any
    trigger: str = MESSAGE
    reason: str = ""


class Workflow(Generic[S]):
    """A turn's function with its name and version; made by `@workflow`."""

    def __init__(
        self,
        function: Callable[..., Coroutine[Any, Any, S]],
        *,
        name: str,
        version: int,
        versions: Mapping[str, str],
    ) -> None:
        self.function = function
        self.name = name
        self.version = version
        self.versions = tuple(sorted(versions.items()))
        self.state_class = self._read_signature()
        self.state_type: TypeAdapter[S] = self._read_state()
        self.__doc__ = function.__doc__
        self._check_initial()

    def initial(self) -> S:
        """The state of a session that has had no turn yet."""
        return self.state_class()

    def _read_signature(self) -> type[S]:
        parameters = list(inspect.signature(self.function).parameters.values())
        if len(parameters) != _PARAMETERS or not inspect.iscoroutinefunction(self.function):
            raise Declined(
                f"workflow {self.name!r} must be 'async def {self.name}(turn, state, message)'"
            )
        state: type[S] | None = get_type_hints(self.function).get(parameters[1].name)
        if state is None:
            told = f"parameter {parameters[1].name!r} of workflow {self.name!r} has no type"
            raise Declined(
                f"{told}: annotate it with the class of the state that lives between turns"
            )
        if not isinstance(state, type):
            raise Declined(
                f"the state of workflow {self.name!r} must be a class, such as a pydantic BaseModel"
            )
        return state

    def _read_state(self) -> TypeAdapter[S]:
        try:
            return TypeAdapter(self.state_class)
        except PydanticSchemaGenerationError as error:
            told = f"state {self.state_class.__name__} of workflow {self.name!r} cannot be stored as JSON"
            raise Declined(
                f"{told}: make it a pydantic BaseModel or a dataclass ({error.message.splitlines()[0]})"
            ) from error

    def _check_initial(self) -> None:
        try:
            self.initial()
        except (TypeError, ValidationError) as error:
            told = f"state {self.state_class.__name__} of workflow {self.name!r} cannot be made without arguments"
            raise Declined(f"{told}: give each field a default ({error})") from error


def workflow(
    name: str, *, version: int, versions: Mapping[str, str] | None = None
) -> Callable[[Callable[..., Coroutine[Any, Any, S]]], Workflow[S]]:
    """Declares `async def f(turn, state, message) -> state` as a workflow.

    A turn runs once per message; what it returns is the state of the next. `version` is raised when the steps
    change; a turn ends on the version it started with. `versions` names what else was active (prompt, model,
    policy), for the record.
    """
    check_name("workflow", name)
    if not 1 <= version <= VERSION_MAX:
        raise Declined(
            f"workflow {name!r} has version {version}: versions count from 1, up to {VERSION_MAX}"
        )

    def declare(function: Callable[..., Coroutine[Any, Any, S]]) -> Workflow[S]:
        return Workflow(function, name=name, version=version, versions=versions or {})

    return declare
