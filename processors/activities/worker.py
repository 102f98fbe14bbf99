"""The worker process: one intake thread per queue around `WorkerCore`, one event loop, and threads for sync activities.

The intake blocks in the log's client, commits and keeps the membership; loop and threads only run activities and hand
in results. So an activity that blocks cannot cost the worker its partitions, and one that nothing can stop is seen by
the intake, which ends the process (`hung.py`).
"""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import structlog

from ...commands.identity import INSECURE, Identity
from ...events.blobs import Blobs
from ...events.log.protocol import Log
from ...events.topics import Topics
from ..failpoints import no_failpoint
from .definitions import Declared
from .hung import Ending, Pulse, end_process
from .killers import Killers, NoKillers
from .lane import FLUSH_MS, Lane
from .leases import Leases, NoLeases
from .reports import Reports
from .runner import Runner
from .seat import Seat
from .standing import Standing
from .superseded import Superseded
from .tokens import NO_TOKENS, Tokens

CONCURRENCY_DEFAULT = 100
"""Activities of one queue that run at once: they wait for others most of their time."""

SYNC_CONCURRENCY_DEFAULT = 8
"""Of these, sync ones: each has a thread, and threads share one interpreter."""

CLOSE_S = 1.0
"""For what was cancelled when the worker is over; a function that swallows that would keep the process for ever."""

DRAIN_MS_DEFAULT = 10_000
"""How long running activities may finish when the worker stops or loses partitions; below the watchdog's limit."""

logger = structlog.get_logger("wakeful.worker")


class Worker:
    """Runs the app's activities of some queues until it is stopped."""

    def __init__(
        self,
        log: Log,
        topics: Topics,
        app: Declared,
        *,
        worker_id: str,
        digest_key: bytes,
        blobs: Blobs | None = None,
        now_ms: Callable[[], int],
        identity: Identity = INSECURE,
        queues: Sequence[str] | None = None,
        group: str | None = None,
        instance: str | None = None,
        concurrency: int = CONCURRENCY_DEFAULT,
        sync_concurrency: int = SYNC_CONCURRENCY_DEFAULT,
        drain_ms: int = DRAIN_MS_DEFAULT,
        leases: Leases | None = None,
        tokens: Tokens = NO_TOKENS,
        killers: Killers | None = None,
        hit: Callable[[str], None] = no_failpoint,
        monotonic: Callable[[], float] = time.monotonic,
        end: Callable[[int], object] = end_process,
    ) -> None:
        """`queues` are those of the app by default; the group of a queue is `<namespace>.workers.<queue>`. `instance`: see `Seat`.

        Both limits are per queue. `identity` signs what the worker says, and tells whose recorded results count. `end`
        gets the exit code when an activity hangs, and must not return in production.
        """
        _check_limits(concurrency, sync_concurrency, drain_ms)
        self.app, self._monotonic = app, monotonic
        runner = Runner(
            app.activities,
            worker_id=worker_id,
            digest_key=digest_key,
            blobs=blobs,
            provider=app.credentials,
            tokens=tokens,
        )
        self._superseded = Superseded(log, topics.attempts)
        may_speak = Reports(topics, worker_id, now_ms, identity).may_speak
        self._standing = Standing(
            log, topics.control, monotonic=monotonic, now_ms=now_ms, may_speak=may_speak
        )
        self.lanes = [
            Lane(
                log,
                topics,
                queue,
                runner,
                self._superseded,
                self._standing,
                leases or NoLeases(),
                killers or NoKillers(),
                seat=Seat(f"{group or topics.namespace + '.workers'}.{queue}", instance),
                worker_id=worker_id,
                now_ms=now_ms,
                identity=identity,
                monotonic=monotonic,
                concurrency=concurrency,
                sync_concurrency=sync_concurrency,
                drain_ms=drain_ms,
                hit=hit,
            )
            for queue in _served(app, queues)
        ]
        ended = [lane.ended for lane in self.lanes]
        self._ending = Ending(self.stop, ended, limit_ms=2 * drain_ms + FLUSH_MS, end=end)

    def stop(self) -> None:
        """Drains and ends `run`; from any thread or signal handler, a repeat changes nothing."""
        for lane in self.lanes:
            lane.stop()

    async def run(self) -> None:
        """Works until `stop`, then drains. A lane that fails stops the others and its error is raised."""
        pulse = Pulse(asyncio.get_running_loop(), self._monotonic)
        running = [asyncio.ensure_future(lane.run(pulse, self._ending)) for lane in self.lanes]
        try:
            await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self.stop()
            done = await asyncio.gather(*running, return_exceptions=True)
            self._superseded.close()
            self._standing.close()
        for error in done:
            if isinstance(error, BaseException):
                raise error


def _served(app: Declared, queues: Sequence[str] | None) -> Sequence[str]:
    """The queues that were named, else the app's; ValueError where there is none."""
    found = app.queues if queues is None else queues
    if not found:
        told = f"{app.name} declares no activities, so a worker has no queue to serve: name one"
        raise ValueError(told)
    return found


def _check_limits(concurrency: int, sync_concurrency: int, drain_ms: int) -> None:
    for what, limit in (("concurrency", concurrency), ("sync_concurrency", sync_concurrency)):
        if limit < 1:
            raise ValueError(f"{what} is {limit}, it must be at least 1")
    if drain_ms < 0:
        raise ValueError(f"drain_ms is {drain_ms}, it must be zero or more")


def run_until_signalled(worker: Worker) -> None:
    """Runs the worker in this thread until SIGTERM or SIGINT, then drains it."""

    async def main() -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, worker.stop)
        await worker.run()

    runner = asyncio.Runner()
    try:
        run_through_exits(runner.get_loop(), main())
    finally:
        if not lets_go(runner.get_loop()):
            logger.warning("an activity clings past the end of its worker, and is left behind")
        else:
            runner.close()


def lets_go(loop: asyncio.AbstractEventLoop) -> bool:
    """Cancels what still runs in the loop; whether all of it has ended within `CLOSE_S`."""
    left = asyncio.all_tasks(loop)
    for task in left:
        task.cancel()
    if left:
        _, left = loop.run_until_complete(asyncio.wait(left, timeout=CLOSE_S))
    return not left


def run_through_exits(loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, None]) -> None:
    """Runs `work` to its end. A `sys.exit` in a task that an activity has begun leaves the loop, which goes on:
    whoever awaits that task gets it, too, and the worker would otherwise end again with each delivery.
    """
    task = loop.create_task(work)
    while True:
        try:
            return loop.run_until_complete(task)
        except (SystemExit, KeyboardInterrupt):
            if task.done():
                raise
