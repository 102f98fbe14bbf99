"""Tasks that come a second time while their first call may still be under way at another worker.

```
a partition is taken away, a body outlives the drain ─▶ hold its lease ─ … acknowledged ─▶ release
a task comes that another may run ─ is it held? ─ no  ─▶ it starts
                                                └ yes ─▶ it waits, the others do not ─ free, or its time is out ─┬ result in log ─▶ settled
                                                                                                                └ none ─▶ it starts
```

Whatever the leases say, a waiting job starts when its lease must have ended: they save calls, and decide nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import structlog

from ...events.log.protocol import Fatal, LogFault, Place
from .core import WorkerCore
from .jobs import Job
from .leases import Leases

ASK_MS = 200
"""Between two questions about the same lease."""

logger = structlog.get_logger("wakeful.worker")


@dataclass(frozen=True, slots=True)
class Delayed:
    """One job that waits; `until` by the monotonic clock, in seconds."""

    job: Job
    until: float


class Redelivered:
    """Of one queue; its intake calls all of it."""

    def __init__(
        self,
        core: WorkerCore,
        leases: Leases,
        monotonic: Callable[[], float],
        now_ms: Callable[[], int],
        drop: Callable[[Job], None],
    ) -> None:
        """`drop` settles a job that has its result."""
        self._core = core
        self._leases = leases
        self._monotonic = monotonic
        self._now_ms = now_ms
        self._drop = drop
        self._waits: list[Delayed] = []
        self._left: list[Job] = []
        self._ask_at = 0.0

    def admit(self, jobs: list[Job]) -> list[Job]:
        """Those that may start now, of these and of those that wait."""
        self._release()
        seen = [job.command_id for job in jobs if job.seen_ms is not None]
        held = self._leases.held(seen) if seen else ()
        ready = [job for job in jobs if job.command_id not in held]
        if held:
            logger.info("calls that go on at another worker are waited for", count=len(held))
            self._waits += [self._wait(job) for job in jobs if job.command_id in held]
        return ready + self._go_on() if self._waits else ready

    def take_back(self, places: Sequence[Place] | None = None) -> list[Job]:
        """Those that wait, of these partitions or of all; they are the caller's again."""
        found = [w.job for w in self._waits if places is None or w.job.lies_in(places)]
        self._waits = [wait for wait in self._waits if wait.job not in found]
        return found

    def leave(self, remaining_ms: dict[Job, int]) -> None:
        """These go on here although their partitions are taken away, for so long at most."""
        self._leases.hold({job.command_id: ms for job, ms in remaining_ms.items() if ms > 0})
        self._left += remaining_ms

    def close(self) -> None:
        """Nothing goes on here any more."""
        self._leases.release([job.command_id for job in self._left])
        self._left = []

    def _wait(self, job: Job) -> Delayed:
        """A lease is never longer than the call may take, and nobody waits beyond the deadline."""
        task = job.task
        limit_ms = min(task.start_to_close_ms, task.deadline_ms - self._now_ms())
        return Delayed(job, self._monotonic() + limit_ms / 1000)

    def _go_on(self) -> list[Job]:
        now = self._monotonic()
        if now < self._ask_at:
            return []
        self._ask_at = now + ASK_MS / 1000
        held = self._leases.held([wait.job.command_id for wait in self._waits])
        due = [w.job for w in self._waits if w.job.command_id not in held or now >= w.until]
        try:
            found = self._core.results_of(due) if due else set()
        except Fatal:
            raise
        except LogFault as fault:
            logger.info("asking again", queue=self._core.queue, fault=str(fault))
            return []
        self._waits = [wait for wait in self._waits if wait.job not in due]
        for job in due:
            if job.command_id in found:
                self._drop(job)
        return [job for job in due if job.command_id not in found]

    def _release(self) -> None:
        """Not before the result is acknowledged: whoever sees the lease gone looks for it."""
        if not self._left:
            return
        ended = [job for job in self._left if not self._core.has(job)]
        if ended:
            self._leases.release([job.command_id for job in ended])
            self._left = [job for job in self._left if job not in ended]
