"""Whether a completion of an external job may be applied: it is awaited now, and comes with what became of it.

Nobody can know a job's id before it is awaited, since the id is drawn when the wait begins: so a completion that comes
for no open wait is late, repeated, or not of this session, and is refused.
"""

from __future__ import annotations

from ..events import records as r
from ..events.failures import JOB_FAILED
from ..events.replacing import replace
from ..events.state import PastJob, State
from ..events.verdicts import COMPLETED, EXPIRED, FAILED
from . import models as m

SHOWN_MAX = 200
"""Characters of a stranger's id in a sentence."""

_ENDED = {
    COMPLETED: "was completed by {actor}",
    FAILED: "was failed by {actor}",
    EXPIRED: "has expired",
}


def why_not(state: State, body: m.CompleteJob) -> tuple[str, str, str] | None:
    """The check that fails, its reason, and a sentence; nothing where the job is awaited and the rest fits."""
    if any(job.job_id == body.job_id for job in state.jobs):
        return _said(body)
    for past in reversed(state.past_jobs):
        if past.job_id == body.job_id:
            told = (
                f"job {body.job_id!r} {_how(past)}, and that stands: nobody waits for it any more"
            )
            return "ordering", f"job_{past.end}", told
    told = (
        f"no job {body.job_id[:SHOWN_MAX]!a} is awaited in this session: pass the id as it was handed out, "
        "to the session that handed it out"
    )
    return "freshness", "unknown_job", told


def completed(body: m.CompleteJob) -> r.JobCompleted | r.JobFailed:
    """The fact that follows; a failure is of our kind, whatever the sender calls it."""
    if body.failure is not None:
        return r.JobFailed(body.job_id, replace(body.failure, kind=JOB_FAILED))
    if body.result is None:
        raise ValueError(f"job {body.job_id!r} is completed with nothing: ask why_not first")
    return r.JobCompleted(body.job_id, body.result)


def _said(body: m.CompleteJob) -> tuple[str, str, str] | None:
    if (body.result is None) != (body.failure is None):
        return None
    came = "neither a result nor a failure" if body.result is None else "a result and a failure"
    return (
        "freshness",
        "wrong_completion",
        f"job {body.job_id!r} came with {came}: give one of the two",
    )


def _how(past: PastJob) -> str:
    told = _ENDED.get(past.end, "was withdrawn: its workflow went on without it")
    return told.format(actor=past.actor)
