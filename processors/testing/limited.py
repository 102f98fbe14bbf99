"""Running an activity's function to its end, or to its limit."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from typing import Any


class OutOfTime(Exception):
    """The attempt was cancelled at its limit; a `TimeoutError` of the tool's own is something else."""


def to_the_end(awaitable: Awaitable[Any], limit_s: float | None = None) -> Any:
    """Runs it in a fresh event loop; on a thread of its own where the test runs in a loop itself."""

    async def limited() -> Any:
        limit = asyncio.timeout(limit_s)
        try:
            async with limit:
                return await awaitable
        except TimeoutError as error:
            if limit.expired():
                raise OutOfTime from error
            raise

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(limited())
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(copy_context().run, lambda: asyncio.run(limited())).result()


def in_a_thread(function: Callable[[], Any], limit_s: float) -> Any:
    """What a sync one gives, in a thread and a context of its own, as on a worker; one that hangs is left behind."""
    answer: Future[Any] = Future()

    def run() -> None:
        try:
            answer.set_result(function())
        except BaseException as error:  # noqa: BLE001 raised again by whoever waits
            answer.set_exception(error)

    threading.Thread(target=copy_context().run, args=(run,), daemon=True).start()
    try:
        return answer.result(limit_s)
    except TimeoutError as error:
        if not answer.done():
            raise OutOfTime from error
        raise
