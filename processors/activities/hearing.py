"""Whether a worker may have lost its tasks without having heard of it: it was stopped, say, for longer than a session.

What may be called twice is called all the same. What can be looked up is looked up first, and what may run once does not
begin any more when its deadline is over.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...events.contracts import LOOKUP
from .core import SESSION_TIMEOUT_MS
from .jobs import Job

REST_MS = 200
"""A worker that may have lost a task rests so long before it asks again: two polls, in which it hears whether it has."""


class MustLook(Exception):
    """The worker may have lost the task since it last made sure, so that the call may have been made by another."""


class TooLate(Exception):
    """What may run once is past its deadline: it is said to be uncertain by now, and must not begin."""


def make_sure(
    job: Job, *, is_over: Callable[[Job], bool], is_stale: Callable[[Job], bool], now: float
) -> None:
    """That the call may still be made, however long ago that was asked: the process may have been stopped since.

    To be asked just before the call, in its own thread. Raises `TooLate` or `MustLook`; `now` by the worker's own clock.
    """
    if job.once and _is_too_late(job, is_over, now):
        raise TooLate
    if job.task.contract == LOOKUP and is_stale(job):
        raise MustLook


def _is_too_late(job: Job, is_over: Callable[[Job], bool], now: float) -> bool:
    """By the log, or by this worker's own clock since it took the task: it may have been stopped in between."""
    if job.log_ms is None:
        return is_over(job)
    return is_over(job) or job.log_ms + (now - job.taken_at) * 1000 >= job.task.deadline_ms


class Hearing:
    """The intake hears; whoever makes calls asks, in any thread."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._heard_at = 0.0
        self._gaps = 0

    def hear(self, jobs: Sequence[Job] = ()) -> float:
        """The intake has spoken to its group, and took these. Counts a silence before it is over; gives the time."""
        now = self._monotonic()
        for job in jobs:
            job.gaps, job.taken_at = self._gaps, now
        self._gaps += self._heard_at > 0 and now - self._heard_at > SESSION_TIMEOUT_MS / 1000
        self._heard_at = now
        return now

    def is_stale(self, job: Job) -> bool:
        """Whether others may have the job by now: the session may have been over since this was asked last for it."""
        silent_s = self._monotonic() - self._heard_at  # first: a silence that is over is counted
        before, job.gaps = job.gaps, self._gaps
        return silent_s > SESSION_TIMEOUT_MS / 1000 or before != job.gaps
