"""What facts about external jobs mean for their rows: one each, from when it was awaited to how it ended."""

from __future__ import annotations

from ..events import records as r
from .rows import JOBS, Change
from .values import Values

Job = r.JobAwaited | r.JobCompleted | r.JobFailed | r.JobExpired | r.JobWithdrawn


def record(envelope: r.Envelope, body: Job) -> Change:
    """The change of the job's row."""
    job = Values(envelope, body.job_id)
    if isinstance(body, r.JobAwaited):
        job.row.update(
            turn=body.turn,
            step=body.step,
            status="awaited",
            awaited_at_ms=envelope.at_ms,
            expires_at_ms=body.expires_at_ms,
        )
        job.text("name", body.name)
        return job.change(JOBS, creates=True)
    job.row["ended_at_ms"] = envelope.at_ms
    match body:
        case r.JobCompleted():
            job.row.update(status="completed", result_digest=body.result.digest.hex())
            job.text("ended_by", envelope.actor)
        case r.JobFailed():
            job.row["status"] = "failed"
            job.failure("failure", body.failure)
            job.text("ended_by", envelope.actor)
        case r.JobExpired():
            job.row["status"] = "expired"
        case r.JobWithdrawn():
            job.row["status"] = "withdrawn"
    return job.change(JOBS)
