"""What a workflow holds of a child: the id of its session, and its outcome, once it is awaited."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator, Mapping
from typing import Any, Generic

from typing_extensions import TypeVar

from ...events.attributes import InvalidAttribute, attributes_of
from ...events.records import Attribute
from ...events.shown import shown
from ..durations import Duration
from .definitions import Workflow
from .engine import Engine, checked_duration, checked_name, written
from .errors import WorkflowMisuse
from .waits import Step

T_co = TypeVar("T_co", covariant=True, default=Any)


class Child(Generic[T_co]):
    """A session of its own that this one has opened: `await` it for its outcome. See `Turn.child`."""

    def __init__(
        self, child_id: str, workflow: str, outcome: Callable[[], Coroutine[Any, Any, T_co]]
    ) -> None:
        self.id = child_id
        self.workflow = workflow
        self._outcome = outcome

    def __await__(self) -> Generator[Any, Any, T_co]:
        return self._outcome().__await__()

    def __repr__(self) -> str:
        return f"<child {self.workflow} {self.id}>"


def opened(
    engine: Engine,
    workflow: object,
    given: object,
    within: Duration,
    attributes: Mapping[str, Any] | None,
) -> tuple[str, Step]:
    """Asks for the child; the name of its workflow, and the wait for its end."""
    name = checked_workflow(workflow)
    message = {"text": given} if isinstance(given, str) else given
    payload = written(message, "child", engine.payload)
    within_ms = checked_duration(within, "child")
    return name, engine.child(name, payload, within_ms, checked_attributes(attributes))


def checked_workflow(given: object) -> str:
    """The name of the workflow that a child is to have; it need not be loaded here."""
    if isinstance(given, Workflow):
        return given.name
    if not isinstance(given, str):
        raise WorkflowMisuse(
            f"turn.child was given {shown(given)}: give it a workflow, or a workflow's name"
        )
    return checked_name(given, "workflow name")


def checked_attributes(given: Mapping[str, Any] | None) -> tuple[Attribute, ...]:
    """By what the child is to be found from the start."""
    try:
        return attributes_of(given or {})
    except InvalidAttribute as error:
        raise WorkflowMisuse(f"turn.child: {error.message}") from error
