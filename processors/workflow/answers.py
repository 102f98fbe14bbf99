"""What a fact says to whoever waits for it: the wait that it ends, and the value or the error it ends with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ...commands.children import failure_of
from ...events import freezing
from ...events import records as r
from ...events.failures import CHILD_EXPIRED, JOB_EXPIRED
from ...events.payloads import load_json
from ...events.state import MESSAGE
from ...events.verdicts import ANSWERED, APPROVED, EXPIRED, REJECTED
from .definitions import Message
from .errors import ActivityError, ChildError, JobError, Uncertain


@dataclass(frozen=True, slots=True)
class Ended:
    """How a proposal ended, which arguments stood in it then, and what was answered."""

    decision: str
    actor: str = ""
    comment: str = ""
    arguments: r.Payload | None = None
    answer: r.Payload | None = None


@freezing.dataclass(frozen=True, slots=True)
class Answer:
    """The end of one wait."""

    wait_id: str
    value: Any = None
    error: Exception | None = None


Asked = Callable[[str], r.EventBody | None]
"""The request that a wait began with, by the wait's id."""

Handed = Callable[[r.Payload], r.Payload]
"""The payload with its bytes in it, whichever way it was recorded."""


def answer_of(event: r.Event, asked: Asked, handed: Handed) -> Answer | None:
    """The answer in this fact; none where it answers nothing, as an uncertainty that waits for a person."""
    body, actor = event.body, event.envelope.actor
    match body:
        case r.ApprovalGranted():
            request = asked(body.proposal_id)
            shown = request.arguments if isinstance(request, r.ApprovalRequested) else None
            given = None if shown is None else handed(shown)
            return Answer(body.proposal_id, Ended(APPROVED, actor, body.comment, given))
        case r.ApprovalRejected():
            return Answer(body.proposal_id, Ended(REJECTED, actor, body.comment))
        case r.ApprovalAnswered():
            answer = handed(body.answer)
            return Answer(body.proposal_id, Ended(ANSWERED, actor, answer=answer))
        case r.ApprovalExpired():
            return Answer(body.proposal_id, Ended(EXPIRED))
        case r.TimerFired():
            return Answer(body.timer_id)
        case r.SignalDelivered():
            return Answer(body.wait_id, body.data)
        case r.JobCompleted():
            return Answer(body.job_id, body.result)
        case r.JobFailed() | r.JobExpired():
            job = asked(body.job_id)
            return _of_job(body, job) if isinstance(job, r.JobAwaited) else None
        case r.ChildCompleted():
            return Answer(body.child_id, body.result)
        case r.ChildFailed() | r.ChildCancelled() | r.ChildExpired():
            child = asked(body.child_id)
            return _of_child(body, child) if isinstance(child, r.ChildStarted) else None
        case r.InboxTaken():
            return Answer(body.wait_id, [_message(taken, handed) for taken in body.messages])
        case (
            r.ActivityCompleted()
            | r.ActivityFailed()
            | r.ActivityUncertain()
            | r.ActivityResolved()
        ):
            request = asked(body.activity_id)
            return _of_activity(body, request) if isinstance(request, r.ActivityRequested) else None
        case _:
            return None


def _of_job(body: r.JobFailed | r.JobExpired, job: r.JobAwaited) -> Answer:
    if isinstance(body, r.JobFailed):
        return Answer(body.job_id, error=JobError(job.name, body.failure))
    told = "nobody said in time what became of it"
    return Answer(body.job_id, error=JobError(job.name, r.Failure(JOB_EXPIRED, "", told, "")))


def _of_child(
    body: r.ChildFailed | r.ChildCancelled | r.ChildExpired, child: r.ChildStarted
) -> Answer:
    if isinstance(body, r.ChildExpired):
        failure = r.Failure(CHILD_EXPIRED, "", "it had not ended in time, and is cancelled", "")
    else:
        failure = failure_of(body)
    return Answer(body.child_id, error=ChildError(child.workflow, failure, body.child_id))


def read_message(
    message_id: str, actor: str, payload: r.Payload, trigger: str, reason: str
) -> Message:
    """A message as a workflow sees it; the payload has its bytes in it."""
    data = load_json(payload)
    text = data.get("text", "") if isinstance(data, dict) else data
    text = text if isinstance(text, str) else ""
    return Message(message_id, actor, text, data, trigger, reason)


def _message(taken: r.TakenMessage, handed: Handed) -> Message:
    return read_message(taken.message_id, taken.actor, handed(taken.message), MESSAGE, "")


def _of_activity(
    body: r.ActivityCompleted | r.ActivityFailed | r.ActivityUncertain | r.ActivityResolved,
    request: r.ActivityRequested,
) -> Answer | None:
    name, wait_id = request.name, body.activity_id
    match body:
        case r.ActivityCompleted():
            return Answer(wait_id, body.result)
        case r.ActivityFailed():
            return Answer(wait_id, error=ActivityError(name, body.failure))
        case r.ActivityUncertain():
            if request.on_uncertain != "raise":
                return None
            return Answer(wait_id, error=Uncertain(name, body.failure, key=request.idempotency_key))
        case r.ActivityResolved():
            if body.resolution == "completed":
                return Answer(
                    wait_id, body.result or r.Payload("json", b"null", None, b"", 4, None)
                )
            told = body.comment or "somebody found that it was not carried out"
            return Answer(wait_id, error=ActivityError(name, r.Failure("not_done", "", told, "")))
