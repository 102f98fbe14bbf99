"""Attempts that nothing can stop: a sync activity past its time-out, an async one that blocks the event loop past it,
or that catches every cancellation and goes on.

Python cannot end a thread, so the process ends instead, and whoever supervises it starts it again:

```
look ─ an attempt is past its limit ─ claim it ─ report timed_out ─ begin the ending
ending: every queue takes no more ─ what still can finish may (bounded) ─ flush, commit, leave ─ end(70)
```

The recorded time-out is found when the task is delivered again, so the next process does not try it again.
Ages mean nothing where the whole process stood still (a debugger, a laptop's lid): such a look is skipped.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import Callable, Sequence
from concurrent import futures
from contextvars import ContextVar
from dataclasses import dataclass
from math import inf
from types import FrameType
from typing import Any

import structlog

from ...events.errors import Transient
from ...events.log.protocol import LogFault, Place
from ...events.shown import worded
from .jobs import Job
from .killers import Killers, NoKillers
from .telling import Hang, hang_in

EXIT_CODE = 70
"""EX_SOFTWARE, as the watchdog's: the supervisor starts the process again."""

LOOK_MS = 100
"""Between two looks, and so the longest that a time-out is noticed late."""

LATE_LOOK_MS = 1_000
"""A look that comes so late says that the process stood still, not that an activity hangs; calls that were about to
end get as long to do so."""

SILENT_MS = 1_000
"""An event loop that has not answered for so long does not answer: a busy one does within milliseconds."""

ATTENDED: ContextVar[Job] = ContextVar("wakeful_attended")
"""Whose attempt the event loop's current step belongs to; tasks that an activity begins inherit it."""


logger = structlog.get_logger("wakeful.worker")


class Hung(Transient):
    """An activity cannot be stopped: its attempt was reported as timed out, and its worker process ends."""


class Broken(Transient):
    """What a worker carried out ended it (a `SystemExit`, say), and nobody had asked it to end."""


def fault_of(error: BaseException) -> Exception:
    """The error as a fault: what asks a process to end, with code 0 perhaps, was not the worker's to obey."""
    if isinstance(error, Exception):
        return error
    return Broken(
        f"the worker was ended from inside, by {worded(error)}, without having been asked to"
    )


def end_process(code: int) -> None:
    """Ends this process at once: no destructors, and no waiting for threads that never end."""
    os._exit(code)


@dataclass(slots=True, eq=False)
class Attempt:
    """A job that was started; `limit_at` by the monotonic clock, and the thread it has to itself if it is a sync one.

    `rest` is what it waits for while none of the user's code runs for it; cancelled, the job is given back. `clings`
    where it is a coroutine that was cancelled at its limit, again and again, and goes on.
    """

    job: Job
    limit_at: float = inf
    thread_id: int | None = None
    rest: asyncio.Future[None] | futures.Future[Any] | None = None
    clings: Hang | None = None


class Attempts:
    """The open ones of a queue. Whoever claims one speaks for it, and nobody else does; from any thread."""

    def __init__(self, killers: Killers | None = None) -> None:
        self._open: dict[Job, Attempt] = {}
        self._lock = threading.Lock()
        self.killers = killers or NoKillers()

    def begin(self, job: Job) -> Attempt:
        """Opens one; without a limit until it runs."""
        attempt = self._open[job] = Attempt(job)
        self.killers.begins(job)
        return attempt

    def claim(self, job: Job) -> bool:
        """Closes it; false where somebody has done so before."""
        with self._lock:
            claimed = self._open.pop(job, None) is not None
        if claimed:
            self.killers.ends(job)
        return claimed

    def breaks(self, job: Job, error: BaseException) -> bool:
        """Claims one that has ended its worker, which counts as a death; not where the log did, which is down for all."""
        if isinstance(error, LogFault):
            return self.claim(job)
        logger.error(
            "an attempt breaks its worker: the process ends, to be started again",
            cause=f"{worded(error)} ({job.command_id})",
        )
        with self._lock:
            return self._open.pop(job, None) is not None

    def call(self, job: Job) -> bool:
        """Marks its function as called; false where somebody has spoken for it: it must not be called any more."""
        with self._lock:
            job.begun = job.begun or job in self._open
            return job in self._open

    def wake(self, places: Sequence[Place] | None = None) -> None:
        """Ends the rest of those that rest, of these partitions or of all, so that they are given back."""
        for attempt in list(self._open.values()):
            if attempt.rest is not None and (places is None or attempt.job.lies_in(places)):
                attempt.rest.cancel()

    def of(self, job: Job) -> Attempt | None:
        """The open attempt of a job."""
        return self._open.get(job)

    def remaining_ms(self, places: Sequence[Place], now: float) -> dict[Job, int]:
        """The open ones of these partitions that run, and for how long each may go on."""
        attempts = [a for a in list(self._open.values()) if a.limit_at < inf]
        return {
            attempt.job: int((attempt.limit_at - now) * 1000)
            for attempt in attempts
            if attempt.job.lies_in(places)
        }

    @property
    def in_loop(self) -> int:
        """How many open ones the event loop runs."""
        return len(self._open) - len(self.in_threads())

    def in_threads(self) -> list[Attempt]:
        """The open ones that run in a thread of their own."""
        return [attempt for attempt in list(self._open.values()) if attempt.thread_id is not None]

    def stuck(self, now: float) -> list[tuple[Attempt, Hang]]:
        """The open ones that are past their limit and cannot be stopped, while the event loop answers."""
        threads = [a for a in self.in_threads() if now >= a.limit_at]
        found = [(a, hang_in(frame_of(a.thread_id))) for a in threads]
        return found + [(a, hang) for a in list(self._open.values()) if (hang := a.clings)]


class Pulse:
    """Whether the event loop answers, and what it does instead; made in the loop's thread, asked from others."""

    def __init__(self, loop: asyncio.AbstractEventLoop, monotonic: Callable[[], float]) -> None:
        self._loop = loop
        self._monotonic = monotonic
        self.thread_id = threading.get_ident()
        self._asked_at: float | None = None
        self._looked_at = monotonic()
        self._woken_at = -inf

    def look(self) -> bool:
        """Asks the loop for a sign of life; false where the process has just stood still: no age means anything."""
        now = self._monotonic()
        if now - self._looked_at > LATE_LOOK_MS / 1000:
            self._woken_at = now
        self._looked_at = now
        if self._asked_at is None:
            self._asked_at = now
            self._loop.call_soon_threadsafe(self._answer)
        elif self._woken_at == now:
            self._asked_at = now
        return now - self._woken_at > LATE_LOOK_MS / 1000

    @property
    def silent_s(self) -> float:
        """For how long a question is open."""
        asked_at = self._asked_at
        return 0.0 if asked_at is None else self._monotonic() - asked_at

    def blocking(self) -> Job | None:
        """Whose step the loop is in; null while it waits, or runs something that is no activity's."""
        frame = frame_of(self.thread_id)
        while frame is not None:
            if frame.f_code is asyncio.Handle._run.__code__:  # noqa: SLF001 no public name
                context = getattr(frame.f_locals.get("self"), "_context", None)
                return None if context is None else context.get(ATTENDED)
            frame = frame.f_back
        return None

    def hang(self) -> Hang:
        """Where the loop is."""
        return hang_in(frame_of(self.thread_id))

    def _answer(self) -> None:
        self._asked_at = None


def frame_of(thread_id: int | None) -> FrameType | None:
    """Where a thread is; null where it is no more."""
    if thread_id is None:
        return None
    return sys._current_frames().get(thread_id)  # noqa: SLF001 the documented way to ask


class Ending:
    """The end of a worker process that has a hung activity; begun once, by whichever queue finds it first."""

    def __init__(
        self,
        stop: Callable[[], None],
        ended: Sequence[threading.Event],
        *,
        limit_ms: int,
        end: Callable[[int], object],
    ) -> None:
        """`stop` makes every queue drain, `ended` are set when they have; after `limit_ms` none is waited for."""
        self.begun = False
        self._stop = stop
        self._ended = ended
        self._limit_ms = limit_ms
        self._end = end
        self._lock = threading.Lock()

    def begin(self) -> None:
        """Returns at once; a thread that depends on neither loop nor activity does the rest."""
        with self._lock:
            if self.begun:
                return
            self.begun = True
        self._stop()
        threading.Thread(target=self._go_through, name="ending", daemon=True).start()

    def _go_through(self) -> None:
        out_of_time = threading.Event()
        timer = threading.Timer(self._limit_ms / 1000, out_of_time.set)
        timer.daemon = True
        timer.start()
        for ended in self._ended:
            while not ended.wait(LOOK_MS / 1000) and not out_of_time.is_set():
                pass
        timer.cancel()
        self._end(EXIT_CODE)
