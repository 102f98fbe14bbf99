"""What a lane has taken and not started, and for how much more it has room."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from ...events.log.protocol import Place
from .core import UNSETTLED_MAX, WorkerCore
from .jobs import Job

AHEAD = 2
"""Tasks held, as a multiple of the concurrency, so that the loop never waits for a poll."""


class Waiting:
    """Jobs in the order in which they start; those that must not run twice come first, since they were taken to start."""

    def __init__(self, needs_thread: Callable[[Job], bool]) -> None:
        self._needs_thread = needs_thread
        self._jobs: deque[Job] = deque()

    def add(self, jobs: Sequence[Job], now: float) -> None:
        """Takes them in; `now` by the worker's own clock."""
        for job in jobs:
            job.taken_at = now
        self._jobs.extend(job for job in jobs if not job.once)
        self._jobs.extendleft(job for job in reversed(jobs) if job.once)

    def next(self, *, thread_is_free: bool) -> Job | None:
        """The first that may start: one that needs a thread does not hold up those behind it that need none."""
        for index, job in enumerate(self._jobs):
            if thread_is_free or not self._needs_thread(job):
                del self._jobs[index]
                return job
        return None

    def leave(self, places: Sequence[Place] | None = None) -> list[Job]:
        """Those of these partitions, or all, which are not here any more."""
        leaving = [job for job in self._jobs if places is None or job.lies_in(places)]
        for job in leaving:
            self._jobs.remove(job)
        return leaving


class Room:
    """How many tasks may be fetched, and how many of those that must not run twice may be taken; in the intake thread."""

    def __init__(
        self,
        core: WorkerCore,
        concurrency: int,
        free_threads: Callable[[], int | None],
    ) -> None:
        """`free_threads` counts them where tasks that must not run twice need one, and gives null elsewhere."""
        self._core = core
        self._concurrency = concurrency
        self._free_threads = free_threads

    @property
    def to_fetch(self) -> int:
        """Zero where the worker is full."""
        if self._core.unsettled >= UNSETTLED_MAX:
            return 0
        held = self._core.running + self._core.waiting_once
        return max(0, self._concurrency * AHEAD - held)

    @property
    def once(self) -> int:
        """As many as can start, or one that starts next: what is taken and lost with its worker is uncertain."""
        free, ahead = self._concurrency - self._core.running, self._core.unbegun_once
        threads = self._free_threads()
        if threads is not None:
            free = min(free, threads - ahead)
        return max(free, 0 if ahead else 1)

    @property
    def has_once(self) -> bool:
        """Whether some of those are here, and can be taken."""
        return self._core.waiting_once > 0 and self.once > 0
