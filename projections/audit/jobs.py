"""Checks of external jobs: each is awaited once and ends once, none expires early, and none outlives its turn."""

from __future__ import annotations

from collections.abc import Iterator

from ...events import records as r
from .evidence import Violation
from .history import Fact, History, of
from .invariants import JOBS

_TURN_ENDS = (
    r.TurnContinued | r.TurnCompleted | r.SessionCompleted | r.SessionFailed | r.SessionReset
)
_TOLD = r.JobCompleted | r.JobFailed
_JOB_ENDS = _TOLD | r.JobExpired | r.JobWithdrawn


def jobs(history: History) -> Iterator[Violation]:
    """One end for each job that was awaited, before whoever waits for it has ended; expired only once its time was over."""
    for facts in history.sessions.values():
        awaited: dict[str, int] = {}
        ended: set[str] = set()
        for fact in facts:
            body = fact.event.body
            if isinstance(body, r.JobAwaited):
                if body.job_id in awaited or body.job_id in ended:
                    yield of(fact, JOBS, f"job {body.job_id} is awaited for the second time")
                awaited[body.job_id] = body.expires_at_ms
            elif isinstance(body, _JOB_ENDS):
                yield from _ends(fact, body, awaited, ended)
                awaited.pop(body.job_id, None)
                ended.add(body.job_id)
            elif isinstance(body, _TURN_ENDS | r.SessionCancelled) and awaited:
                told = f"{', '.join(awaited)} awaited, and {type(body).__name__} ends whoever waits"
                yield of(fact, JOBS, told)
                awaited.clear()


def _ends(
    fact: Fact, body: _JOB_ENDS, awaited: dict[str, int], ended: set[str]
) -> Iterator[Violation]:
    now_ms = fact.event.envelope.at_ms
    if body.job_id not in awaited:
        how = "had ended before" if body.job_id in ended else "was never awaited"
        yield of(fact, JOBS, f"job {body.job_id} ends as {type(body).__name__}, and {how}")
        return
    left_ms = awaited[body.job_id] - now_ms
    if isinstance(body, r.JobExpired) and left_ms > 0:
        yield of(fact, JOBS, f"job {body.job_id} expired {left_ms} ms early")
