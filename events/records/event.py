"""An event: one fact of one session. Whoever matches on bodies handles all of them, or the build fails."""

from __future__ import annotations

from dataclasses import dataclass

from .envelope import Envelope
from .obligations import (
    ActivityCancelled,
    ActivityCompleted,
    ActivityFailed,
    ActivityRequested,
    ActivityRetried,
    ActivityRetryScheduled,
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

EventBody = (
    SessionOpened
    | MessageReceived
    | TurnStarted
    | ReplySent
    | SessionWaiting
    | TurnCompleted
    | SessionCompleted
    | SessionFailed
    | CancellationRequested
    | SessionCancelled
    | NondeterminismFound
    | SessionHeld
    | CommandParked
    | SessionReleased
    | CommandRefused
    | ActivityRequested
    | ActivityCompleted
    | ActivityFailed
    | ActivityCancelled
    | LateResultRecorded
    | ActivityRetryScheduled
    | ActivityRetried
    | ApprovalRequested
    | ApprovalGranted
    | ApprovalRejected
    | ApprovalExpired
    | ApprovalWithdrawn
    | TimerSet
    | TimerFired
    | TimerCancelled
)


@dataclass(frozen=True, slots=True)
class Event:
    """One fact of one session, as stored."""

    envelope: Envelope
    body: EventBody
