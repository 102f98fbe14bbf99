"""One queue of a worker: its intake thread, its share of the event loop, and its threads for sync activities.

```
intake thread   poll ─▶ jobs ─┐          ┌─▶ settle, commit; looks for attempts that nothing can stop
event loop                    └▶ start ─▶│ async: a task of the loop ──────▶ report
its threads                              └ sync: one of a few threads ────▶ report
```
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from contextvars import Context, copy_context
from functools import partial

import structlog

from ...commands.identity import Identity
from ...events.log.protocol import Log, Place
from ...events.topics import Topics
from ..clock import unhurried
from .attempt import hung, unwanted
from .bursts import Burst
from .core import WorkerCore
from .driving import Driver, Spoken
from .hearing import Hearing
from .hung import ATTENDED, LOOK_MS, SILENT_MS, Attempt, Attempts, Ending, Hung, Pulse, fault_of
from .jobs import Job
from .killers import DEATHS_MAX, Killers, killed
from .leases import Leases
from .redelivered import Redelivered
from .runner import Runner, Said
from .running import Running
from .seat import Seat
from .standing import Standing
from .superseded import Superseded
from .telling import Hang
from .threads import Threads
from .waiting import Room, Waiting

POLL_MS = 100
"""Longest wait for records, and so the longest an acknowledged result waits for its commit."""

COMMIT_MS, FLUSH_MS = 100, 5_000

DRAIN_LOOK_MS = 10
"""A drain looks that often whether the broker has acknowledged something."""

BLOCKED_MS = 2_000
"""An event loop that does not answer for longer is blocked by an activity; the log says so."""

logger = structlog.get_logger("wakeful.worker")


class Lane:
    """See the module; each method belongs to the thread that its section names."""

    def __init__(
        self,
        log: Log,
        topics: Topics,
        queue: str,
        runner: Runner,
        superseded: Superseded,
        standing: Standing,
        leases: Leases,
        killers: Killers,
        *,
        seat: Seat,
        worker_id: str,
        now_ms: Callable[[], int],
        identity: Identity,
        monotonic: Callable[[], float],
        concurrency: int,
        sync_concurrency: int,
        drain_ms: int,
        hit: Callable[[str], None],
    ) -> None:
        self.core = WorkerCore(
            log,
            topics,
            queue,
            seat=seat,
            worker_id=worker_id,
            now_ms=now_ms,
            identity=identity,
            hit=hit,
            draining=self._drain_places,
            own_ms=unhurried(now_ms, monotonic),
        )
        self._runner, self._hit, self._monotonic = runner, hit, monotonic
        self._concurrency, self._sync_concurrency = concurrency, sync_concurrency
        self.ended, self._stopping, self._moved = (threading.Event() for _ in range(3))
        self._waiting = Waiting(self._needs_thread, killers.holds_back)
        self._tasks: dict[asyncio.Task[None], Job] = {}
        self._threads = Threads(f"activity-{queue}", threads_max=sync_concurrency)
        self._superseded, self._standing, self._drain_ms = superseded, standing, drain_ms
        self._running = Running(runner, send=self.core.beat, monotonic=monotonic, over=superseded)
        superseded.tell(self._over)
        drop = partial(self._hand_in, body=None)
        self._redelivered = Redelivered(self.core, leases, monotonic, now_ms, drop)
        self._hearing, self._attempts = Hearing(monotonic), Attempts(killers)
        self._driver = Driver(
            runner,
            self._attempts,
            self._running,
            monotonic=monotonic,
            hit=hit,
            is_over=self.core.is_over,
            is_stale=self._hearing.is_stale,
            check=standing.check,
            in_thread=self._run_in_thread,
            is_stopping=self._stopping.is_set,
        )
        self._room = self._room_of(counted=runner.calls_once_in_threads(queue))
        self._handing_in, self._burst = threading.Lock(), Burst(self._hand_in, self._break_off)
        self._error: BaseException | None = None
        self._look_at, self._warned, self._drained, self._in_threads = 0.0, False, False, 0

    def stop(self) -> None:
        """Takes no more tasks and drains."""
        self._stopping.set()
        self._moved.set()

    async def run(self, pulse: Pulse, ending: Ending) -> None:
        """Works until `stop`; raises what broke it."""
        self._loop = asyncio.get_running_loop()
        self._pulse, self._ending = pulse, ending
        ended = self._loop.create_future()
        name = f"intake-{self.core.queue}"
        thread = threading.Thread(target=self._intake, args=(ended,), name=name, daemon=True)
        thread.start()
        try:
            await asyncio.shield(ended)
        except asyncio.CancelledError:
            self.stop()
            await ended
            raise
        finally:
            thread.join(FLUSH_MS / 1000)
            self._threads.close()
        if self._error is not None:
            raise fault_of(self._error)

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
        if self._attempts.in_loop and self._pulse.silent_s > SILENT_MS / 1000:
            logger.error(
                "an activity blocks the event loop: the process ends without waiting for it"
            )
            self._ending.begin()  # else nobody would be left to see that the loop stays blocked
        self.ended.set()
        self._loop.call_soon_threadsafe(ended.set_result, None)

    def _take_until_stopped(self) -> None:
        self.core.open()  # the group lets it in meanwhile
        self._superseded.catch_up(self._monotonic())
        commit_at = 0.0
        while not self._stopping.is_set():
            self._burst.send()
            room = self._room.wait()
            jobs = self.core.poll(max(room, 1), POLL_MS if room else 0, once_max=self._room.once)
            self._hearing.hear(jobs)
            self._standing.look(jobs)
            self._superseded.look(self._monotonic(), at_once=any(job.lay for job in jobs))
            if jobs := self._redelivered.admit(jobs):
                self._loop.call_soon_threadsafe(self._accept, jobs)
            now = self._hearing.hear()
            if now >= commit_at:
                self.core.commit()
                commit_at = now + COMMIT_MS / 1000
            self._look(now)

    def _drain_places(self, places: Sequence[Place]) -> None:
        """Before partitions go: what runs may finish, so that their next owner need not run it again."""
        if self._drained:
            return  # it leaves the group, and has waited for what it was willing to wait for
        self._loop.call_soon_threadsafe(self._give_back_waiting, places)
        for job in self._redelivered.take_back(places):
            self._hand_back(job)
        self._wait_until_settled(lambda: self.core.unsettled_in(places))
        self._redelivered.leave(self._attempts.remaining_ms(places, self._monotonic()))

    def _drain(self) -> None:
        self._loop.call_soon_threadsafe(self._give_back_waiting)
        for job in self._redelivered.take_back():
            self._hand_back(job)
        try:
            self._wait_until_settled(self._going_on)
            for attempt in self._attempts.in_threads():
                self._running.leave(attempt.job)
                self._give_back(attempt.job)  # its thread goes on, and what it says is not heard
            self._loop.call_soon_threadsafe(self._cancel_all)
            self._wait_until_settled(lambda: 0 if self._cut_off else self.core.running)
            self.core.flush(FLUSH_MS)
            self._redelivered.close()
        finally:
            self._drained = True
            self.core.close()

    def _going_on(self) -> int:
        """What a drain waits for: with a hung event loop, only what needs no loop to end."""
        if self._cut_off:
            return len(self._attempts.in_threads()) + self.core.sending
        return self.core.unsettled - self.core.unsaid.results

    @property
    def _cut_off(self) -> bool:
        return self._ending.begun and self._pulse.silent_s > SILENT_MS / 1000

    def _wait_until_settled(self, left: Callable[[], int]) -> None:
        give_up = self._monotonic() + self._drain_ms / 1000
        while True:
            self._burst.send()
            self.core.settle()
            if not left() or (wait := give_up - (now := self._monotonic())) <= 0:
                return
            self._look(now)
            self._moved.wait(min(wait, DRAIN_LOOK_MS / 1000))
            self._moved.clear()

    def _look(self, now: float) -> None:
        """Looks, now and then, for attempts that are past their time-out and go on, and gives them up."""
        if now < self._look_at:
            return
        self._look_at = now + LOOK_MS / 1000
        self._superseded.look(now)
        self._running.look()
        if not self._pulse.look():
            return
        for attempt, hang in self._attempts.stuck(now):
            self._give_up(attempt, hang)
        self._look_at_loop(now)

    def _look_at_loop(self, now: float) -> None:
        silent_s = self._pulse.silent_s
        self._warned = self._warned and silent_s > SILENT_MS / 1000
        job = self._pulse.blocking() if silent_s > SILENT_MS / 1000 else None
        attempt = None if job is None else self._attempts.of(job)
        if attempt is None:
            return  # another queue's, or none at all: the machine is busy
        if now >= attempt.limit_at:
            self._give_up(attempt, self._pulse.hang())
        elif silent_s > BLOCKED_MS / 1000 and not self._warned:
            self._warned = True
            logger.warning(
                "an activity blocks the event loop and so holds up all others: declare it with 'def', not 'async def'",
                activity=attempt.job.task.name,
                blocked_s=round(silent_s, 1),
            )

    def _give_up(self, attempt: Attempt, hang: Hang) -> None:
        """Says that it timed out, and begins the end of the process: nothing else can end it."""
        job = attempt.job
        if not self._attempts.claim(job):
            return  # it has ended just now
        self._running.leave(job)
        body = hung(self._runner, job.task, hang, fresh=job.fresh, begun=job.begun)
        self._hand_in(job, body)
        told = f"{body.failure.message} ({job.command_id})"
        logger.error("an activity hangs: the process ends, to be started again", cause=told)
        self._error = self._error or Hung(told)
        self._ending.begin()

    # In the event loop.

    def _accept(self, jobs: list[Job]) -> None:
        self._waiting.add(jobs, self._monotonic())
        self._start_waiting()

    def _start_waiting(self) -> None:
        if self._stopping.is_set():
            self._give_back_waiting()
        while (job := self._next_waiting()) is not None:
            if (deaths := self._attempts.killers.deaths(job)) >= DEATHS_MAX:
                self._hand_in(job, killed(job, deaths, self._runner.worker_id))
                continue
            attempt = self._attempts.begin(job)
            if self._needs_thread(job):
                self._run_in_thread(partial(self._attend_in_thread, attempt, copy_context()))
                continue
            task = self._loop.create_task(self._attend(attempt))
            self._tasks[task] = job
            task.add_done_callback(self._ended)

    def _next_waiting(self) -> Job | None:
        if len(self._tasks) + self._in_threads >= self._concurrency:
            return None
        return self._waiting.next(thread_is_free=self._in_threads < self._sync_concurrency)

    def _needs_thread(self, job: Job) -> bool:
        """Whether one thread does all of it; where there may be waits, the loop calls threads for parts."""
        return not job.may_rest and self._runner.is_sync(job.task.name)

    def _run_in_thread(self, call: Callable[[], None]) -> None:
        def run() -> None:
            call()
            with suppress(RuntimeError):  # the loop is closed: the worker ended before this did
                self._loop.call_soon_threadsafe(self._thread_ended)

        self._in_threads += 1
        self._threads.run(run)

    def _ended(self, task: asyncio.Task[None]) -> None:
        job = self._tasks.pop(task)
        if task.cancelled():
            self._give_back(job)
        elif (error := task.exception()) is not None:
            self._break_off(job, error)
        self._moved.set()
        self._start_waiting()

    def _thread_ended(self) -> None:
        self._in_threads -= 1
        self._start_waiting()

    def _give_back_waiting(self, places: Sequence[Place] | None = None) -> None:
        """Those of these partitions, or all, and those that have started and rest."""
        for job in self._waiting.leave(places):
            self._hand_back(job)
        self._attempts.wake(places)
        self._moved.set()

    def _cancel_all(self) -> None:
        self._give_back_waiting()
        for task in self._tasks:
            task.cancel("the worker stops")

    async def _attend(self, attempt: Attempt) -> None:
        ATTENDED.set(attempt.job)
        with suppress(Spoken):
            body = await self._running.attend(attempt, partial(self._driver.drive, attempt))
            self._hit("w.responded")
            if self._attempts.claim(attempt.job):  # else somebody has spoken for it
                self._burst.add(self._loop, attempt.job, body)

    # In one of the threads.

    def _attend_in_thread(self, attempt: Attempt, context: Context) -> None:
        attempt.thread_id = threading.get_ident()
        try:
            with suppress(Spoken):
                work = partial(self._driver.drive_sync, attempt)
                body = context.run(self._running.attend_sync, attempt, work)
                self._hit("w.responded")
                if self._attempts.claim(attempt.job):
                    self._hand_in(attempt.job, body)
        except BaseException as error:  # noqa: BLE001 carried to the loop, where run raises it
            self._break_off(attempt.job, error)
        self._moved.set()

    # In any thread.

    def _room_of(self, *, counted: bool) -> Room:
        return Room(
            self.core,
            self._concurrency,
            lambda: self._sync_concurrency - self._in_threads if counted else None,
            moved=self._moved,
            stopping=self._stopping,
            monotonic=self._monotonic,
        )

    def _over(self, command_id: str) -> None:
        if not self._running.stop(command_id) and (job := self._waiting.one(command_id)):
            self._hand_in(job, unwanted(job, self._runner.worker_id))

    def _give_back(self, job: Job) -> None:
        if self._attempts.claim(job):
            self._hand_back(job)

    def _break_off(self, job: Job, error: BaseException) -> None:
        if self._attempts.breaks(job, error):
            self._hand_back(job)
        self._error = self._error or error
        self.stop()

    def _hand_in(self, job: Job, body: Said | None) -> None:
        with self._handing_in:
            if body is None:
                self.core.expire(job)
            else:
                self.core.report(job, body)

    def _hand_back(self, job: Job) -> None:
        with self._handing_in:
            self.core.give_back(job)
