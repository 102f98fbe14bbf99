"""What `Turn` needs of the driver that runs it, and the checks of what a workflow gives it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from functools import lru_cache
from typing import Any, Protocol, TypeVar

from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic_core import PydanticSerializationError

from ...commands.check import NAME_LENGTH_MAX
from ...events.errors import InvalidPayload, PayloadTooLarge
from ...events.holding import HeldResource
from ...events.records import Attribute, Payload
from ...events.shown import shown, worded
from ..activities.contracts import Read
from ..activities.definitions import Action, problems
from ..durations import Duration, to_ms
from ..stored_json import ANY, lost_number, read_json
from .errors import VerificationFailed, WorkflowMisuse, WrongResult
from .holdings import Holdings
from .waits import Step

T = TypeVar("T")

ON_UNCERTAIN = ("wait", "raise")


class Engine(Protocol):
    """What `Turn` needs of the driver that runs it."""

    now_ms: int
    dead: bool
    misuse: str
    holdings: Holdings

    @property
    def running(self) -> bool: ...
    def run(self, action: Action[Any], *, on_uncertain: str, compensate: object = None) -> Step: ...
    def committed(self) -> None: ...
    def undo(self, action: Action[Any]) -> Step: ...
    def approval(self, action: Action[Any]) -> Step: ...
    def sleep(self, duration_ms: int) -> Step: ...
    def signal(self, name: str) -> Step: ...
    def inbox(self, *, wait: bool) -> Step: ...
    def job(self, name: str, within_ms: int, *, untrusted: bool) -> Step: ...
    def child(
        self, workflow: str, given: Payload, within_ms: int, attributes: tuple[Attribute, ...]
    ) -> Step: ...
    def start_run(
        self,
        workflow: str,
        run_id: str,
        occasion: tuple[str, str],
        data: Payload,
        *,
        where_open: str,
        attributes: tuple[Attribute, ...],
    ) -> None: ...
    @property
    def next_place(self) -> str: ...
    def held(self, kind: str, resource_id: str, handle: Payload, ttl_ms: int) -> HeldResource: ...
    def attached(self, held: HeldResource, release: Action[Any] | None, *, again: bool) -> None: ...
    def holds(self, kind: str, resource_id: str) -> bool: ...
    def released(self, kind: str, resource_id: str) -> None: ...
    def is_open(self, step: Step) -> bool: ...
    def say(self, message: Any) -> None: ...
    def artifact(self, artifact_id: str, version: str) -> None: ...
    def attributes(self, values: Mapping[str, Any]) -> None: ...
    def version(self, change: str) -> bool: ...
    def again(self, state: Any) -> None: ...
    def payload(self, value: Any) -> Payload: ...
    def may_end(self, how: str) -> None: ...
    def verify(self, check: Action[Any]) -> Step: ...
    def refused(self, error: VerificationFailed) -> bool: ...
    def complete(self, outcome: Payload, *, verified_by: str | None) -> None: ...
    def may_wait(self) -> bool: ...
    def letting_go(self) -> AbstractContextManager[None]: ...
    def withdraw(self, step: Step, *, cancel: bool) -> None: ...


def checked_action(given: object, method: str) -> Action[Any]:
    """The action, if it is one."""
    if not isinstance(given, Action):
        raise WorkflowMisuse(
            f"turn.{method} takes an action, got {shown(given)}: write turn.{method}(activity.call(…))"
        )
    return given


def checked_name(given: object, what: str) -> str:
    """A name that records, tables and people can hold."""
    if (
        not isinstance(given, str)
        or not 1 <= len(given) <= NAME_LENGTH_MAX
        or not given.isprintable()
    ):
        raise WorkflowMisuse(
            f"{what} {shown(given)} is not allowed: use 1 to {NAME_LENGTH_MAX} printable characters"
        )
    return str.__str__(given)  # records hold no subclass, such as a StrEnum's member


def checked_values(given: object) -> Mapping[str, Any]:
    """Attributes by their names."""
    if not isinstance(given, Mapping):
        raise WorkflowMisuse(
            f"turn.attributes was given {shown(given)}: give names and values, as in {{'customer': 'ivo'}}"
        )
    return given


def checked_choice(given: object) -> str:
    """What is to follow where nobody knows whether an activity was carried out."""
    if not isinstance(given, str) or given not in ON_UNCERTAIN:
        raise WorkflowMisuse(
            f"turn.run was given on_uncertain={shown(given)}: write 'wait' (a person resolves it) or "
            "'raise' (the workflow sees Uncertain)"
        )
    return given


def checked_verification(given: object) -> Action[Any]:
    """An action that may verify: one that changes nothing and says yes or no."""
    if not isinstance(given, Action):
        raise WorkflowMisuse(
            f"turn.complete was given verify={shown(given)}: give it an action, verify=check.call(…)"
        )
    name = given.activity.name
    if not isinstance(given.activity.contract, Read):
        raise WorkflowMisuse(
            f"turn.complete was given verify={name}, which changes something: a verification has contract=Read()"
        )
    if given.activity.result_type.core_schema["type"] != "bool":
        raise WorkflowMisuse(
            f"turn.complete was given verify={name}, which does not return bool: write '-> bool'"
        )
    return given


def checked_flag(given: object, method: str, option: str) -> bool:
    """A real bool: a duration or a word is true as well, and meant something else."""
    if not isinstance(given, bool):
        raise WorkflowMisuse(
            f"turn.{method} was given {option}={shown(given)}: write {option}=True or {option}=False"
        )
    return given


def checked_duration(given: Duration, method: str = "sleep") -> int:
    """How long to wait, in milliseconds."""
    try:
        return to_ms(given)
    except ValueError as error:
        raise WorkflowMisuse(f"turn.{method}: {error}") from error


def written(given: Any, method: str, use: Callable[[Any], T]) -> T:
    """What `use` makes of it, which stores it: a pydantic model as its JSON, by alias; all else as it is."""
    try:
        return use(_as_json(given) if isinstance(given, BaseModel) else given)
    except PayloadTooLarge as error:
        raise WorkflowMisuse(
            f"turn.{method} was given {error.size} bytes, and the limit is {error.limit}: {error.advice}"
        ) from error
    except (InvalidPayload, PydanticSerializationError, UnicodeError) as error:
        raise WorkflowMisuse(
            f"turn.{method} was given {shown(given)}, which cannot be stored ({_why(error)}): give text, JSON or a "
            "pydantic model; what a model inside of it holds is JSON after model_dump(mode='json')"
        ) from error


def _as_json(given: BaseModel) -> Any:
    value = given.model_dump(mode="json", by_alias=True)
    lost = lost_number(ANY, given, value)
    if lost is not None:
        raise InvalidPayload(lost)
    return value


def _why(error: Exception) -> str:
    return error.message if isinstance(error, InvalidPayload) else worded(error)


def reader(kind: Any, method: str = "signal") -> TypeAdapter[Any]:
    """What reads data as this type."""
    try:
        hash(kind)
    except TypeError:
        return _reader(
            kind, method
        )  # it may be a type all the same: Annotated[int, Field(examples=[7])]
    return _kept_reader(kind, method)


def _reader(kind: Any, method: str) -> TypeAdapter[Any]:
    try:
        adapter = TypeAdapter(kind)
        if not adapter.pydantic_complete:
            adapter.rebuild()  # raises now, and not when the signal is there and used up
    except Exception as error:
        raise WorkflowMisuse(
            f"turn.{method} was given the type {shown(kind)}, which cannot be read from JSON: "
            f"give it a class such as a pydantic BaseModel ({worded(error)})"
        ) from error
    return adapter


def read_result(what: str, name: str, kind: TypeAdapter[Any], data: Payload) -> Any:
    """What a job or a child gave, read as this type; `WrongResult` where it is none."""
    try:
        return read_json(kind, data.inline or b"null")
    except ValidationError as error:
        raise WrongResult(name, problems(error), what) from error


_kept_reader = lru_cache(maxsize=256)(_reader)
