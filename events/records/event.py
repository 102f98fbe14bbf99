"""An event: one fact of one session. Whoever matches on bodies handles all of them, or the build fails."""

from __future__ import annotations

from ..freezing import dataclass
from .approvals import (
    ApprovalAnswered,
    ApprovalExpired,
    ApprovalGranted,
    ApprovalRejected,
    ApprovalRequested,
    ApprovalVoided,
    ApprovalVoted,
    ApprovalWithdrawn,
)
from .children import (
    ChildCancelled,
    ChildCompleted,
    ChildExpired,
    ChildFailed,
    ChildStarted,
    ChildWithdrawn,
    LateChildRecorded,
)
from .envelope import Envelope
from .jobs import JobAwaited, JobCompleted, JobExpired, JobFailed, JobWithdrawn
from .obligations import (
    ActivityCancelled,
    ActivityCompleted,
    ActivityFailed,
    ActivityProgressed,
    ActivityRequested,
    ActivityResolved,
    ActivityRetried,
    ActivityRetryScheduled,
    ActivityReturned,
    ActivityStarted,
    ActivityUncertain,
    LateResultRecorded,
    TimerCancelled,
    TimerFired,
    TimerSet,
)
from .receiving import (
    InboxAwaited,
    InboxTaken,
    SignalAwaited,
    SignalDelivered,
    SignalReceived,
    TriggerReceived,
    WaitWithdrawn,
)
from .resources import (
    ResourceAttached,
    ResourceExpired,
    ResourceReattached,
    ResourceReleased,
)
from .runs import RunStarted
from .session import (
    ArtifactChanged,
    ArtifactRecorded,
    AttributesSet,
    CancellationRequested,
    CommandParked,
    CommandRefused,
    CompensationsReleased,
    CompensationStarted,
    MessageReceived,
    NondeterminismFound,
    RecoveryRequested,
    ReplySent,
    SessionCancelled,
    SessionCompleted,
    SessionFailed,
    SessionHeld,
    SessionOpened,
    SessionPinned,
    SessionReleased,
    SessionReset,
    SessionWaiting,
    TurnCompleted,
    TurnContinued,
    TurnStarted,
    VersionMarked,
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
    | RecoveryRequested
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
    | ActivityStarted
    | ActivityProgressed
    | ActivityReturned
    | ActivityUncertain
    | ActivityResolved
    | TurnContinued
    | VersionMarked
    | ArtifactRecorded
    | TriggerReceived
    | SignalReceived
    | SignalAwaited
    | SignalDelivered
    | InboxAwaited
    | InboxTaken
    | WaitWithdrawn
    | ApprovalVoted
    | ApprovalVoided
    | ApprovalAnswered
    | ArtifactChanged
    | AttributesSet
    | JobAwaited
    | JobCompleted
    | JobFailed
    | JobExpired
    | JobWithdrawn
    | CompensationStarted
    | CompensationsReleased
    | ChildStarted
    | ChildCompleted
    | ChildFailed
    | ChildCancelled
    | ChildExpired
    | ChildWithdrawn
    | LateChildRecorded
    | SessionReset
    | SessionPinned
    | ResourceAttached
    | ResourceReattached
    | ResourceExpired
    | ResourceReleased
    | RunStarted
)


@dataclass(frozen=True, slots=True)
class Event:
    """One fact of one session, as stored."""

    envelope: Envelope
    body: EventBody
