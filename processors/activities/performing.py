"""Running one attempt to its words: `perform` for async functions, `perform_sync` for the others.

Nothing that a tool raises comes out of either, `sys.exit`, `KeyboardInterrupt` and `CancelledError` included: each
would end every worker that tries it. Only the cancellation of the attempt itself does. Ctrl-C is not among these: it is a signal, and the worker handles it.

An async function is cancelled at its time-out, and again after a while, if it catches that; one that clings to its slot
all the same is named to whoever can end the process. Once the time-out has struck it is what is said, whatever the
function still returns: nobody can say whether what a cut call returns is whole.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from types import TracebackType
from typing import Any, TypeVar

from .inside import is_cancellation
from .runner import Call, Words
from .telling import Hang, clinging

B = TypeVar("B")

CLEAN_UP_MS = 1_000
"""What a cancelled function has to clean up, before it is cancelled again."""

AGAIN_MS = 100
"""Between the cancellations that follow."""

CANCELS_MAX = 4
"""One that has caught so many lets go of none."""


class _Limit:
    """Cancels the task inside it when its time is up, and again while it stays; at last says so, once."""

    def __init__(self, limit_ms: int, clings: Callable[[], None]) -> None:
        self.cancels = 0
        self._limit_ms, self._clings = limit_ms, clings
        self._loop = asyncio.get_running_loop()
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("an attempt runs in a task of its own")
        self._task = task

    def __enter__(self) -> None:
        self._timer = self._loop.call_later(self._limit_ms / 1000, self._strike)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._timer.cancel()
        for _ in range(self.cancels):
            self._task.uncancel()  # those that are left are the worker's

    def _strike(self) -> None:
        if self.cancels == CANCELS_MAX:
            self._clings()
            return
        self.cancels += 1
        self._task.cancel("the attempt is past its time-out")
        wait_ms = CLEAN_UP_MS if self.cancels == 1 else AGAIN_MS
        self._timer = self._loop.call_later(wait_ms / 1000, self._strike)


async def perform(
    words: Words[B], call: Call, clings: Callable[[Hang], None] = lambda _hang: None
) -> B:
    """Result, failure, or time-out on the loop's monotonic clock; only the worker's own cancellation is raised.

    `clings` is told in the loop where the function is that has caught every cancellation at its time-out.
    """
    started: Any = None
    limit = _Limit(call.task.start_to_close_ms, lambda: clings(clinging(started)))
    try:
        with limit:
            started = call.start()
            result: Any = await started
    except asyncio.CancelledError as error:
        current = asyncio.current_task()
        if current is not None and current.cancelling():
            raise
        return words.timed_out(call.task) if limit.cancels else words.failed(call.task, error)
    except BaseException as error:  # noqa: BLE001 whatever a tool raises is its failure, and is reported
        return words.timed_out(call.task) if limit.cancels else words.failed(call.task, error)
    if limit.cancels:
        return words.timed_out(call.task)
    return await words.completed_aside(call, result)


def perform_sync(words: Words[B], call: Call) -> B:
    """Result or failure, in this thread; its time-out is kept by the worker's intake, which ends the process.

    Raises `AttemptCancelled` where the worker has stopped the attempt.
    """
    try:
        result = call.start()
        if inspect.isawaitable(result):
            if inspect.iscoroutine(result):
                result.close()
            told = f"{call.name} is a sync function and returned an awaitable: write 'async def'"
            raise TypeError(told)
    except BaseException as error:
        if is_cancellation(error):
            raise
        return words.failed(call.task, error)
    return words.completed(call, result)
