"""Commands: each is signed, handed to Kafka and answered with 202; what becomes of it, its status URL tells."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Path, Query, Request, Response
from fastapi.responses import JSONResponse

from ...commands.client import Client
from ...commands.models import CommandBody, CompleteJob
from ...events.keys import session_of_job
from . import bodies as b
from .asking import Approver, Asker, Deliverer, Follower, Operator, Shared, takes
from .delivering import Asked, deliver, keyed_id
from .fates import fate_of
from .principals import Principal
from .problems import Problem
from .resetting import state_left
from .terms import Said

JOB_ID_MAX = 200
"""Characters of a session's id, and of what follows it in that of a job."""

ANSWERS: dict[int | str, dict[str, Any]] = {
    200: {"model": b.Fate, "description": "Its verdict, where `Prefer: wait` asked for it."},
    202: {"model": b.Accepted, "description": "The log has it."},
}

router = APIRouter(prefix="/v1", tags=["commands"], responses=ANSWERS)

status = APIRouter(prefix="/v1", tags=["commands"])


class Asking:
    """What all commands need: the services, the terms, and the address that a key is good for."""

    def __init__(self, request: Request, shared: Shared, terms: Said) -> None:
        self._address = f"{request.method} {request.url.path}"
        self._shared, self._terms = shared, terms

    def client(self, who: Principal) -> Client:
        """What makes the bodies of this actor's commands."""
        return self._shared.client(who)

    def id(self, who: Principal) -> str | None:
        """The command's id; null where the caller gave no key."""
        key = self._terms.key
        return None if key is None else keyed_id(who, self._address, key)

    def deliver(
        self, who: Principal, session_id: str, body: CommandBody, command_id: str | None = None
    ) -> JSONResponse:
        """See `delivering.deliver`; the id follows from the key, unless one is given."""
        id_ = command_id or self.id(who)
        return deliver(self._shared, who, Asked(session_id, body, self._terms, id_, reused))


Ask = Annotated[Asking, Depends()]


def reused() -> Problem:
    """The answer to a key that stands for another command."""
    return Problem(
        422,
        "idempotency_key_reused",
        "this Idempotency-Key was used here for another command: give each its own, or ask for the same again",
    )


def completion(
    client: Client, job_id: str, result: Any, failure: b.JobFailure | None, *, given: bool
) -> CompleteJob:
    """The body of a completion; `Problem` 422 where it says both, or neither."""
    if (failure is not None) == given:
        came = "a result and a failure" if given else "neither a result nor a failure"
        told = f"job {job_id!a} came with {came}: give one of the two, and null as the result of one that has none"
        raise Problem(422, "wrong_completion", told)
    if failure is not None:
        return client.failed_job_body(job_id, failure.message, failure.type)
    return client.job_body(job_id, result)


def _why(said: b.Reason | None) -> str:
    """A reason may be left out, and with it the whole body."""
    return "" if said is None else said.reason


@router.post("/sessions", status_code=202)
def open_session(said: b.Opening, ask: Ask, asker: Asker) -> JSONResponse:
    """Opens a session of a workflow."""
    session_id, body, command_id = ask.client(asker).opening(
        said.workflow, said.session_id or ask.id(asker), attributes=said.attributes
    )
    return ask.deliver(asker, session_id, body, ask.id(asker) or command_id)


@router.post("/sessions/{session_id}/messages", status_code=202)
def send_message(session_id: str, said: b.Message, ask: Ask, asker: Asker) -> JSONResponse:
    """Adds a message to the session's queue."""
    return ask.deliver(asker, session_id, ask.client(asker).message(said.message))


@router.post("/sessions/{session_id}/signals", status_code=202)
def send_signal(session_id: str, said: b.Signal, ask: Ask, asker: Asker) -> JSONResponse:
    """Hands a named piece of data to the turn that asks for it."""
    return ask.deliver(asker, session_id, ask.client(asker).signal_body(said.name, said.data))


@router.post("/sessions/{session_id}/turns", status_code=202)
def start_turn(session_id: str, said: b.Trigger, ask: Ask, asker: Asker) -> JSONResponse:
    """Asks for a turn without a message."""
    body = ask.client(asker).trigger_body(said.trigger, said.reason, said.data)
    return ask.deliver(asker, session_id, body)


@router.post("/sessions/{session_id}/artifacts", status_code=202)
def change_artifact(session_id: str, said: b.Change, ask: Ask, asker: Asker) -> JSONResponse:
    """Says that a thing outside has another version now; what was proposed from the one before is void."""
    body = ask.client(asker).artifact_body(said.artifact_id, said.version)
    return ask.deliver(asker, session_id, body)


@router.post("/sessions/{session_id}/approvals/{proposal_id}/decision", status_code=202)
def decide_approval(
    session_id: str, proposal_id: str, said: b.Decision, ask: Ask, approver: Approver
) -> JSONResponse:
    """Decides the proposal whose action has this digest."""
    body = ask.client(approver).decision_body(
        proposal_id, said.digest, said.decision, said.comment, said.data
    )
    return ask.deliver(approver, session_id, body)


@router.post("/sessions/{session_id}/cancel", status_code=202)
def cancel(
    session_id: str, ask: Ask, operator: Operator, said: b.Reason | None = None
) -> JSONResponse:
    """Stops the session for good."""
    return ask.deliver(operator, session_id, ask.client(operator).cancel_body(_why(said)))


@router.post("/sessions/{session_id}/release", status_code=202)
def release(
    session_id: str, ask: Ask, operator: Operator, said: b.Reason | None = None
) -> JSONResponse:
    """Lets a held session go on from where it was held."""
    return ask.deliver(operator, session_id, ask.client(operator).release_body(_why(said)))


@router.post("/sessions/{session_id}/recover", status_code=202)
def recover(
    session_id: str, ask: Ask, operator: Operator, said: b.Recovery | None = None
) -> JSONResponse:
    """Gives up an attempt that has stalled, or drives a session again that does not go on."""
    said = said or b.Recovery()
    body = ask.client(operator).recovery_body(
        said.reason, activity_id=said.activity_id, attempt=said.attempt
    )
    return ask.deliver(operator, session_id, body)


@router.post("/sessions/{session_id}/reset", status_code=202)
def reset(
    session_id: str, said: b.Reset, ask: Ask, operator: Operator, shared: Shared
) -> JSONResponse:
    """Takes the session back to where a turn had ended; nothing is removed from the log, and what was done stays done."""
    state = state_left(shared, operator, session_id, said.to_turn)
    body = ask.client(operator).reset_body(
        said.to_turn, state, answers_again=said.answers_again, reason=said.reason
    )
    return ask.deliver(operator, session_id, body)


@router.post("/sessions/{session_id}/pin", status_code=202)
def pin(session_id: str, said: b.Pin, ask: Ask, operator: Operator) -> JSONResponse:
    """Keeps the session's turns on one version of its workflow, from the next on."""
    return ask.deliver(
        operator, session_id, ask.client(operator).pin_body(said.version, said.reason)
    )


@router.post("/sessions/{session_id}/activities/{activity_id}/resolution", status_code=202)
def resolve_activity(
    session_id: str, activity_id: str, said: b.Resolution, ask: Ask, operator: Operator
) -> JSONResponse:
    """Says what became of an activity of which nobody knows."""
    body = ask.client(operator).resolution_body(
        activity_id, said.resolution, said.result, said.comment
    )
    return ask.deliver(operator, session_id, body)


@router.post("/jobs/{job_id}/complete", status_code=202)
def complete_job(
    job_id: Annotated[str, Path(max_length=JOB_ID_MAX)],
    said: b.Completion,
    ask: Ask,
    deliverer: Deliverer,
) -> JSONResponse:
    """Says what became of an external job: its result, or why it will not be done."""
    given = "result" in said.model_fields_set
    body = completion(ask.client(deliverer), job_id, said.result, said.failure, given=given)
    return ask.deliver(deliverer, session_of_job(job_id), body)


@status.get(
    "/sessions/{session_id}/commands/{command_id}", dependencies=[Depends(takes("position"))]
)
def command_status(
    session_id: str,
    command_id: str,
    shared: Shared,
    asker: Follower,
    response: Response,
    position: Annotated[
        str | None, Query(description="The 'command_position' of the answer, such as 0:17.")
    ] = None,
) -> b.Fate:
    """What became of a command: of any for whoever sees sessions, else of one's own."""
    found = fate_of(shared, asker, session_id, command_id, position)
    if found.position:
        response.headers["Wakeful-Position"] = found.position
    return found
