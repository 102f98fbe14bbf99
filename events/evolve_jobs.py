"""What facts about external jobs mean for a session: which are awaited, and how the last ones ended."""

from __future__ import annotations

from . import records as r
from . import state as s
from .errors import Unfoldable
from .replacing import replace
from .state import State
from .verdicts import COMPLETED, EXPIRED, FAILED, WITHDRAWN

Job = r.JobAwaited | r.JobCompleted | r.JobFailed | r.JobExpired | r.JobWithdrawn

_ENDS = {
    r.JobCompleted: COMPLETED,
    r.JobFailed: FAILED,
    r.JobExpired: EXPIRED,
    r.JobWithdrawn: WITHDRAWN,
}


def evolve(state: State, status: str, body: Job, actor: str) -> State:
    """The state after one more fact about a job; `status` is where the fact leads."""
    if isinstance(body, r.JobAwaited):
        job = s.OpenJob(body.job_id, body.step, body.name, body.expires_at_ms, body.untrusted)
        return replace(state, jobs=(*state.jobs, job), steps=body.step)
    left = tuple(job for job in state.jobs if job.job_id != body.job_id)
    if len(left) == len(state.jobs):
        raise Unfoldable(f"job {body.job_id} is over, but was not awaited")
    told = isinstance(body, r.JobCompleted | r.JobFailed)
    if told:
        state = _tainted(state, next(job for job in state.jobs if job.job_id == body.job_id))
    past = s.PastJob(body.job_id, _ENDS[type(body)], actor if told else "")
    kept = (*state.past_jobs, past)[-s.PAST_JOBS_MAX :]
    return replace(state, status=status, jobs=left, past_jobs=kept)


def _tainted(state: State, job: s.OpenJob) -> State:
    """What somebody said of a job that nobody vouches for came into the session, for good."""
    known = state.tainted_by
    if not job.untrusted or job.name in known or len(known) >= s.TAINTS_MAX:
        return state
    return replace(state, tainted_by=(*known, job.name))
