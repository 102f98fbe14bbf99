"""What a user declares: `@workflow`, its name, version, and the state that lives between turns."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from pydantic import PydanticUndefinedAnnotation, PydanticUserError, TypeAdapter, ValidationError

from ...events.state import MESSAGE
from ..activities.declaring import check_name
from ..activities.definitions import Activity
from ..activities.signatures import Declined, check_stored, hints

S = TypeVar("S")

VERSION_MAX = 2**31 - 1
"""What the views hold; records could hold more."""

Upgrade = Callable[[Any, int], Any]
"""Makes a version's state of the JSON that another version has left."""

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
    """A turn's function with its name and version; made by `@workflow`. `activities` are those that come with it."""

    def __init__(
        self,
        function: Callable[..., Coroutine[Any, Any, S]],
        *,
        name: str,
        version: int,
        versions: Mapping[str, str],
        upgrade: Upgrade | None = None,
    ) -> None:
        self.function = function
        self.name = name
        self.version = version
        self.versions = tuple(sorted(versions.items()))
        self.upgrade = upgrade
        self.activities: tuple[Activity[Any], ...] = ()
        self.state_class = self._read_signature()
        self.state_type: TypeAdapter[S] = self._read_state()
        self.__doc__ = function.__doc__
        self._check_initial()

    def initial(self) -> S:
        """The state of a session that has had no turn yet."""
        return self.state_class()

    def _read_signature(self) -> type[S]:
        if not inspect.iscoroutinefunction(self.function) or not _takes(self.function, _PARAMETERS):
            named = getattr(self.function, "__name__", "turn_of_it")
            raise Declined(
                f"workflow {self.name!r} must be 'async def {named}(turn, state, message)'"
            )
        parameters = list(inspect.signature(self.function).parameters.values())
        told = f"workflow {self.name!r}"
        state: type[S] | None = hints(told, self.function).get(parameters[1].name)
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
        told = f"state {self.state_class.__name__} of workflow {self.name!r}"
        try:
            adapter = TypeAdapter(self.state_class)
        except (PydanticUserError, PydanticUndefinedAnnotation) as error:
            why = error.message.splitlines()[0]
            raise Declined(
                f"{told} cannot be stored as JSON: make it a pydantic BaseModel or a dataclass ({why})"
            ) from error
        check_stored(told, adapter, whole=True)
        return adapter

    def _check_initial(self) -> None:
        try:
            self.initial()
        except (TypeError, ValidationError) as error:
            told = f"state {self.state_class.__name__} of workflow {self.name!r} cannot be made without arguments"
            raise Declined(f"{told}: give each field a default ({error})") from error


def workflow(
    name: str,
    *,
    version: int | None = None,
    versions: Mapping[str, str] | None = None,
    upgrade: Upgrade | None = None,
) -> Callable[[Callable[..., Coroutine[Any, Any, S]]], Workflow[S]]:
    """Declares `async def f(turn, state, message) -> state` as a workflow.

    A turn runs once per message; what it returns is the state of the next. `version` has no default, counts from 1 and
    is raised when the steps change; a turn ends on the version it started with. `versions` names what else was active (prompt, model,
    policy), for the record. `upgrade(stored, version)` makes this version's state of the JSON that another version has
    left, an older one or, after a step back, a newer one; without it every field must fit as it is.
    """
    counted, others = checked(name, version, versions, upgrade)

    def declare(function: Callable[..., Coroutine[Any, Any, S]]) -> Workflow[S]:
        return Workflow(function, name=name, version=counted, versions=others, upgrade=upgrade)

    return declare


def checked(
    name: str, version: object, versions: object, upgrade: object
) -> tuple[int, dict[str, str]]:
    """The version and the others, where a workflow can be declared with all of these; else `Declined`."""
    _check_bare(name)
    check_name("workflow", name)
    counted = _checked_version(name, version)
    others = _checked_versions(name, versions)
    _check_upgrade(name, upgrade)
    return counted, others


def _check_bare(name: object) -> None:
    if callable(name):
        named = getattr(name, "__name__", repr(name))
        raise Declined(
            f"workflow {named!r} is declared by a bare @workflow: write @workflow({named!r}, version=1)"
        )


def _checked_version(name: str, version: object) -> int:
    if version is None:
        raise Declined(
            f"workflow {name!r} has no version: write @workflow({name!r}, version=1), and count up "
            "when its steps change"
        )
    if isinstance(version, bool) or not isinstance(version, int) or not 1 <= version <= VERSION_MAX:
        raise Declined(
            f"workflow {name!r} has version {version!r}: versions count from 1, up to {VERSION_MAX}"
        )
    return version


def _checked_versions(name: str, versions: object) -> dict[str, str]:
    given = {} if versions is None else versions
    if not isinstance(given, Mapping) or not all(
        isinstance(text, str) for pair in given.items() for text in pair
    ):
        raise Declined(
            f"workflow {name!r} has versions={versions!r}: name by name, a text each, "
            "such as {'prompt': '7'}"
        )
    return dict(given)


def _check_upgrade(name: str, upgrade: object) -> None:
    if upgrade is None:
        return
    if not callable(upgrade) or inspect.iscoroutinefunction(upgrade) or not _takes(upgrade, 2):
        told = f"workflow {name!r} has upgrade={upgrade!r}"
        raise Declined(
            f"{told}: give a function 'def upgrade(stored, version)', which gets the JSON that was left and the version that "
            "left it, and returns the state"
        )


def _takes(function: Callable[..., Any], count: int) -> bool:
    """Whether it can be called with so many, which are given by position."""
    parameters = inspect.signature(function).parameters.values()
    positional = (
        inspect.Parameter.POSITIONAL_ONLY,
        inspect.Parameter.POSITIONAL_OR_KEYWORD,
    )
    return len(parameters) == count and all(p.kind in positional for p in parameters)
