"""Carries out the steps of attempts: async functions and waits in the event loop, sync functions in threads."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextvars import copy_context
from functools import partial
from math import inf

from .attempt import Ask, Came, LookUp, Run, Say, Steps, Wait, outdated, steps_of
from .hearing import REST_MS, MustLook, TooLate, make_sure
from .hung import Attempt, Attempts
from .jobs import Job
from .performing import perform, perform_sync
from .runner import Body, Runner, Said
from .running import Running
from .standing import Outdated, Unsure


class Spoken(Exception):
    """Somebody has spoken for the attempt (it was given back or given up), so that it must not be called any more."""


class Driver:
    """See the module. Each method belongs to the thread that it names."""

    def __init__(
        self,
        runner: Runner,
        attempts: Attempts,
        running: Running,
        *,
        monotonic: Callable[[], float],
        hit: Callable[[str], None],
        is_over: Callable[[Job], bool],
        in_thread: Callable[[Callable[[], None]], None],
        is_stopping: Callable[[], bool],
        is_stale: Callable[[Job], bool] = lambda _job: False,
        check: Callable[[Job], None] = lambda _job: None,
    ) -> None:
        """`is_stale` tells whether this worker may have lost the job, unheard, since it was asked last; `check` whether the
        authority of the job still stands (see `Standing`).

        `in_thread` has a thread run something, as soon as one is free; called in the event loop.
        """
        self._runner = runner
        self._attempts = attempts
        self._running = running
        self._monotonic = monotonic
        self._hit = hit
        self._is_over = is_over
        self._is_stale = is_stale
        self._check = check
        self._in_thread = in_thread
        self._is_stopping = is_stopping

    async def drive(self, attempt: Attempt) -> Said | None:
        """In the event loop: goes through all steps. Raises `CancelledError` where it is cut off, or its rest is."""
        steps = self._steps_of(attempt.job)
        while True:
            try:
                return await self._go_through(attempt, steps)
            except MustLook:
                await self._become_sure(attempt)
                steps = self._steps_of(attempt.job, sure=False)
            except TooLate:
                return None
            except Unsure:
                await self._rest(attempt, REST_MS)
                steps = self._steps_of(attempt.job)
            except Outdated:
                return await self._given_back(attempt)

    async def _given_back(self, attempt: Attempt) -> Said | None:
        """Unrun; nothing where nobody waits for it, or others have it by now, who may run it."""
        job = attempt.job
        if self._is_stale(job):
            await self._become_sure(attempt)
        return None if self._is_over(job) else outdated(job, self._runner.worker_id)

    async def _become_sure(self, attempt: Attempt) -> None:
        """Rests until the worker has heard whether it still has the task, be that long; only then a look says anything.

        So a worker that hears nothing, since it drains, say, does not look up the same call again and again.
        """
        job = attempt.job
        await self._rest(attempt, REST_MS)
        while self._is_stale(job):
            await self._rest(attempt, REST_MS)
        job.fresh = False

    async def _go_through(self, attempt: Attempt, steps: Steps) -> Body | None:
        large = attempt.job.task.arguments.ref is not None
        step = await asyncio.to_thread(next, steps) if large else next(steps)
        while not isinstance(step, Say):
            came: Came = None
            if isinstance(step, Wait):
                await self._rest(attempt, step.ms)
            elif step.call.is_sync:
                came = await self._play_in_thread(attempt, step)
            else:
                came = await self._play(attempt, step)
            # If its call was made, it is alive as long as this worker is.
            self._running.rests(attempt.job)
            step = steps.send(came)
        return step.body

    def drive_sync(self, attempt: Attempt) -> Body | None:
        """In a thread of its own: the same for an attempt whose steps are sync functions, without a wait."""
        steps = self._steps_of(attempt.job)
        step = next(steps)
        while isinstance(step, Run | Ask):
            try:
                self._begin(attempt, step)
            except TooLate:
                return None
            came: Came = perform_sync(step.words, step.call)
            step = steps.send(came)
        return step.body if isinstance(step, Say) else None

    def _steps_of(self, job: Job, *, sure: bool = True) -> Steps:
        """A worker that was not sure looks as late as if it had only just taken the task."""
        return steps_of(
            self._runner,
            job.task,
            fresh=job.fresh,
            waited_ms=round((self._monotonic() - job.taken_at) * 1000) if sure else 0,
            is_over=partial(self._is_over, job),
        )

    def _begin(self, attempt: Attempt, step: Run | LookUp | Ask) -> None:
        """In the thread that makes the call, just before it."""
        if isinstance(step, Run):
            now = self._monotonic()
            make_sure(attempt.job, is_over=self._is_over, is_stale=self._is_stale, now=now)
        if isinstance(step, Run) or (isinstance(step, Ask) and step.before is Run):
            self._check(attempt.job)
        attempt.limit_at = self._monotonic() + attempt.job.task.start_to_close_ms / 1000
        if not isinstance(step, Run):
            return
        if not self._attempts.call(attempt.job):
            raise Spoken
        self._running.begins(attempt.job, step.call.hidden)
        self._hit("w.dispatched")

    async def _rest(self, attempt: Attempt, ms: int) -> None:
        """Cut short where the worker stops, since it would not wait for the call behind it."""
        loop = asyncio.get_running_loop()
        rest: asyncio.Future[None] = loop.create_future()

        def wake() -> None:
            if not rest.done():
                rest.set_result(None)

        timer = loop.call_later(ms / 1000, wake)
        attempt.rest = rest
        if self._is_stopping():
            rest.cancel()
        try:
            await rest
        finally:
            attempt.rest = None
            timer.cancel()

    async def _play(self, attempt: Attempt, step: Run | LookUp | Ask) -> Came:
        self._begin(attempt, step)
        try:
            return await perform(step.words, step.call, partial(setattr, attempt, "clings"))
        finally:
            attempt.limit_at, attempt.clings = inf, None

    async def _play_in_thread(self, attempt: Attempt, step: Run | LookUp | Ask) -> Came:
        """While no thread is free, it rests."""
        answer: Future[Came] = Future()
        context = copy_context()

        def play() -> None:
            if not answer.set_running_or_notify_cancel():
                return  # given back while it waited for this thread
            attempt.thread_id = threading.get_ident()
            try:
                self._begin(attempt, step)
                came: Came = context.run(perform_sync, step.words, step.call)
                told = partial(answer.set_result, came)
            except BaseException as error:  # noqa: BLE001 raised where it is waited for
                told = partial(answer.set_exception, error)
            attempt.thread_id, attempt.limit_at = None, inf
            told()

        attempt.rest = answer
        self._in_thread(play)
        try:
            return await asyncio.wrap_future(answer)
        finally:
            attempt.rest = None
