"""What each event means for the rows that people read: pure, one event in, changes out.

Every event touches its session's row; some touch one approval or one ledger row as well. No clock and no look-up:
what a change needs is in the event. A key that Postgres cannot hold raises `Unprojectable`, which becomes a gap.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from ..events import records as r
from ..events.errors import Rejected
from ..events.state import Status
from . import escaping
from .rows import APPROVALS, LEDGER, SESSIONS, Change, Row

_NONE_LEFT = {"waiting_for": "[]", "next_valid": "[]"}
_RUNNING = {"status": Status.RUNNING, "waiting_for": "[]"}


class Unprojectable(Rejected):
    """This event cannot become rows; it is recorded as a gap and the projector goes on."""


def project(event: r.Event) -> list[Change]:
    """The changes that one event makes, the session's own first."""
    envelope, body = event.envelope, event.body
    session = _Values(envelope, (envelope.tenant, envelope.session_id))
    session.row["updated_at_ms"] = envelope.at_ms
    match body:
        case (
            r.SessionOpened()
            | r.MessageReceived()
            | r.TurnStarted()
            | r.ReplySent()
            | r.SessionWaiting()
            | r.TurnCompleted()
        ):
            return [_conversation(session, envelope, body)]
        case (
            r.SessionCompleted()
            | r.SessionFailed()
            | r.CancellationRequested()
            | r.SessionCancelled()
        ):
            return [_ending(session, body)]
        case (
            r.NondeterminismFound()
            | r.SessionHeld()
            | r.SessionReleased()
            | r.CommandParked()
            | r.CommandRefused()
        ):
            return [_hold(session, body)]
        case (
            r.ActivityRequested()
            | r.ActivityCompleted()
            | r.ActivityFailed()
            | r.ActivityCancelled()
            | r.ActivityRetryScheduled()
            | r.ActivityRetried()
            | r.ActivityReturned()
            | r.ActivityUncertain()
            | r.ActivityResolved()
            | r.LateResultRecorded()
        ):
            if isinstance(body, _WAKES):
                session.row.update(_RUNNING)
            return [session.change(SESSIONS), _activity(envelope, body)]
        case r.ApprovalRequested():
            return [session.change(SESSIONS), _requested(envelope, body)]
        case r.ApprovalGranted() | r.ApprovalRejected() | r.ApprovalExpired():
            session.row.update(_RUNNING)
            return [session.change(SESSIONS), _decided(envelope, body)]
        case r.ApprovalWithdrawn():
            return [session.change(SESSIONS), _decided(envelope, body)]
        case r.TimerFired() | r.SignalDelivered() | r.InboxTaken():
            session.row.update(_RUNNING)
            return [session.change(SESSIONS)]
        case _:
            return [_noted(session, body)]


_Noted = (
    r.TimerSet
    | r.TimerCancelled
    | r.ActivityStarted
    | r.ActivityProgressed
    | r.TurnContinued
    | r.VersionMarked
    | r.ArtifactRecorded
    | r.TriggerReceived
    | r.SignalReceived
    | r.SignalAwaited
    | r.InboxAwaited
    | r.WaitWithdrawn
)


def _noted(session: _Values, _body: _Noted) -> Change:
    """Facts that move the session's version and nothing that its row shows; a new kind of fact does not fit here."""
    return session.change(SESSIONS)


_WAKES = (r.ActivityCompleted, r.ActivityFailed, r.ActivityResolved)
"""What may end a session's wait, where the activity was uncertain."""


class _Values:
    """The values of one change while it is put together."""

    __slots__ = ("escaped", "key", "row")

    def __init__(self, envelope: r.Envelope, key: tuple[str, ...]) -> None:
        if not all(map(escaping.is_plain, key)):
            raise Unprojectable(f"the key {key!r} holds text that postgres cannot")
        self.key = key
        self.row: Row = {"seq": envelope.seq}
        self.escaped: tuple[str, ...] = ()

    def put(self, column: str, held: escaping.Held) -> None:
        self.row[column] = held.value
        if held.escaped:
            self.escaped += (column,)

    def text(self, column: str, value: str | None) -> None:
        if value is None or escaping.is_plain(value):
            self.row[column] = value
        else:
            self.put(column, escaping.text(value))

    def change(
        self,
        table: str,
        *,
        raises: str | None = None,
        creates: bool = False,
        releases: bool = False,
    ) -> Change:
        return Change(table, self.key, self.row, raises, self.escaped, creates, releases)


def _conversation(
    session: _Values,
    envelope: r.Envelope,
    body: r.SessionOpened
    | r.MessageReceived
    | r.TurnStarted
    | r.ReplySent
    | r.SessionWaiting
    | r.TurnCompleted,
) -> Change:
    row = session.row
    match body:
        case r.MessageReceived():
            return session.change(SESSIONS, raises="messages")
        case r.ReplySent():
            session.put("last_reply", escaping.payload(body.message))
        case r.SessionWaiting():
            row["status"] = Status.WAITING
            _owed(session, body)
        case r.TurnStarted():
            row.update(_RUNNING, resting_status=Status.RUNNING, turn=body.turn)
            session.text("workflow", body.workflow)
            row["workflow_version"] = body.workflow_version
            session.put("versions", escaping.value({v.name: v.version for v in body.versions}))
        case r.TurnCompleted():
            row["status"] = row["resting_status"] = Status.SUSPENDED
            _owed(session, body)
        case r.SessionOpened():
            row["status"] = row["resting_status"] = Status.OPENED
            row["opened_at_ms"] = envelope.at_ms
            row["turn"] = 0
            session.text("opened_by", envelope.actor)
            session.text("workflow", body.workflow)
    return session.change(SESSIONS)


def _owed(session: _Values, body: r.SessionWaiting | r.TurnCompleted) -> None:
    owed = [
        {
            "kind": o.kind,
            "id": o.id,
            "name": o.name,
            "expires_at_ms": o.expires_at_ms,
            "expiry": o.expiry,
        }
        for o in body.obligations
    ]
    session.put("waiting_for", escaping.value(owed))
    valid = [
        {"command": n.command, "allowed": n.allowed, "reason": n.reason} for n in body.next_valid
    ]
    session.put("next_valid", escaping.value(valid))


def _ending(
    session: _Values,
    body: r.SessionCompleted | r.SessionFailed | r.CancellationRequested | r.SessionCancelled,
) -> Change:
    row = session.row
    match body:
        case r.SessionCompleted():
            row.update(_NONE_LEFT, status=Status.COMPLETED)
            session.put("outcome", escaping.payload(body.outcome))
        case r.SessionFailed():
            row.update(_NONE_LEFT, status=Status.FAILED)
            session.put("failure", escaping.value(_failure(body.failure)))
        case r.CancellationRequested():
            session.text("cancel_reason", body.reason)
        case r.SessionCancelled():
            row.update(_NONE_LEFT, status=Status.CANCELLED, held_reason=None, held_detail=None)
    return session.change(SESSIONS)


def _hold(
    session: _Values,
    body: r.NondeterminismFound
    | r.SessionHeld
    | r.SessionReleased
    | r.CommandParked
    | r.CommandRefused,
) -> Change:
    row = session.row
    match body:
        case r.CommandRefused():
            return session.change(SESSIONS, raises="refusals")
        case r.SessionHeld():
            row["status"] = Status.RECOVERING
            session.text("held_reason", body.reason)
            session.text("held_detail", body.detail)
        case r.NondeterminismFound():
            row["status"] = Status.RECOVERING
            row["held_reason"] = "nondeterminism"
            told = (
                f"turn {body.turn}, step {body.step}: expected {body.expected}, got {body.actual}"
            )
            session.text("held_detail", told)
        case r.SessionReleased():
            row.update(held_reason=None, held_detail=None, waiting_for="[]")
            return session.change(SESSIONS, releases=True)
        case r.CommandParked():
            pass  # it is decided on release, and its events then say what came of it
    return session.change(SESSIONS)


def _activity(
    envelope: r.Envelope,
    body: r.ActivityRequested
    | r.ActivityCompleted
    | r.ActivityFailed
    | r.ActivityCancelled
    | r.ActivityRetryScheduled
    | r.ActivityRetried
    | r.ActivityReturned
    | r.ActivityUncertain
    | r.ActivityResolved
    | r.LateResultRecorded,
) -> Change:
    ledger = _Values(envelope, (envelope.tenant, envelope.session_id, body.activity_id))
    row = ledger.row
    match body:
        case r.LateResultRecorded():
            return ledger.change(LEDGER, raises="late_results")
        case r.ActivityRequested():
            _intent(ledger, envelope, body)
            return ledger.change(LEDGER, creates=True)
        case r.ActivityRetryScheduled():
            row["status"] = "retrying"
            ledger.put("failure", escaping.value(_failure(body.failure)))
            ledger.text("worker", body.worker)
        case r.ActivityRetried():
            row.update(status="requested", attempts=body.attempt)
        case r.ActivityCompleted():
            row.update(status="completed", attempts=body.attempt, settled_at_ms=envelope.at_ms)
            row.update(result_digest=body.result.digest.hex(), failure=None)
            ledger.text("worker", body.worker)
        case r.ActivityFailed():
            row.update(status="failed", attempts=body.attempt, settled_at_ms=envelope.at_ms)
            ledger.put("failure", escaping.value(_failure(body.failure)))
            ledger.text("worker", body.worker)
        case r.ActivityReturned():
            row.update(status="requested", attempts=body.attempt + 1)
        case r.ActivityUncertain():
            row.update(status="uncertain", attempts=body.attempt)
            ledger.put("failure", escaping.value(_failure(body.failure)))
            ledger.text("worker", body.worker)
        case r.ActivityResolved():
            row.update(status=body.resolution, settled_at_ms=envelope.at_ms)
            if body.result is not None:
                row.update(result_digest=body.result.digest.hex(), failure=None)
        case r.ActivityCancelled():
            row.update(status="cancelled", attempts=body.attempt, settled_at_ms=envelope.at_ms)
            ledger.text("cancel_reason", body.reason)
    return ledger.change(LEDGER)


def _failure(failure: r.Failure) -> dict[str, Any]:
    """A failure as people read it; the tool's wish to wait only where it had one."""
    told = asdict(failure)
    if failure.retry_after_ms is None:
        del told["retry_after_ms"]
    return told


def _intent(ledger: _Values, envelope: r.Envelope, body: r.ActivityRequested) -> None:
    ledger.row.update(
        turn=body.turn,
        step=body.step,
        digest=body.digest.hex(),
        approval=body.approval,
        attempts=body.attempt,
        status="requested",
        requested_at_ms=envelope.at_ms,
        deadline_ms=body.deadline_ms,
    )
    ledger.text("action", body.name)
    ledger.text("queue", body.queue)
    ledger.text("contract", body.contract)
    ledger.text("idempotency_key", body.idempotency_key)
    ledger.text("asked_by", envelope.actor)
    ledger.text("on_behalf_of", envelope.on_behalf_of)
    ledger.text("proposal_id", body.proposal_id)


def _requested(envelope: r.Envelope, body: r.ApprovalRequested) -> Change:
    approval = _Values(envelope, (envelope.tenant, envelope.session_id, body.proposal_id))
    approval.row.update(
        turn=body.turn,
        step=body.step,
        digest=body.digest.hex(),
        status="requested",
        requested_at_ms=envelope.at_ms,
        expires_at_ms=body.expires_at_ms,
    )
    approval.text("action", body.name)
    approval.text("contract", body.contract)
    approval.put("arguments", escaping.payload(body.arguments))
    approval.text("approver", body.approver)
    return approval.change(APPROVALS, creates=True)


def _decided(
    envelope: r.Envelope,
    body: r.ApprovalGranted | r.ApprovalRejected | r.ApprovalExpired | r.ApprovalWithdrawn,
) -> Change:
    approval = _Values(envelope, (envelope.tenant, envelope.session_id, body.proposal_id))
    approval.row["decided_at_ms"] = envelope.at_ms
    match body:
        case r.ApprovalGranted() | r.ApprovalRejected():
            approval.row["status"] = (
                "granted" if isinstance(body, r.ApprovalGranted) else "rejected"
            )
            approval.text("decided_by", envelope.actor)
            approval.text("decided_on_behalf_of", envelope.on_behalf_of)
            approval.text("comment", body.comment)
        case r.ApprovalExpired():
            approval.row["status"] = "expired"
        case r.ApprovalWithdrawn():
            approval.row["status"] = "withdrawn"
            approval.text("comment", body.reason)
    return approval.change(APPROVALS)
