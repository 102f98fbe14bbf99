"""Whether a worker may have lost its tasks without having heard of it: it was stopped, say, for longer than a session."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from .core import SESSION_TIMEOUT_MS
from .jobs import Job


class Hearing:
    """The intake hears; whoever makes calls asks, in any thread."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._heard_at = 0.0
        self._gaps = 0

    def hear(self, jobs: Sequence[Job] = ()) -> float:
        """The intake has spoken to its group, and these came of it. Counts a silence before it is over; gives the time."""
        now = self._monotonic()
        for job in jobs:
            job.gaps = self._gaps
        self._gaps += self._heard_at > 0 and now - self._heard_at > SESSION_TIMEOUT_MS / 1000
        self._heard_at = now
        return now

    def is_stale(self, job: Job) -> bool:
        """Whether others may have the job by now: the session may have been over since this was asked last for it."""
        silent_s = self._monotonic() - self._heard_at  # first: a silence that is over is counted
        before, job.gaps = job.gaps, self._gaps
        return silent_s > SESSION_TIMEOUT_MS / 1000 or before != job.gaps
