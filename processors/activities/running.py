"""The attempts of a queue whose bodies run: each has its beats, and each can be stopped.

```
AttemptOver ─────────────┐            async: its task is cancelled
beats not acknowledged ──┴▶ stop ─▶   sync: its next heartbeat() raises
body ends ┬ of its own, a result or failure ─▶ that is reported; the log may record it as late
          ├ stopped, the attempt is over    ─▶ stopped (of a write): its effect may have to be taken back
          └ stopped, fenced                 ─▶ timed_out: whoever has the attempt now is told, if nobody has it
```
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Container
from contextlib import suppress

from ...commands.models import CompleteActivity
from .attempt import fenced, unwanted
from .beats import AttemptCancelled, Beat, Beats, Stop
from .emitting import Emission
from .hidden import Hidden
from .hung import Attempt
from .inside import INSIDE, Inside
from .jobs import Job
from .runner import Runner, Said


class Running:
    """`attend` and `attend_sync` belong to whoever runs the bodies, `look` to the intake, `stop` to any thread."""

    def __init__(
        self,
        runner: Runner,
        *,
        send: Callable[[Beat], None],
        monotonic: Callable[[], float],
        over: Container[str] = (),
    ) -> None:
        """`over` knows attempts that are over although their tasks are still to come."""
        self._runner = runner
        self._send = send
        self._monotonic = monotonic
        self._over = over
        self._open: dict[str, Beats] = {}

    async def attend(
        self, attempt: Attempt, work: Callable[[], Awaitable[Said | None]]
    ) -> Said | None:
        """What this attempt, carried out by `work`, has come to; null where nothing is to be said."""
        job = attempt.job
        task, loop = asyncio.current_task(), asyncio.get_running_loop()
        if task is None:
            raise RuntimeError("an attempt runs in a task of its own")

        def end() -> None:
            # A thread cannot be cut: it is told at its next heartbeat.
            if attempt.thread_id is None:
                task.cancel("the attempt is stopped")

        def cancel() -> None:
            with suppress(RuntimeError):  # the loop is closed: the body has ended with it
                loop.call_soon_threadsafe(end)

        beats = self._begin(job, cancel)
        if beats is None:
            return self._unwanted(job)
        body: Said | None = None
        inside = self._inside(beats)
        token = INSIDE.set(inside)
        try:
            body = await work()
        except asyncio.CancelledError:
            if beats.stopped is None:
                raise  # the worker stops, and gives the job back
        finally:
            INSIDE.reset(token)
            inside.emission.close()
            self._end(job, beats, body)
        return self._said(job, beats, body)

    def attend_sync(self, attempt: Attempt, work: Callable[[], Said | None]) -> Said | None:
        """The same in a thread."""
        job = attempt.job
        beats = self._begin(job, None)
        if beats is None:
            return self._unwanted(job)
        body: Said | None = None
        inside = self._inside(beats)
        token = INSIDE.set(inside)
        try:
            body = work()
        except AttemptCancelled:
            if beats.stopped is None:
                raise
        finally:
            INSIDE.reset(token)
            inside.emission.close()
            self._end(job, beats, body)
        return self._said(job, beats, body)

    def begins(self, job: Job, hidden: Hidden | None = None) -> None:
        """Its function is about to be called: from here on its clock runs, and what is `hidden` is not told."""
        beats = self._open.get(job.command_id)
        if beats is not None:
            beats.begin(hidden)

    def rests(self, job: Job) -> None:
        """What is still to be done for it is its worker's, which beats for it until its function is called again."""
        beats = self._open.get(job.command_id)
        if beats is not None:
            beats.rest()

    def stop(self, command_id: str) -> bool:
        """Stops an attempt that is over; false where its body does not run here."""
        beats = self._open.get(command_id)
        if beats is not None:
            beats.stop(Stop.OVER)
        return beats is not None

    def leave(self, job: Job) -> None:
        """Somebody else has spoken for it: what its body says from now on is not heard, and it is told so."""
        beats = self._open.get(job.command_id)
        if beats is not None:
            beats.close(completed=False)

    def look(self) -> None:
        """Sends what the throttle has kept, and fences attempts whose beats do not arrive."""
        for beats in list(self._open.values()):
            if not beats.look():
                beats.stop(Stop.FENCED)

    def _begin(self, job: Job, cancel: Callable[[], None] | None) -> Beats | None:
        beats = Beats(
            job.task,
            worker_id=self._runner.worker_id,
            send=self._send,
            monotonic=self._monotonic,
            cancel=cancel,
        )
        self._open[job.command_id] = beats
        if job.command_id in self._over:  # asked when it can be found: no word is lost in between
            del self._open[job.command_id]
            return None
        return beats

    def _inside(self, beats: Beats) -> Inside:
        emission = Emission(beats.task, self._runner.tokens, lambda: beats.hidden)
        return Inside(beats, self._runner.digest_key, emission)

    def _end(self, job: Job, beats: Beats, body: Said | None) -> None:
        self._open.pop(job.command_id, None)
        beats.close(completed=isinstance(body, CompleteActivity))

    def _unwanted(self, job: Job) -> Said | None:
        return unwanted(job, self._runner.worker_id)

    def _said(self, job: Job, beats: Beats, body: Said | None) -> Said | None:
        """A fenced body that was told may have given half a result, and somebody may wait for a whole one."""
        if beats.stopped is Stop.FENCED and (body is None or beats.told):
            return fenced(self._runner, beats.task)
        if beats.stopped is Stop.OVER and body is None:
            return self._unwanted(job)
        return body
