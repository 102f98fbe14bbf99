"""What each event means for the rows that people read: pure, one event in, changes out.

Every event touches its session's row; some touch one approval or one ledger row as well. No clock and no look-up:
what a change needs is in the event. A key that Postgres cannot hold raises `Unprojectable`, which becomes a gap.
"""

from __future__ import annotations

from ..events import records as r
from . import approvals, ledger, sessions
from .rows import SESSIONS, Change
from .sessions import RUNNING
from .values import Values

_WAKES = (r.ActivityCompleted, r.ActivityFailed, r.ActivityResolved)
"""What may end a session's wait, where the activity was uncertain."""

_Noted = (
    r.TimerSet
    | r.TimerCancelled
    | r.TurnContinued
    | r.VersionMarked
    | r.ArtifactRecorded
    | r.TriggerReceived
    | r.SignalReceived
    | r.SignalAwaited
    | r.InboxAwaited
    | r.WaitWithdrawn
)


def project(event: r.Event) -> list[Change]:
    """The changes that one event makes, the session's own first."""
    envelope, body = event.envelope, event.body
    session = Values(envelope, (envelope.tenant, envelope.session_id))
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
            return [sessions.said(session, envelope, body)]
        case (
            r.SessionCompleted()
            | r.SessionFailed()
            | r.CancellationRequested()
            | r.SessionCancelled()
        ):
            return [sessions.ended(session, body)]
        case (
            r.NondeterminismFound()
            | r.SessionHeld()
            | r.SessionReleased()
            | r.CommandParked()
            | r.CommandRefused()
        ):
            return [sessions.held(session, body)]
        case (
            r.ActivityRequested()
            | r.ActivityStarted()
            | r.ActivityProgressed()
            | r.ActivityReturned()
            | r.ActivityRetryScheduled()
            | r.ActivityRetried()
            | r.ActivityCompleted()
            | r.ActivityFailed()
            | r.ActivityUncertain()
            | r.ActivityResolved()
            | r.ActivityCancelled()
            | r.LateResultRecorded()
        ):
            if isinstance(body, _WAKES):
                session.row.update(RUNNING)
            return [session.change(SESSIONS), ledger.record(envelope, body)]
        case r.ApprovalRequested():
            return [session.change(SESSIONS), approvals.requested(envelope, body)]
        case r.ApprovalGranted() | r.ApprovalRejected() | r.ApprovalExpired():
            session.row.update(RUNNING)
            return [session.change(SESSIONS), approvals.decided(envelope, body)]
        case r.ApprovalWithdrawn():
            return [session.change(SESSIONS), approvals.decided(envelope, body)]
        case r.TimerFired() | r.SignalDelivered() | r.InboxTaken():
            session.row.update(RUNNING)
            return [session.change(SESSIONS)]
        case _:
            return [_noted(session, body)]


def _noted(session: Values, _body: _Noted) -> Change:
    """Facts that move the session's version and nothing that its row shows; a new kind of fact does not fit here."""
    return session.change(SESSIONS)
