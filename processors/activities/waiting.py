"""What a lane has taken and not started, and for how much more it has room."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence

from ...events.log.protocol import Place
from .core import UNSETTLED_MAX, WorkerCore
from .jobs import Job

FULL_MS = 200
"""A worker that is full for longer pauses its partitions, so that nothing is fetched for it."""

MOVED_MS = 100
"""A full worker looks that often whether the broker has acknowledged something."""

AHEAD = 2
"""Tasks held, as a multiple of the concurrency, so that the loop never waits for a poll."""


class Waiting:
    """Jobs in the order in which they start; those that must not run twice come first, since they were taken to start."""

    def __init__(
        self,
        needs_thread: Callable[[Job], bool],
        holds_back: Callable[[Job], bool] = lambda _job: False,
    ) -> None:
        """`holds_back` tells whether one may not start now, whatever is free."""
        self._needs_thread = needs_thread
        self._holds_back = holds_back
        self._jobs: deque[Job] = deque()
        self._lock = threading.Lock()

    def add(self, jobs: Sequence[Job], now: float) -> None:
        """Takes them in; `now` by the worker's own clock.

        A look-up waits from here on: another worker may have had the call under way until then. What may run once is as
        old as it was when the intake took it.
        """
        for job in jobs:
            job.taken_at = job.taken_at if job.once else now
        with self._lock:
            self._jobs.extend(job for job in jobs if not job.once)
            self._jobs.extendleft(job for job in reversed(jobs) if job.once)

    def next(self, *, thread_is_free: bool) -> Job | None:
        """The first that may start: one that needs a thread does not hold up those behind it that need none."""
        with self._lock:
            for index, job in enumerate(self._jobs):
                if self._holds_back(job):
                    continue
                if thread_is_free or not self._needs_thread(job):
                    del self._jobs[index]
                    return job
            return None

    def leave(self, places: Sequence[Place] | None = None) -> list[Job]:
        """Those of these partitions, or all, which are not here any more."""
        with self._lock:
            leaving = [job for job in self._jobs if places is None or job.lies_in(places)]
            for job in leaving:
                self._jobs.remove(job)
            return leaving

    def one(self, command_id: str) -> Job | None:
        """This one, if it is here, which it is not any more; from any thread."""
        with self._lock:
            found = next((job for job in self._jobs if job.command_id == command_id), None)
            if found is not None:
                self._jobs.remove(found)
            return found


class Room:
    """How many tasks may be fetched, and how many of those that must not run twice may be taken; in the intake thread."""

    def __init__(
        self,
        core: WorkerCore,
        concurrency: int,
        free_threads: Callable[[], int | None],
        *,
        moved: threading.Event,
        stopping: threading.Event,
        monotonic: Callable[[], float],
    ) -> None:
        """`free_threads` counts them where tasks that must not run twice need one, and gives null elsewhere.

        `moved` is set when a job has ended, `stopping` for good.
        """
        self._core = core
        self._concurrency = concurrency
        self._free_threads = free_threads
        self._moved = moved
        self._stopping = stopping
        self._monotonic = monotonic
        self._paused = False

    def wait(self) -> int:
        """How many tasks may be fetched now, after a moment's wait where there are none and nothing else is to be taken."""
        room = self.to_fetch
        if self.has_once:
            return room
        room = room or self._wait()
        self._pause_or_resume(room)
        return room

    @property
    def to_fetch(self) -> int:
        """Zero where the worker is full, or no key signs its results."""
        if self._core.unsaid.mute or self._core.unsettled >= UNSETTLED_MAX:
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
        return 0 if self._core.unsaid.mute else max(free, 0 if ahead else 1)

    @property
    def has_once(self) -> bool:
        """Whether some of those are here, and can be taken."""
        return self._core.waiting_once > 0 and self.once > 0

    def _wait(self) -> int:
        """Waits a moment while the worker is full."""
        room, give_up = 0, self._monotonic() + FULL_MS / 1000
        while not room and not self._stopping.is_set():
            self._moved.clear()
            self._core.settle()
            room = self.to_fetch
            left = give_up - self._monotonic()
            if room or left <= 0 or self.has_once:
                break
            self._moved.wait(min(left, MOVED_MS / 1000))
        return room

    def _pause_or_resume(self, room: int) -> None:
        """Pauses only where a full worker stays full, since a pause throws fetched records away."""
        if room == 0:
            self._core.pause()
            self._paused = True
        elif self._paused:
            self._core.resume()
            self._paused = False
