"""The stored records, as plain frozen dataclasses: one class per file in `schemas/`, field for field.

An event is an `Envelope` (who, when, why, and the chain) and a body (the fact). In Avro the two are one record
whose first field is `envelope`. Field order here is field order there; a test holds the two together.
Times are milliseconds since 1970 on the log's clock; `turn` and `step` count from 1.
"""

from .envelope import Cause, Envelope, Failure, NextValid, Obligation, Payload, Version
from .event import Event, EventBody
from .obligations import (
    ActivityCancelled,
    ActivityCompleted,
    ActivityFailed,
    ActivityRequested,
    ApprovalExpired,
    ApprovalGranted,
    ApprovalRejected,
    ApprovalRequested,
    ApprovalWithdrawn,
    LateResultRecorded,
    TimerCancelled,
    TimerFired,
    TimerSet,
)
from .session import (
    CancellationRequested,
    CommandParked,
    CommandRefused,
    MessageReceived,
    NondeterminismFound,
    ReplySent,
    SessionCancelled,
    SessionCompleted,
    SessionFailed,
    SessionHeld,
    SessionOpened,
    SessionReleased,
    SessionWaiting,
    TurnCompleted,
    TurnStarted,
)
from .written import ActivityTask, Outcome, PartitionMark, Snapshot

__all__ = [
    "ActivityCancelled",
    "ActivityCompleted",
    "ActivityFailed",
    "ActivityRequested",
    "ActivityTask",
    "ApprovalExpired",
    "ApprovalGranted",
    "ApprovalRejected",
    "ApprovalRequested",
    "ApprovalWithdrawn",
    "CancellationRequested",
    "Cause",
    "CommandParked",
    "CommandRefused",
    "Envelope",
    "Event",
    "EventBody",
    "Failure",
    "LateResultRecorded",
    "MessageReceived",
    "NextValid",
    "NondeterminismFound",
    "Obligation",
    "Outcome",
    "PartitionMark",
    "Payload",
    "ReplySent",
    "SessionCancelled",
    "SessionCompleted",
    "SessionFailed",
    "SessionHeld",
    "SessionOpened",
    "SessionReleased",
    "SessionWaiting",
    "Snapshot",
    "TimerCancelled",
    "TimerFired",
    "TimerSet",
    "TurnCompleted",
    "TurnStarted",
    "Version",
]
