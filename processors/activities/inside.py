"""What the body of an activity may say to its worker and ask it: `heartbeat`, `emit`, `progress`, `cancelled`.

They find their attempt in a context variable, so they work in async and sync activities, in the tasks an activity
begins, and in threads that have a copy of its context (`asyncio.to_thread`).
"""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, NoReturn, TypeVar

from pydantic import TypeAdapter, ValidationError
from pydantic_core import PydanticSerializationError, to_jsonable_python

from ...events.errors import InvalidPayload, PayloadTooLarge
from ...events.payloads import json_payload
from ...events.records import ActivityTask, Payload
from ..stored_json import ANY, lost_number, read_json
from .beats import AttemptCancelled, Beats
from .definitions import problems
from .emitting import Emission

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Inside:
    """The attempt whose body runs here."""

    beats: Beats
    digest_key: bytes
    emission: Emission


INSIDE: ContextVar[Inside] = ContextVar("wakeful_inside")


class NotInActivity(RuntimeError):
    """Asked outside of an activity that a worker runs."""


def heartbeat(progress: object = None) -> None:
    """Says that this attempt is alive and how far it came; returns at once.

    `progress` is anything with a JSON form, up to 256 KiB: a later attempt gets it from `progress()`. Calls may come
    as often as they like: a third of the activity's `heartbeat` lies between two that are sent (a second, where it
    has none), the newest progress wins, and the last is sent when the attempt fails. Raises `AttemptCancelled` where
    the attempt is to stop, and `ValueError` for progress that cannot be stored.
    """
    inside = _inside("heartbeat")
    beats = inside.beats
    if beats.is_stopped():
        beats.beat(None)
    beats.beat(None if progress is None else _payload(beats, progress, inside.digest_key))


def emit(text: str) -> None:
    """Shows the next piece of what this attempt makes to whoever watches its session live; returns at once.

    For the words of a model, as they come. They are kept nowhere and may be lost; nobody but the session's own tenant
    sees them, without the secrets of the attempt's credentials. What counts is what the activity returns. Raises
    `AttemptCancelled` where the attempt is to stop.
    """
    inside = _inside("emit")
    if not isinstance(text, str):
        raise TypeError(f"emit() takes text, not {type(text).__name__}")
    if inside.beats.is_stopped():
        inside.beats.beat(None)
    inside.emission.add(text)


def overheard(text: str) -> None:
    """The same for code that may run without a worker, where nobody hears it; it never raises."""
    inside = INSIDE.get(None)
    if inside is not None:
        inside.emission.add(text)


def key_of_call() -> str:
    """The idempotency key of the call whose body runs here, for what an activity calls and what has to tell calls apart."""
    return task_of_call().idempotency_key


def task_of_call() -> ActivityTask:
    """The task whose body runs here: for whom, under which key, and whether an approval has let it go."""
    return _inside("key_of_call").beats.task


def progress(kind: type[T]) -> T | None:
    """The last progress that an earlier attempt told of, as this type; null where there is none.

    `ValueError` where it does not fit: an earlier version of the code may have left it.
    """
    task = _inside("progress").beats.task
    stored = task.progress
    if stored is None or stored.inline is None:
        return None
    try:
        return read_json(TypeAdapter(kind), stored.inline)
    except ValidationError as error:
        raise ValueError(
            f"the progress that an earlier attempt of {task.name} left does not fit its type: {problems(error)}"
        ) from error


def cancelled() -> bool:
    """Whether this attempt is to stop, since nobody waits for it or it may run elsewhere.

    What is returned after a true answer may be put aside: clean up, and raise `AttemptCancelled`.
    """
    return _inside("cancelled").beats.is_stopped()


def is_cancellation(error: BaseException) -> bool:
    """Whether this came out of the body because its attempt was stopped; a tool may raise the same by itself."""
    inside = INSIDE.get(None)
    return (
        issubclass(type(error), AttemptCancelled)
        and inside is not None
        and inside.beats.stopped is not None
    )


def _inside(what: str) -> Inside:
    found = INSIDE.get(None)
    return _refuse(what) if found is None else found


def _refuse(what: str) -> NoReturn:
    raise NotInActivity(
        f"wakeful.{what}() works in the body of an activity that a worker runs, in the tasks it begins and in threads "
        "with a copy of its context (asyncio.to_thread); a workflow and a plain call of .function have no attempt"
    )


def _payload(beats: Beats, told: object, digest_key: bytes) -> Payload:
    """Taken as it is now, so that the activity may go on changing it; without the secrets of its credentials."""
    name = beats.task.name
    try:
        value: Any = to_jsonable_python(told)
        lost = lost_number(ANY, told, value)
        if lost is not None:
            raise ValueError(lost)
        return json_payload(beats.hidden.hide_in(value), digest_key)
    except PayloadTooLarge as error:
        raise ValueError(
            f"the progress of {name} has {error.size} bytes, the limit is {error.limit}: "
            "store it elsewhere and tell a reference"
        ) from error
    except (InvalidPayload, PydanticSerializationError, ValueError, TypeError) as error:
        raise ValueError(f"the progress of {name} cannot be stored as JSON: {error}") from error
