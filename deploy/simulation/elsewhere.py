"""What must hold of jobs that others do: what they said is what was recorded, for the job that they meant, while it was awaited."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ...commands import models as m
from ...events import records as r
from ...events.failures import JOB_FAILED
from ...events.records import Event

HOLDS = r.SessionHeld | r.NondeterminismFound


def jobs(events: Sequence[Event], commands: Mapping[tuple[int, int], m.Command]) -> Iterator[str]:
    """Each end that was told is that of its command, and came before the job had expired, or while its session was held."""
    expires: dict[tuple[str, str], int] = {}
    held: set[str] = set()
    for event in events:
        body, envelope = event.body, event.envelope
        session = envelope.session_id
        if isinstance(body, HOLDS):
            held.add(session)
        elif isinstance(body, r.JobAwaited):
            expires[session, body.job_id] = body.expires_at_ms
            held.discard(session)
        elif isinstance(body, r.JobCompleted | r.JobFailed):
            asked = commands.get((envelope.cause.partition, envelope.cause.offset))
            said = None if asked is None else asked.body
            late = envelope.at_ms >= expires.get((session, body.job_id), 0)
            if late and session not in held:
                yield f"job {body.job_id} ends as {type(body).__name__} when it has expired"
            if isinstance(said, m.ReleaseSession):
                continue  # it was kept, and its command is in the history
            if not isinstance(said, m.CompleteJob) or said.job_id != body.job_id:
                yield f"job {body.job_id} ends by {said!r}, which is about another"
            elif not _is_what_was_said(body, said):
                yield f"job {body.job_id} ends as {body!r}, said was {said!r}"


def _is_what_was_said(body: r.JobCompleted | r.JobFailed, said: m.CompleteJob) -> bool:
    if isinstance(body, r.JobCompleted):
        return body.result == said.result
    told = said.failure
    mine = (body.failure.kind, body.failure.type, body.failure.message)
    return told is not None and mine == (JOB_FAILED, told.type, told.message)
