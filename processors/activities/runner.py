"""One attempt of an activity, from its task to the words of its result; nothing here knows a log or a clock.

`prepare` turns a task into a call or says at once why there can be none; `completed` and `failed` turn what came of
the call into the body of the command that reports it. Whatever a tool does, one of the two can be said. The kinds of
failure: unknown_activity, wrong_arguments, raised, timed_out, unserialisable_result, result_too_large.
"""

from __future__ import annotations

import traceback
from collections.abc import Mapping
from dataclasses import dataclass
from types import FrameType
from typing import Any

from pydantic import ValidationError

from ...commands.models import CompleteActivity, FailActivity
from ...events.errors import InvalidPayload, PayloadTooLarge
from ...events.payloads import json_payload, storable_text
from ...events.records import ActivityTask, Failure, Payload
from ..stored_json import read_json
from .definitions import KEY, Activity, problems

Body = CompleteActivity | FailActivity

DETAIL_MAX = 4096
"""Bytes of traceback kept with a failure: enough for the frames of the tool, small enough for every event."""

MESSAGE_MAX = 1000
"""Characters of an exception's message that are kept."""

RETRY_AFTER_MS_MAX = 2**53
"""Far beyond every deadline, and no more than a record can hold."""

FRAMES_MAX = 8
"""Innermost frames of a traceback: those are the tool's."""


@dataclass(frozen=True, slots=True)
class Call:
    """A task that can run: the activity and its typed arguments, the key among them where it takes one."""

    task: ActivityTask
    activity: Activity[Any]
    arguments: dict[str, Any]

    def start(self) -> Any:
        """Calls the function; an async one gives a coroutine, and nothing of it runs before it is awaited."""
        return self.activity.function(**self.arguments)


class Runner:
    """The loaded activities, on behalf of one worker."""

    def __init__(
        self, activities: Mapping[str, Activity[Any]], *, worker_id: str, digest_key: bytes
    ) -> None:
        self._activities = activities
        self.worker_id = worker_id
        self.digest_key = digest_key

    def is_sync(self, name: str) -> bool:
        """Whether this activity is a sync function; an unknown one needs no thread to say so."""
        activity = self._activities.get(name)
        return activity is not None and activity.is_sync

    def prepare(self, task: ActivityTask) -> Call | FailActivity:
        """The call a task asks for; a failure where its activity or arguments are not known here."""
        activity = self._activities.get(task.name)
        if activity is None:
            loaded = ", ".join(sorted(self._activities)) or "none"
            return self._fail(
                task,
                "unknown_activity",
                "",
                f"no activity {task.name!r} is loaded here (loaded: {loaded})",
            )
        try:
            arguments = activity.typed_json(_json(task.arguments))
        except ValidationError as error:
            told = f"{task.name} does not take the recorded arguments: {problems(error)}"
            return self._fail(task, "wrong_arguments", "ValidationError", told)
        except (InvalidPayload, ValueError) as error:
            told = f"the recorded arguments of {task.name} cannot be read: {error}"
            return self._fail(task, "wrong_arguments", type(error).__name__, told)
        if activity.takes_key:
            arguments[KEY] = task.idempotency_key
        return Call(task, activity, arguments)

    def completed(self, call: Call, result: Any) -> Body:
        """The report of a result; a failure where it cannot be stored, or not be read back as its type."""
        try:
            payload = self._stored(call.activity, result)
        except PayloadTooLarge as error:
            told = f"the result of {call.task.name} has {error.size} bytes, the limit is {error.limit}: "
            told += "store it elsewhere and return a reference"
            return self._fail(call.task, "result_too_large", type(result).__name__, told)
        except ValidationError as error:
            told = (
                f"the result of {call.task.name} does not read back as its type: {problems(error)}"
            )
            return self._fail(call.task, "unserialisable_result", type(result).__name__, told)
        except Exception as error:  # noqa: BLE001 a result's own serialisers may raise anything
            told = f"the result of {call.task.name} cannot be stored as JSON: {message_of(error)}"
            return self._fail(call.task, "unserialisable_result", type(result).__name__, told)
        return CompleteActivity(call.task.activity_id, call.task.attempt, payload, self.worker_id)

    def failed(self, task: ActivityTask, error: BaseException) -> FailActivity:
        """The report of an exception, with a short traceback."""
        kind = type(error)
        name = (
            kind.__qualname__
            if kind.__module__ == "builtins"
            else f"{kind.__module__}.{kind.__qualname__}"
        )
        told, trace = message_of(error), traceback_of(error)
        when = retry_after_of(error)
        return self._fail(task, "raised", name, told, detail=trace, retry_after_ms=when)

    def timed_out(self, task: ActivityTask) -> FailActivity:
        """The report of an attempt that was cancelled at its start-to-close limit."""
        told = f"{task.name} did not finish within {task.start_to_close_ms} ms and was cancelled"
        return self._fail(task, "timed_out", "start_to_close", told)

    def hung(self, task: ActivityTask, frame: FrameType | None) -> FailActivity:
        """The report of an attempt that is past the same limit and cannot be stopped; `frame` is where it hangs."""
        told = (
            f"{task.name} did not finish within {task.start_to_close_ms} ms and cannot be stopped: "
        )
        told += (
            "its worker ends and is started again; give the call it waits for a shorter time-out"
        )
        detail = "" if frame is None else cut("".join(traceback.format_stack(frame, FRAMES_MAX)))
        return self._fail(task, "timed_out", "start_to_close", told, detail=detail)

    def fenced(self, task: ActivityTask) -> FailActivity:
        """The report of an attempt that was stopped because none of its heartbeats was acknowledged."""
        told = f"the heartbeats of {task.name} were not acknowledged for {task.heartbeat_ms} ms: "
        told += "its worker stopped it, since it may run elsewhere"
        return self._fail(task, "timed_out", "heartbeat", told)

    def _stored(self, activity: Activity[Any], result: Any) -> Payload:
        """The result as a payload that the workflow can certainly read back."""
        payload = json_payload(activity.stored(result), self.digest_key)
        read_json(activity.result_type, _json(payload))
        return payload

    def _fail(
        self,
        task: ActivityTask,
        kind: str,
        type_: str,
        message: str,
        *,
        detail: str = "",
        retry_after_ms: int | None = None,
    ) -> FailActivity:
        failure = Failure(
            kind=kind,
            type=storable_text(type_, MESSAGE_MAX),
            message=storable_text(message, MESSAGE_MAX),
            detail=detail,
            retry_after_ms=retry_after_ms,
        )
        return FailActivity(task.activity_id, task.attempt, failure, self.worker_id)


def message_of(error: BaseException) -> str:
    """What the exception says; its own `__str__` may raise, which says something too."""
    try:
        return str(error)
    except Exception as second:  # noqa: BLE001 foreign code, called only to describe a failure
        return f"<its message raised {type(second).__name__}>"


def retry_after_of(error: BaseException) -> int | None:
    """When the tool asks to come back, as `RetryLater` and models' failures say it; a property could raise, so none is asked."""
    asked = getattr(error, "__dict__", {}).get("retry_after_ms")
    return asked if type(asked) is int and 0 <= asked <= RETRY_AFTER_MS_MAX else None


def traceback_of(error: BaseException) -> str:
    """The innermost frames, without values of variables; the end is kept where it is too long."""
    try:
        lines = traceback.format_exception(
            type(error), error, error.__traceback__, limit=-FRAMES_MAX
        )
    except Exception as second:  # noqa: BLE001 foreign __str__ and __repr__ are called for it
        return f"<its traceback raised {type(second).__name__}>"
    return cut("".join(lines))


def cut(text: str) -> str:
    """Its end, in so many bytes as a failure keeps."""
    stored = text.encode("utf-8", "backslashreplace")
    if len(stored) > DETAIL_MAX:
        stored = b"..." + stored[3 - DETAIL_MAX :]
    return stored.decode("utf-8", "ignore")


def _json(payload: Payload) -> bytes:
    if payload.encoding != "json" or payload.inline is None:
        raise InvalidPayload(
            f"expected inline JSON, got encoding {payload.encoding!r}, ref {payload.ref!r}"
        )
    return payload.inline
