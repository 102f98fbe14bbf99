"""What an event sends out besides itself: a task for workers, an outcome for the world. Pure."""

from __future__ import annotations

from ..commands.check import Refusal
from ..commands.models import Command
from ..events import records as r
from ..events.keys import effect_key
from ..events.state import State

START_BY_MS = 60_000
"""How long the first attempt that uses an approval may wait for a worker."""

START_BY_DOUBLED_MAX = 10


def task_of(
    event: r.Event, requested: r.Event | None, state: State | None
) -> r.ActivityTask | None:
    """The attempt that this event dispatches: as it was requested, with its own number; `state` is after the event.

    None for one that is withheld.
    """
    if requested is None or not isinstance(requested.body, r.ActivityRequested):
        return None
    if getattr(event.body, "withheld_ms", None) is not None:
        return None
    body, envelope = requested.body, requested.envelope
    activities = state.activities if state is not None else ()
    running = next((a for a in activities if a.activity_id == body.activity_id), None)
    ages = running is not None and running.grant is not None
    ruled = ages or getattr(event.body, "policy_hash", None) is not None
    attempt = body.attempt if running is None else running.attempt
    return r.ActivityTask(
        tenant=envelope.tenant,
        session_id=envelope.session_id,
        activity_id=body.activity_id,
        attempt=attempt,
        name=body.name,
        queue=body.queue,
        contract=body.contract,
        arguments=body.arguments,
        idempotency_key=body.idempotency_key,
        start_to_close_ms=body.start_to_close_ms,
        deadline_ms=body.deadline_ms if running is None else running.deadline_ms,
        event_seq=event.envelope.seq,
        actor=envelope.actor,
        on_behalf_of=envelope.on_behalf_of,
        settle_ms=body.settle_ms,
        heartbeat_ms=body.heartbeat_ms,
        progress=None if running is None else running.progress,
        start_by_ms=event.envelope.at_ms + _patience_ms(attempt) if ages else None,
        control_offset=event.envelope.control_offset if ruled else None,
    )


def _patience_ms(attempt: int) -> int:
    """Longer with each attempt: behind a backlog of hours, one that was given back as stale must run at last."""
    return START_BY_MS << min(attempt - 1, START_BY_DOUBLED_MAX)


def over_of(event: r.Event) -> r.AttemptOver | None:
    """What workers should stop, if this event ends an attempt that they did not report themselves."""
    match event.body:
        case r.ActivityCancelled(attempt=attempt) as body:
            reason = body.reason
        case r.ActivityRetryScheduled(worker="") as body:
            attempt, reason = body.attempt - 1, body.failure.message
        case r.ActivityFailed(worker="") | r.ActivityUncertain(worker="") as body:
            attempt, reason = body.attempt, body.failure.message
        case _:
            return None
    envelope = event.envelope
    own = effect_key(envelope.tenant, envelope.session_id, body.activity_id)
    return r.AttemptOver(
        envelope.tenant, envelope.session_id, body.activity_id, attempt, own, reason
    )


def outcome_of(event: r.Event) -> r.Outcome | None:
    """What the world outside should know of this event, if anything."""
    match event.body:
        case r.ReplySent() as body:
            return _outcome(event, "reply", turn=body.turn, message=body.message)
        case r.ApprovalRequested() as body:
            return r.Outcome(
                *_place(event),
                kind="approval_wanted",
                turn=body.turn,
                message=body.arguments,
                command_id=None,
                reason=body.approver,
                detail=body.name,
                proposal_id=body.proposal_id,
                digest=body.digest,
                expires_at_ms=body.expires_at_ms,
            )
        case r.ActivityUncertain() as body:
            told = f"activity {body.activity_id}: {body.failure.message}"
            return _outcome(event, "uncertain", reason=body.failure.kind, detail=told)
        case r.CommandRefused() as body:
            return _outcome(event, "refused", reason=body.reason, detail=body.detail, command=True)
        case r.SessionHeld() as body:
            return _outcome(event, "held", reason=body.reason, detail=body.detail)
        case r.NondeterminismFound() as body:
            told = f"step {body.step}: history holds {body.expected}, the code gave {body.actual}"
            return _outcome(event, "held", turn=body.turn, reason="nondeterminism", detail=told)
        case r.SessionCompleted() as body:
            return _outcome(event, "completed", turn=body.turn, message=body.outcome)
        case r.SessionFailed() as body:
            failure = body.failure
            return _outcome(
                event, "failed", turn=body.turn, reason=failure.kind, detail=failure.message
            )
        case r.SessionCancelled():
            return _outcome(event, "cancelled")
        case _:
            return None


def refused_outcome(command: Command, refusal: Refusal, at_ms: int) -> r.Outcome:
    """The outcome of a refusal that left no event."""
    return r.Outcome(
        tenant=command.header.tenant,
        session_id=command.header.session_id,
        seq=None,
        at_ms=at_ms,
        kind="refused",
        turn=None,
        message=None,
        command_id=command.header.command_id,
        reason=refusal.reason,
        detail=refusal.detail,
        proposal_id=None,
        digest=None,
        expires_at_ms=None,
    )


def _place(event: r.Event) -> tuple[str, str, int, int]:
    envelope = event.envelope
    return envelope.tenant, envelope.session_id, envelope.seq, envelope.at_ms


def _outcome(
    event: r.Event,
    kind: str,
    *,
    turn: int | None = None,
    message: r.Payload | None = None,
    reason: str | None = None,
    detail: str | None = None,
    command: bool = False,
) -> r.Outcome:
    return r.Outcome(
        *_place(event),
        kind=kind,
        turn=turn,
        message=message,
        command_id=event.envelope.cause.command_id if command else None,
        reason=reason,
        detail=detail,
        proposal_id=None,
        digest=None,
        expires_at_ms=None,
    )
