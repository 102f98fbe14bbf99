"""The jobs of a queue that wait for their turn, in order; from any thread."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from ...events.log.protocol import Place
from .core import Job


class Waiting:
    """Each job is in here until exactly one caller has taken it out: to start it, to give it back or to drop it."""

    def __init__(self) -> None:
        self._jobs: dict[str, Job] = {}
        self._lock = threading.Lock()

    def add(self, jobs: Sequence[Job]) -> None:
        """Behind those that are here."""
        with self._lock:
            self._jobs.update((job.command_id, job) for job in jobs)

    def first(self, fits: Callable[[Job], bool]) -> Job | None:
        """Takes out the first that may start: one that may not does not hold up those behind it."""
        with self._lock:
            found = next((id_ for id_, job in self._jobs.items() if fits(job)), None)
            return None if found is None else self._jobs.pop(found)

    def one(self, command_id: str) -> Job | None:
        """Takes out this one."""
        with self._lock:
            return self._jobs.pop(command_id, None)

    def all(self) -> list[Job]:
        """Takes out all."""
        with self._lock:
            jobs, self._jobs = self._jobs, {}
            return list(jobs.values())

    def of(self, places: Sequence[Place]) -> list[Job]:
        """Takes out those of these partitions."""
        with self._lock:
            found = [job for job in self._jobs.values() if job.lies_in(places)]
            for job in found:
                del self._jobs[job.command_id]
            return found
