"""One attempt of an activity, from its task to the words of its result; nothing here knows a log or a clock.

`prepare` turns a task into a call or says at once why there can be none; `completed` and `failed` turn what came of
the call into the body of the command that reports it. Whatever a tool does, one of the two can be said. The kinds of
failure: unknown_activity, wrong_arguments, arguments_unavailable, raised, timed_out, unserialisable_result, result_too_large, result_not_stored.

Arguments and results that are too large for a record lie in the store of blobs, if there is one: those are fetched
before the call, these are put there before they are reported. Both wait for the store, so `prepare_aside` and
`completed_aside` do so in a thread.
"""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Mapping
from dataclasses import dataclass
from types import FrameType
from typing import Any

from pydantic import ValidationError

from ...commands.models import CompleteActivity, FailActivity
from ...events.blobs import BLOB_FAULTS, Blobs, claim, fetch
from ...events.errors import InvalidPayload, PayloadTooLarge
from ...events.payloads import storable_text
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
        self,
        activities: Mapping[str, Activity[Any]],
        *,
        worker_id: str,
        digest_key: bytes,
        blobs: Blobs | None = None,
    ) -> None:
        self._activities = activities
        self._worker_id = worker_id
        self._digest_key = digest_key
        self._blobs = blobs

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
            arguments = activity.typed_json(self._arguments(task))
        except ValidationError as error:
            told = f"{task.name} does not take the recorded arguments: {problems(error)}"
            return self._fail(task, "wrong_arguments", "ValidationError", told)
        except BLOB_FAULTS as error:
            told = f"the arguments of {task.name} cannot be had: {error.message}"
            return self._fail(task, "arguments_unavailable", type(error).__name__, told)
        except (InvalidPayload, ValueError) as error:
            told = f"the recorded arguments of {task.name} cannot be read: {error}"
            return self._fail(task, "wrong_arguments", type(error).__name__, told)
        if activity.takes_key:
            arguments[KEY] = task.idempotency_key
        return Call(task, activity, arguments)

    async def prepare_aside(self, task: ActivityTask) -> Call | FailActivity:
        """The same, without holding up the event loop where arguments are to be fetched."""
        if task.arguments.ref is None:
            return self.prepare(task)
        return await asyncio.to_thread(self.prepare, task)

    def completed(self, call: Call, result: Any) -> Body:
        """The report of a result; a failure where it cannot be stored, or not be read back as its type."""
        body, data = self._completed(call, result)
        return body if data is None else self._put(call, body, data)

    async def completed_aside(self, call: Call, result: Any) -> Body:
        """The same, without holding up the event loop where the result is to be put into the store."""
        body, data = self._completed(call, result)
        return body if data is None else await asyncio.to_thread(self._put, call, body, data)

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

    def _completed(self, call: Call, result: Any) -> tuple[Body, bytes | None]:
        """The report, and the bytes that it only refers to, if any."""
        activity_id, attempt = call.task.activity_id, call.task.attempt
        payload, data = self._claimed(call, result)
        if isinstance(payload, FailActivity):
            return payload, None
        return CompleteActivity(activity_id, attempt, payload, self._worker_id), data

    def _put(self, call: Call, body: Body, data: bytes) -> Body:
        """The report, once what it refers to is in the store."""
        ref = body.result.ref if isinstance(body, CompleteActivity) else None
        if ref is None or self._blobs is None:
            return body
        try:
            self._blobs.put(ref, data)
        except BLOB_FAULTS as error:
            told = f"the result of {call.task.name} is {len(data)} bytes and could not be stored: {error.message}"
            return self._fail(call.task, "result_not_stored", type(error).__name__, told)
        return body

    def _claimed(
        self, call: Call, result: Any
    ) -> tuple[Payload, bytes | None] | tuple[FailActivity, None]:
        """The result as a payload that the workflow can certainly read back."""
        try:
            value = call.activity.stored(result)
            stores = self._blobs is not None
            payload, data = claim(value, call.task.tenant, self._digest_key, stores=stores)
            read_json(call.activity.result_type, data or payload.inline or b"null")
            return payload, data
        except PayloadTooLarge as error:
            told = f"the result of {call.task.name} has {error.size} bytes, the limit is {error.limit}: {error.advice}"
            return self._fail(call.task, "result_too_large", type(result).__name__, told), None
        except ValidationError as error:
            told = (
                f"the result of {call.task.name} does not read back as its type: {problems(error)}"
            )
            return self._fail(call.task, "unserialisable_result", type(result).__name__, told), None
        except Exception as error:  # noqa: BLE001 a result's own serialisers may raise anything
            told = f"the result of {call.task.name} cannot be stored as JSON: {message_of(error)}"
            return self._fail(call.task, "unserialisable_result", type(result).__name__, told), None

    def _arguments(self, task: ActivityTask) -> bytes:
        payload = task.arguments
        if payload.encoding != "json" or (payload.inline is None and payload.ref is None):
            raise InvalidPayload(
                f"expected JSON, got encoding {payload.encoding!r}, ref {payload.ref!r}"
            )
        return fetch(payload, task.tenant, self._digest_key, self._blobs)

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
        return FailActivity(task.activity_id, task.attempt, failure, self._worker_id)


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
