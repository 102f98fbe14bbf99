"""The worker process: one intake thread per queue around `WorkerCore`, one event loop for all activities.

The thread blocks in the log's client, commits and keeps the membership; the loop only runs activities and hands in
results. So neither waits for the other, and an activity that blocks the loop cannot cost the worker its partitions.
It does hold up every other activity, and no time-out can end it: blocking calls belong in `asyncio.to_thread`.
"""

from __future__ import annotations

import asyncio
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import structlog

from ...commands.models import FailActivity
from ...events.log.protocol import Log, Place
from ...events.topics import Topics
from .core import UNSETTLED_MAX, Job, WorkerCore, no_failpoint
from .definitions import Declared
from .runner import Body, Call, Runner

CONCURRENCY_DEFAULT = 100
"""Activities of one queue that run at once: they wait for others most of their time."""

AHEAD = 2
"""Tasks held, as a multiple of the concurrency, so that the loop never waits for a poll."""

POLL_MS = 100
"""Longest wait for records, and so the longest an acknowledged result waits for its commit."""

COMMIT_MS = 100

DRAIN_MS_DEFAULT = 10_000
"""How long running activities may finish when the worker stops or loses partitions; below the watchdog's limit."""

FLUSH_MS = 5_000

FULL_MS = 200
"""A worker that is full for longer pauses its partitions, so that nothing is fetched for it."""

BLOCKED_MS = 2_000
"""An event loop that does not answer for longer is blocked by an activity; the log says so."""

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
        now_ms: Callable[[], int],
        queues: Sequence[str] | None = None,
        group: str | None = None,
        concurrency: int = CONCURRENCY_DEFAULT,
        drain_ms: int = DRAIN_MS_DEFAULT,
        hit: Callable[[str], None] = no_failpoint,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """`queues` are those of the app by default; the group of a queue is `<namespace>.workers.<queue>`."""
        if concurrency < 1:
            raise ValueError(f"concurrency is {concurrency}, it must be at least 1")
        if drain_ms < 0:
            raise ValueError(f"drain_ms is {drain_ms}, it must be zero or more")
        self.app = app
        runner = Runner(app.activities, worker_id=worker_id, digest_key=digest_key)
        self.lanes = [
            Lane(
                log,
                topics,
                queue,
                runner,
                group=f"{group or topics.namespace + '.workers'}.{queue}",
                worker_id=worker_id,
                now_ms=now_ms,
                monotonic=monotonic,
                concurrency=concurrency,
                drain_ms=drain_ms,
                hit=hit,
            )
            for queue in (app.queues if queues is None else queues)
        ]
        if not self.lanes:
            raise ValueError(
                f"{app.name} declares no activities, so a worker has no queue to serve: name one"
            )

    def stop(self) -> None:
        """Drains and ends `run`; from any thread or signal handler, a repeat changes nothing."""
        for lane in self.lanes:
            lane.stop()

    async def run(self) -> None:
        """Works until `stop`, then drains. A lane that fails stops the others and its error is raised."""
        running = [asyncio.ensure_future(lane.run()) for lane in self.lanes]
        try:
            await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self.stop()
            done = await asyncio.gather(*running, return_exceptions=True)
        for error in done:
            if isinstance(error, BaseException):
                raise error


def run_until_signalled(worker: Worker) -> None:
    """Runs the worker in this thread until SIGTERM or SIGINT, then drains it."""

    async def main() -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, worker.stop)
        await worker.run()

    with asyncio.Runner() as runner:
        run_through_exits(runner.get_loop(), main())


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


class Lane:
    """One queue: its intake thread, and its share of the event loop."""

    def __init__(
        self,
        log: Log,
        topics: Topics,
        queue: str,
        runner: Runner,
        *,
        group: str,
        worker_id: str,
        now_ms: Callable[[], int],
        monotonic: Callable[[], float],
        concurrency: int,
        drain_ms: int,
        hit: Callable[[str], None],
    ) -> None:
        self.core = WorkerCore(
            log,
            topics,
            queue,
            group=group,
            worker_id=worker_id,
            now_ms=now_ms,
            hit=hit,
            draining=self._drain_places,
        )
        self.joined = threading.Event()
        self._runner = runner
        self._hit = hit
        self._monotonic = monotonic
        self._concurrency = concurrency
        self._drain_ms = drain_ms
        self._stopping = threading.Event()
        self._moved = threading.Event()
        self._waiting: deque[Job] = deque()
        self._tasks: dict[asyncio.Task[None], Job] = {}
        self._error: BaseException | None = None
        self._beaten = 0.0
        self._warned = False
        self._paused = False

    def stop(self) -> None:
        """Takes no more tasks and drains."""
        self._stopping.set()
        self._moved.set()

    async def run(self) -> None:
        """Works until `stop`; raises what broke it."""
        self._loop = asyncio.get_running_loop()
        self._beaten = self._monotonic()
        ended = self._loop.create_future()
        thread = threading.Thread(
            target=self._intake, args=(ended,), name=f"intake-{self.core.queue}", daemon=True
        )
        thread.start()
        try:
            await asyncio.shield(ended)
        except asyncio.CancelledError:
            self.stop()
            await ended
            raise
        finally:
            thread.join(FLUSH_MS / 1000)
        if self._error is not None:
            raise self._error

    # In the intake thread.

    def _intake(self, ended: asyncio.Future[None]) -> None:
        try:
            self._take_until_stopped()
        except BaseException as error:  # noqa: BLE001 carried to the loop, where run raises it
            self._error = self._error or error
        try:
            self._drain()
        except BaseException as error:  # noqa: BLE001 the same
            self._error = self._error or error
        self._loop.call_soon_threadsafe(ended.set_result, None)

    def _take_until_stopped(self) -> None:
        self.core.open()
        commit_at = 0.0
        while not self._stopping.is_set():
            room = self._room() or self._wait_for_room()
            self._pause_or_resume(room)
            jobs = self.core.poll(max(room, 1), POLL_MS if room else 0)
            if jobs:
                self._loop.call_soon_threadsafe(self._accept, jobs)
            now = self._monotonic()
            if now >= commit_at:
                self.core.commit()
                commit_at = now + COMMIT_MS / 1000
                self._watch_loop(now)

    def _room(self) -> int:
        if self.core.unsettled >= UNSETTLED_MAX:
            return 0
        return max(0, self._concurrency * AHEAD - self.core.running)

    def _wait_for_room(self) -> int:
        """Waits a moment while the worker is full."""
        room, give_up = 0, self._monotonic() + FULL_MS / 1000
        while not room and not self._stopping.is_set():
            self._moved.clear()
            self.core.settle()
            room = self._room()
            left = give_up - self._monotonic()
            if room or left <= 0:
                break
            self._moved.wait(min(left, POLL_MS / 1000))
        return room

    def _pause_or_resume(self, room: int) -> None:
        """Pauses only where a full worker stays full, since a pause throws fetched records away."""
        if room == 0:
            self.core.pause()
            self._paused = True
        elif self._paused:
            self.core.resume()
            self._paused = False

    def _drain_places(self, places: Sequence[Place]) -> None:
        """Before partitions go: what runs may finish, so that their next owner need not run it again."""
        self._loop.call_soon_threadsafe(self._give_back_waiting_in, places)
        self._wait_until_settled(lambda: self.core.unsettled_in(places))

    def _drain(self) -> None:
        self._loop.call_soon_threadsafe(self._give_back_waiting)
        try:
            self._wait_until_settled(lambda: self.core.unsettled)
            self._loop.call_soon_threadsafe(self._cancel_all)
            self._wait_until_settled(lambda: self.core.running)
            self.core.flush(FLUSH_MS)
        finally:
            self.core.close()

    def _wait_until_settled(self, left: Callable[[], int]) -> None:
        give_up = self._monotonic() + self._drain_ms / 1000
        self.core.settle()
        while left() and (wait := give_up - self._monotonic()) > 0:
            self._moved.wait(min(wait, 0.01))
            self._moved.clear()
            self.core.settle()

    def _watch_loop(self, now: float) -> None:
        """Warns once when an activity blocks the event loop: nobody else can tell from outside."""
        if now - self._beaten < BLOCKED_MS / 1000:
            self._warned = False
        elif not self._warned:
            self._warned = True
            names = sorted({job.task.name for job in list(self._tasks.values())})
            logger.warning(
                "the event loop does not answer: an activity blocks it, use asyncio.to_thread there",
                running=names,
                blocked_s=round(now - self._beaten, 1),
            )
        self._loop.call_soon_threadsafe(self._beat)

    # In the event loop.

    def _beat(self) -> None:
        self._beaten = self._monotonic()

    def _accept(self, jobs: list[Job]) -> None:
        self._waiting.extend(jobs)
        self._start_waiting()

    def _start_waiting(self) -> None:
        if self._stopping.is_set():
            self._give_back_waiting()
        while self._waiting and len(self._tasks) < self._concurrency:
            job = self._waiting.popleft()
            task = self._loop.create_task(self._attend(job))
            self._tasks[task] = job
            task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        job = self._tasks.pop(task)
        if task.cancelled():
            self.core.give_back(job)
        elif (error := task.exception()) is not None:
            self.core.give_back(job)
            self._error = self._error or error
            self.stop()
        self._moved.set()
        if self._waiting:
            self._start_waiting()

    def _give_back_waiting(self) -> None:
        while self._waiting:
            self.core.give_back(self._waiting.popleft())
        self._moved.set()

    def _give_back_waiting_in(self, places: Sequence[Place]) -> None:
        kept = deque(job for job in self._waiting if not job.lies_in(places))
        for job in self._waiting:
            if job.lies_in(places):
                self.core.give_back(job)
        self._waiting = kept
        self._moved.set()

    def _cancel_all(self) -> None:
        self._give_back_waiting()
        for task in self._tasks:
            task.cancel("the worker stops")

    async def _attend(self, job: Job) -> None:
        call = self._runner.prepare(job.task)
        if isinstance(call, FailActivity):
            body: Body = call
        else:
            self._hit("w.dispatched")
            body = await perform(self._runner, call)
        self._hit("w.responded")
        self.core.report(job, body)


async def perform(runner: Runner, call: Call) -> Body:
    """Runs one attempt to its words: result, failure, or time-out on the loop's monotonic clock.

    Only the worker's own cancellation comes out as an exception: an activity that calls `sys.exit`, or raises
    `KeyboardInterrupt` or `CancelledError` by itself, would otherwise end every worker that tries it. Ctrl-C is not
    among these: it is a signal, and the worker handles it.
    """
    scope = asyncio.timeout(call.task.start_to_close_ms / 1000)
    try:
        async with scope:
            result: Any = await call.start()
    except asyncio.CancelledError as error:
        current = asyncio.current_task()
        if current is not None and current.cancelling():
            raise
        return runner.failed(call.task, error)
    except BaseException as error:  # noqa: BLE001 whatever a tool raises is its failure, and is reported
        return runner.timed_out(call.task) if scope.expired() else runner.failed(call.task, error)
    return runner.completed(call, result)
