"""Running one attempt to its words: `perform` for async functions, `perform_sync` for the others.

Nothing that a tool raises comes out of either, `sys.exit`, `KeyboardInterrupt` and `CancelledError` included: each
would end every worker that tries it. Only the cancellation of the attempt itself does. Ctrl-C is not among these: it is a signal, and the worker handles it.
"""

from __future__ import annotations

import asyncio
import inspect
from typing import Any, TypeVar

from .inside import is_cancellation
from .runner import Call, Words

B = TypeVar("B")


async def perform(words: Words[B], call: Call) -> B:
    """Result, failure, or time-out on the loop's monotonic clock; only the worker's own cancellation is raised."""
    scope = asyncio.timeout(call.task.start_to_close_ms / 1000)
    try:
        async with scope:
            result: Any = await call.start()
    except asyncio.CancelledError as error:
        current = asyncio.current_task()
        if current is not None and current.cancelling():
            raise
        return words.failed(call.task, error)
    except BaseException as error:  # noqa: BLE001 whatever a tool raises is its failure, and is reported
        return words.timed_out(call.task) if scope.expired() else words.failed(call.task, error)
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
