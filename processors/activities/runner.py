"""One attempt of an activity, from its task to the words of its result; nothing here knows a log or a clock.

`prepare` turns a task into a call or says at once why there can be none; `completed` and `failed` turn what came of
the call into the body of the command that reports it. Whatever a tool does, one of the two can be said. What is said
of a look-up stands in `look_ups.py`, of an attempt that was cut off in `attempt.py`, and of a provider in
`providing.py`; the words for an exception in `telling.py`.

Arguments and results that are too large for a record lie in the store of blobs, if there is one: those are fetched
before the call, these are put there before they are reported. `completed_aside` waits for the store in a thread.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from pydantic import ValidationError

from ...commands.models import CompleteActivity, FailActivity, ReturnActivity
from ...events.blobs import BLOB_FAULTS, Blobs, claim, fetch
from ...events.contracts import ONCE
from ...events.errors import InvalidPayload, PayloadTooLarge
from ...events.failures import (
    ARGUMENTS_UNAVAILABLE,
    HEARTBEAT,
    NOTHING_DONE,
    RAISED,
    RESOURCE_LOST,
    RESULT_NOT_STORED,
    RESULT_TOO_LARGE,
    START_TO_CLOSE,
    TIMED_OUT,
    UNKNOWN_ACTIVITY,
    UNSERIALISABLE_RESULT,
    WRONG_ARGUMENTS,
)
from ...events.payloads import storable_text
from ...events.records import ActivityTask, Failure, Payload
from ...events.shown import name_of
from ..stored_json import read_json
from .contracts import NothingDone, ResourceLost
from .credentials import Provider
from .definitions import KEY, Activity, problems
from .hidden import STAND_IN, Hidden
from .telling import (
    MESSAGE_MAX,
    Hang,
    lost_kind_of,
    message_of,
    retry_after_of,
    traceback_of,
    type_of,
)
from .tokens import NO_TOKENS, Tokens

Body = CompleteActivity | FailActivity

Said = Body | ReturnActivity
"""Of an attempt: what came of it, or that it is given back unrun."""


@dataclass(frozen=True, slots=True)
class Call:
    """A function that can be called for a task: its activity's own, or that of its look-up."""

    task: ActivityTask
    activity: Activity[Any]
    arguments: dict[str, Any] = field(repr=False)
    """As the function takes them, key and credentials among them where it does; they are not shown."""
    function: Callable[..., Any]
    name: str
    is_sync: bool
    hidden: Hidden = field(default_factory=Hidden, repr=False)
    """What its attempt may not tell."""

    def start(self) -> Any:
        """Calls the function; an async one gives a coroutine, and nothing of it runs before it is awaited."""
        return self.function(**self.arguments)


B_co = TypeVar("B_co", covariant=True)


class Words(Protocol[B_co]):
    """Says what came of a call."""

    def completed(self, call: Call, result: Any) -> B_co:
        """It returned."""

    async def completed_aside(self, call: Call, result: Any) -> B_co:
        """The same, without holding up the event loop where the result is to be put into the store."""

    def failed(self, task: ActivityTask, error: BaseException) -> B_co:
        """It raised."""

    def timed_out(self, task: ActivityTask) -> B_co:
        """It was cancelled at its limit."""


class Runner:
    """The loaded activities, on behalf of one worker."""

    def __init__(
        self,
        activities: Mapping[str, Activity[Any]],
        *,
        worker_id: str,
        digest_key: bytes,
        blobs: Blobs | None = None,
        provider: Provider[Any] | None = None,
        tokens: Tokens = NO_TOKENS,
    ) -> None:
        self._activities = activities
        self.worker_id = worker_id
        self.digest_key = digest_key
        self._blobs = blobs
        self.provider = provider
        self.tokens = tokens
        self._hidden = Hidden()

    def apart(self) -> Runner:
        """The same for one attempt, whose secrets are its own."""
        return Runner(
            self._activities,
            worker_id=self.worker_id,
            digest_key=self.digest_key,
            blobs=self._blobs,
            provider=self.provider,
            tokens=self.tokens,
        )

    def hide(self, credentials: object) -> None:
        """What is secret in these stands in no report of this attempt."""
        self._hidden.add(credentials)

    def is_sync(self, name: str) -> bool:
        """Whether one thread does all of it, its credentials included; an unknown activity needs none."""
        activity = self._activities.get(name)
        return activity is not None and activity.is_sync and self._asks_sync(activity) is not False

    def calls_once_in_threads(self, queue: str) -> bool:
        """Whether an activity of this queue that is called at most once needs a thread, be it for its credentials."""
        return any(
            a.queue == queue and (a.is_sync or self._asks_sync(a)) and a.contract.word in ONCE
            for a in self._activities.values()
        )

    def _asks_sync(self, activity: Activity[Any]) -> bool | None:
        """Whether the provider is a sync function; null where it is not asked."""
        if not activity.takes_credentials or self.provider is None:
            return None
        return self.provider.is_sync

    def prepare(self, task: ActivityTask) -> Call | FailActivity:
        """The call a task asks for; a failure where its activity or arguments are not known here."""
        activity = self._activities.get(task.name)
        if activity is None:
            loaded = ", ".join(sorted(self._activities)) or "none"
            return self.fail(
                task,
                UNKNOWN_ACTIVITY,
                "",
                f"no activity {task.name!r} is loaded here (loaded: {loaded}): deploy it to this queue's workers",
            )
        try:
            arguments = activity.typed_json(self._arguments(task))
        except ValidationError as error:
            told = f"{task.name} does not take the recorded arguments: {problems(error)}"
            return self.fail(task, WRONG_ARGUMENTS, "ValidationError", told)
        except BLOB_FAULTS as error:
            told = f"the arguments of {task.name} cannot be had: {error.message}"
            return self.fail(task, ARGUMENTS_UNAVAILABLE, type(error).__name__, told)
        except BaseException as error:  # noqa: BLE001 a type's own validators may raise anything
            told = f"the recorded arguments of {task.name} cannot be read: {message_of(error)}"
            return self.fail(task, WRONG_ARGUMENTS, name_of(type(error)), told)
        if activity.takes_key:
            arguments[KEY] = task.idempotency_key
        name = f"activity {task.name}"
        is_sync, hidden = activity.is_sync, self._hidden
        return Call(task, activity, arguments, activity.function, name, is_sync, hidden)

    def completed(self, call: Call, result: Any) -> Body:
        """The report of a result; a failure where it cannot be stored, or not be read back as its type."""
        body, data = self._completed(call, result)
        return body if data is None else self._put(call, body, data)

    async def completed_aside(self, call: Call, result: Any) -> Body:
        """See `Words`."""
        body, data = self._completed(call, result)
        return body if data is None else await asyncio.to_thread(self._put, call, body, data)

    def failed(self, task: ActivityTask, error: BaseException) -> FailActivity:
        """The report of an exception, with a short traceback."""
        name, told, trace = type_of(error), message_of(error), traceback_of(error, self._hidden)
        when = retry_after_of(error)
        kind = NOTHING_DONE if issubclass(type(error), NothingDone) else RAISED
        if issubclass(type(error), ResourceLost):
            kind, name = RESOURCE_LOST, lost_kind_of(error)
        return self.fail(task, kind, name, told, detail=trace, retry_after_ms=when)

    def timed_out(self, task: ActivityTask) -> FailActivity:
        """The report of an attempt that was cancelled at its start-to-close limit."""
        told = f"{task.name} did not finish within {task.start_to_close_ms} ms and was cancelled"
        return self.fail(task, TIMED_OUT, START_TO_CLOSE, told)

    def hung(self, task: ActivityTask, hang: Hang) -> FailActivity:
        """The report of an attempt that is past the same limit and cannot be stopped."""
        told = (
            f"{task.name} did not finish within {task.start_to_close_ms} ms and cannot be stopped: "
        )
        told += f"its worker ends and is started again; {hang.advice}"
        return self.fail(task, TIMED_OUT, START_TO_CLOSE, told, detail=hang.where)

    def fenced(self, task: ActivityTask) -> FailActivity:
        """The report of an attempt that was stopped because none of its heartbeats was acknowledged."""
        told = f"the heartbeats of {task.name} were not acknowledged for {task.heartbeat_ms} ms: "
        told += "its worker stopped it, since it may run elsewhere"
        return self.fail(task, TIMED_OUT, HEARTBEAT, told)

    def _completed(self, call: Call, result: Any) -> tuple[Body, bytes | None]:
        """The report, and the bytes that it only refers to, if any."""
        try:
            payload, data = self._claimed(call, result)
        except PayloadTooLarge as error:
            told = f"the result of {call.task.name} has {error.size} bytes, the limit is {error.limit}: {error.advice}"
            return self.fail(call.task, RESULT_TOO_LARGE, name_of(type(result)), told), None
        except ValidationError as error:
            told = (
                f"the result of {call.task.name} does not read back as its type: {problems(error)}"
            )
            if self._hidden:
                told += (
                    f" (what its credentials hold stands in it as {STAND_IN!r}: return it without)"
                )
            return self.fail(call.task, UNSERIALISABLE_RESULT, name_of(type(result)), told), None
        except BaseException as error:  # noqa: BLE001 a result's own serialisers may raise anything
            told = f"the result of {call.task.name} cannot be stored as JSON: {message_of(error)}"
            return self.fail(call.task, UNSERIALISABLE_RESULT, name_of(type(result)), told), None
        task = call.task
        return CompleteActivity(task.activity_id, task.attempt, payload, self.worker_id), data

    def _claimed(self, call: Call, result: Any) -> tuple[Payload, bytes | None]:
        """The result as a payload that the workflow can certainly read back."""
        value, stores = self._hidden.hide_in(call.activity.stored(result)), self._blobs is not None
        payload, data = claim(value, call.task.tenant, self.digest_key, stores=stores)
        read_json(call.activity.result_type, data or payload.inline or b"null")
        return payload, data

    def _put(self, call: Call, body: Body, data: bytes) -> Body:
        """The report, once what it refers to is in the store."""
        ref = body.result.ref if isinstance(body, CompleteActivity) else None
        if ref is None or self._blobs is None:
            return body
        try:
            self._blobs.put(ref, data)
        except BLOB_FAULTS as error:
            told = f"the result of {call.task.name} has {len(data)} bytes and could not be stored: {error.message}"
            return self.fail(call.task, RESULT_NOT_STORED, type(error).__name__, told)
        return body

    def _arguments(self, task: ActivityTask) -> bytes:
        payload = task.arguments
        if payload.encoding != "json" or (payload.inline is None and payload.ref is None):
            raise InvalidPayload(
                f"expected JSON, got encoding {payload.encoding!r}, ref {payload.ref!r}"
            )
        return fetch(payload, task.tenant, self.digest_key, self._blobs)

    def fail(
        self,
        task: ActivityTask,
        kind: str,
        type_: str,
        message: str,
        *,
        detail: str = "",
        retry_after_ms: int | None = None,
    ) -> FailActivity:
        """The report of a failure in these words."""
        failure = Failure(
            kind=kind,
            type=storable_text(self._hidden.hide(type_), MESSAGE_MAX),
            message=storable_text(self._hidden.hide(message), MESSAGE_MAX),
            detail=self._hidden.hide(detail),
            retry_after_ms=retry_after_ms,
        )
        return FailActivity(task.activity_id, task.attempt, failure, self.worker_id)
