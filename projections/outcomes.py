"""What became of each command that left an event: one row each, keyed by where the command lies in its log.

A session's commands lie on one partition, so their offset tells them apart, even two that share an id. What only the
clock owed (a timer that was due, an activity past its deadline) says nothing about what was asked.
"""

from __future__ import annotations

from ..events import records as r
from .rows import OUTCOMES, Change
from .values import Values

ASKED: dict[type, str] = {
    r.ChildCompleted: "EndChild",
    r.ChildFailed: "EndChild",
    r.ChildCancelled: "EndChild",
    r.LateChildRecorded: "EndChild",
    r.SessionOpened: "OpenSession",
    r.MessageReceived: "SendMessage",
    r.TriggerReceived: "StartTurn",
    r.SignalReceived: "SendSignal",
    r.ApprovalGranted: "DecideApproval",
    r.ApprovalRejected: "DecideApproval",
    r.ApprovalVoted: "DecideApproval",
    r.ApprovalAnswered: "DecideApproval",
    r.ArtifactChanged: "ChangeArtifact",
    r.ActivityResolved: "ResolveActivity",
    r.JobCompleted: "CompleteJob",
    r.JobFailed: "CompleteJob",
    r.CancellationRequested: "CancelSession",
    r.SessionReleased: "ReleaseSession",
    r.SessionReset: "ResetSession",
    r.SessionPinned: "PinSession",
    r.RecoveryRequested: "RecoverSession",
    r.ActivityStarted: "HeartbeatActivity",
    r.ActivityProgressed: "HeartbeatActivity",
    r.ActivityReturned: "ReturnActivity",
    r.ActivityCompleted: "CompleteActivity",
    r.ActivityFailed: "FailActivity",
    r.ActivityRetryScheduled: "FailActivity",
    r.ActivityUncertain: "FailActivity",
}
"""Facts that say what was asked: the kind of the command. Of an activity only those that a worker reported."""

_BETWEEN: dict[str, dict[type, str]] = {
    "child": {
        r.SessionOpened: "StartChild",
        r.MessageReceived: "StartChild",
        r.CancellationRequested: "CancelChild",
    },
    "run": {r.SessionOpened: "StartRun", r.TriggerReceived: "StartRun"},
}
"""The same of what sessions tell each other, by the channel that it comes in by."""

_CLOSER = frozenset(
    {
        r.ActivityFailed,
        r.ActivityRetryScheduled,
        r.ActivityUncertain,
        r.LateResultRecorded,
        r.CommandParked,
        r.CommandRefused,
    }
)


def record(envelope: r.Envelope, body: r.EventBody) -> Change:
    """The change of the row of the command behind an event."""
    cause = envelope.cause
    outcome = Values(envelope, cause.offset)
    row = outcome.row
    row["partition"] = cause.partition
    row["decided_at_ms"] = envelope.at_ms
    outcome.text("command_id", cause.command_id)
    asked = ASKED.get(type(body))
    asked = _BETWEEN.get(envelope.channel, {}).get(type(body), asked)
    if type(body) in _CLOSER:
        asked = _looked_into(outcome, envelope, body, asked)
    if asked is not None:
        outcome.text("command", asked)
        outcome.text("actor", envelope.actor)
        outcome.text("channel", envelope.channel)
    return outcome.change(OUTCOMES, raises="events")


def _looked_into(
    outcome: Values, envelope: r.Envelope, body: r.EventBody, asked: str | None
) -> str | None:
    """What was asked, where the kind of fact alone does not tell; and why it was not done."""
    match body:
        case r.ActivityFailed() | r.ActivityRetryScheduled() | r.ActivityUncertain() if (
            not body.worker
        ):
            return None
        case r.LateResultRecorded():
            return "FailActivity" if body.result is None else "CompleteActivity"
        case r.CommandParked():
            outcome.row["parked_seq"] = envelope.seq
            return body.command_type
        case r.CommandRefused():
            outcome.text("failed_check", body.check)
            outcome.text("reason", body.reason)
            outcome.text("detail", body.detail)
            return body.command_type
        case _:
            return asked
