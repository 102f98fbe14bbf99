"""What each event means for the rows that people read: pure, one event in, changes out.

Every event touches its session's row and that of the command behind it; some touch an approval, a timer or a ledger row
as well. No clock and no look-up: what a change needs is in the event. A key that Postgres cannot hold raises `Unprojectable`, which becomes a gap.
"""

from __future__ import annotations

from ..events import records as r
from . import approvals, attributes, children, jobs, ledger, outcomes, resources, sessions, timers
from .rows import SESSIONS, Change
from .sessions import WAITS_FOR_NOTHING
from .values import Values

_WAKES = frozenset({r.ActivityCompleted, r.ActivityFailed, r.ActivityResolved})
"""What may end a session's wait, where the activity was uncertain."""

_Noted = (
    r.TurnContinued
    | r.VersionMarked
    | r.ArtifactRecorded
    | r.CompensationsReleased
    | r.ArtifactChanged
    | r.TriggerReceived
    | r.SignalReceived
    | r.SignalAwaited
    | r.InboxAwaited
    | r.WaitWithdrawn
    | r.SessionPinned
    | r.RunStarted
)

_Told = sessions.Said | sessions.Ended | sessions.Held | r.SignalDelivered | r.InboxTaken | _Noted


def project(event: r.Event) -> list[Change]:
    """The changes that one event makes: the session's own, its command's, then any other."""
    envelope, body = event.envelope, event.body
    session = Values(envelope)
    session.row["updated_at_ms"] = envelope.at_ms
    outcome = outcomes.record(envelope, body)
    match body:
        case (
            r.ActivityRequested()
            | r.ActivityCompleted()
            | r.ActivityFailed()
            | r.ActivityStarted()
            | r.ActivityProgressed()
            | r.ActivityReturned()
            | r.ActivityRetryScheduled()
            | r.ActivityRetried()
            | r.ActivityUncertain()
            | r.ActivityResolved()
            | r.ActivityCancelled()
            | r.LateResultRecorded()
        ):
            wakes = type(body) in _WAKES
            noted = _goes_on(session, envelope) if wakes else _noted(session, envelope)
            rows = [noted, outcome, ledger.record(envelope, body)]
            if isinstance(body, r.ActivityRequested) and body.compensates is not None:
                rows.append(ledger.compensated(envelope, body.compensates, body.activity_id))
            return rows
        case r.ApprovalRequested():
            asked = [_noted(session, envelope), outcome, approvals.requested(envelope, body)]
            if body.activity_id is not None:
                asked.append(ledger.withheld(envelope, body.activity_id, body.proposal_id))
            return asked
        case (
            r.ApprovalGranted() | r.ApprovalRejected() | r.ApprovalExpired() | r.ApprovalAnswered()
        ):
            return [_goes_on(session, envelope), outcome, approvals.decided(envelope, body)]
        case r.SessionOpened(attributes=(_, *_) as first):
            opened = sessions.said(session, envelope, body)
            return [opened, outcome, *attributes.records(envelope, first, [a.name for a in first])]
        case r.AttributesSet():
            attributes.told(session, body.attributes)
            found_by = attributes.records(envelope, body.attributes, body.changed)
            return [_noted(session, envelope), outcome, *found_by]
        case r.ApprovalVoted():
            return [_noted(session, envelope), outcome, approvals.voted(envelope, body)]
        case r.ApprovalWithdrawn() | r.ApprovalVoided():
            return [_noted(session, envelope), outcome, approvals.decided(envelope, body)]
        case r.JobAwaited() | r.JobWithdrawn():
            return [_noted(session, envelope), outcome, jobs.record(envelope, body)]
        case r.JobCompleted() | r.JobFailed() | r.JobExpired():
            return [_goes_on(session, envelope), outcome, jobs.record(envelope, body)]
        case r.ChildStarted() | r.ChildWithdrawn() | r.LateChildRecorded():
            return [_noted(session, envelope), outcome, children.record(envelope, body)]
        case r.ChildCompleted() | r.ChildFailed() | r.ChildCancelled() | r.ChildExpired():
            return [_goes_on(session, envelope), outcome, children.record(envelope, body)]
        case (
            r.ResourceAttached()
            | r.ResourceReattached()
            | r.ResourceExpired()
            | r.ResourceReleased()
        ):
            return [_noted(session, envelope), outcome, resources.record(envelope, body)]
        case r.TimerFired():
            return [_goes_on(session, envelope), outcome, timers.record(envelope, body)]
        case r.TimerSet() | r.TimerCancelled():
            return [_noted(session, envelope), outcome, timers.record(envelope, body)]
        case _:
            return [_told(session, envelope, body), outcome]


def _told(session: Values, envelope: r.Envelope, body: _Told) -> Change:
    """The facts that are about the session alone."""
    match body:
        case (
            r.SessionOpened()
            | r.MessageReceived()
            | r.TurnStarted()
            | r.ReplySent()
            | r.SessionWaiting()
            | r.TurnCompleted()
        ):
            return sessions.said(session, envelope, body)
        case (
            r.SessionCompleted()
            | r.SessionFailed()
            | r.CancellationRequested()
            | r.SessionCancelled()
            | r.CompensationStarted()
        ):
            return sessions.ended(session, envelope, body)
        case (
            r.NondeterminismFound()
            | r.SessionHeld()
            | r.SessionReleased()
            | r.SessionReset()
            | r.RecoveryRequested()
            | r.CommandParked()
            | r.CommandRefused()
        ):
            return sessions.held(session, envelope, body)
        case r.SignalDelivered() | r.InboxTaken():
            return _goes_on(session, envelope)
        case _:
            return _passed(session, envelope, body)


def _passed(session: Values, envelope: r.Envelope, _body: _Noted) -> Change:
    """Facts that move the session's version and nothing that its row shows; a new kind of fact does not fit here."""
    return _noted(session, envelope)


def _goes_on(session: Values, envelope: r.Envelope) -> Change:
    """A wait is over: the session stands where it stood before, in its turn or in taking back what it did."""
    session.row.update(WAITS_FOR_NOTHING)
    return session.change(SESSIONS, heard=envelope.cause.offset, releases=True)


def _noted(session: Values, envelope: r.Envelope) -> Change:
    return session.change(SESSIONS, heard=envelope.cause.offset)
