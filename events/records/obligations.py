"""Facts about what a session owes or awaits: activities, approvals, timers."""

from __future__ import annotations

from ..contracts import WAIT
from ..freezing import dataclass
from .envelope import Compensation, Failure, Payload, RetryPolicy


@dataclass(frozen=True, slots=True)
class ActivityRequested:
    """A tool or model call was decided; its task is dispatched in the same transaction.

    `approval` is `none` (not gated), `exempt` (its rule asked nobody) or `granted` (by `proposal_id`).
    The `idempotency_key` is stable over attempts; `deadline_ms` is schedule-to-close on the log's clock.
    `retry` is the policy that this activity keeps for good, whatever later code says; null for one attempt.
    `settle_ms` is how long after a call a look-up must wait; `heartbeat_ms` how long a begun attempt may be silent;
    `on_uncertain` what follows where nobody knows whether it was done: `wait` for a resolution, or `raise`. What an
    `untrusted` one returns taints the session.

    `withheld_ms`, here and below: the attempt is *not* dispatched, since authority lacks an approval that is asked for
    next; so much of its time was left then, and it does not run meanwhile. 0 (`NEVER_MS`): no approval would help, so none
    is asked for, and the activity ends. `policy_ids` and `policy_hash` say by which policies the attempt was let go or
    forbidden, where these were asked.

    `compensation` takes its effect back, should the session fail or be cancelled; `compensates` is the activity whose
    effect this one takes back.
    """

    activity_id: str
    turn: int
    step: int
    name: str
    queue: str
    contract: str
    arguments: Payload
    digest: bytes
    idempotency_key: str
    attempt: int
    start_to_close_ms: int
    deadline_ms: int
    approval: str
    proposal_id: str | None
    retry: RetryPolicy | None = None
    settle_ms: int | None = None
    heartbeat_ms: int | None = None
    on_uncertain: str = WAIT
    withheld_ms: int | None = None
    policy_ids: tuple[str, ...] = ()
    policy_hash: bytes | None = None
    untrusted: bool = False
    compensation: Compensation | None = None
    compensates: str | None = None


@dataclass(frozen=True, slots=True)
class ActivityStarted:
    """The first heartbeat of an attempt was seen: a worker runs it, and from here on its silence counts."""

    activity_id: str
    attempt: int
    worker: str


@dataclass(frozen=True, slots=True)
class ActivityProgressed:
    """A heartbeat that said how far the attempt has come; the next attempt is told."""

    activity_id: str
    attempt: int
    progress: Payload
    worker: str


@dataclass(frozen=True, slots=True)
class ActivityRetryScheduled:
    """The attempt before `attempt` failed, and the log's clock owes the activity another at `due_ms`."""

    activity_id: str
    attempt: int
    due_ms: int
    failure: Failure
    worker: str


@dataclass(frozen=True, slots=True)
class ActivityRetried:
    """The log's clock passed the due time, or a withheld attempt was approved; its task is dispatched in the same transaction.

    Approved, it has what was left of its time: until `deadline_ms` from now on.
    """

    activity_id: str
    attempt: int
    withheld_ms: int | None = None
    policy_ids: tuple[str, ...] = ()
    policy_hash: bytes | None = None
    deadline_ms: int | None = None


@dataclass(frozen=True, slots=True)
class ActivityCompleted:
    """The one recorded result of an activity; `recovered` where a look-up found what an earlier call had done."""

    activity_id: str
    attempt: int
    result: Payload
    worker: str
    recovered: bool = False


@dataclass(frozen=True, slots=True)
class ActivityFailed:
    """The activity ended without a result: it raised, returned what cannot be stored, or ran out of time."""

    activity_id: str
    attempt: int
    failure: Failure
    worker: str


@dataclass(frozen=True, slots=True)
class ActivityReturned:
    """A worker gave the attempt back unrun; the next one's task is dispatched in the same transaction."""

    activity_id: str
    attempt: int
    reason: str
    worker: str
    withheld_ms: int | None = None
    policy_ids: tuple[str, ...] = ()
    policy_hash: bytes | None = None


@dataclass(frozen=True, slots=True)
class ActivityUncertain:
    """Nobody knows whether the attempt was carried out, and its contract forbids to try again; `failure` says why."""

    activity_id: str
    attempt: int
    failure: Failure
    worker: str


@dataclass(frozen=True, slots=True)
class ActivityResolved:
    """The envelope's actor said what became of an uncertain activity: `completed` with a result, or `failed`."""

    activity_id: str
    attempt: int
    resolution: str
    result: Payload | None
    comment: str


@dataclass(frozen=True, slots=True)
class ActivityCancelled:
    """The activity is no longer wanted; it may have run all the same."""

    activity_id: str
    attempt: int
    reason: str


@dataclass(frozen=True, slots=True)
class LateResultRecorded:
    """A result that came after its activity was settled, or for an older attempt; it changes nothing."""

    activity_id: str
    attempt: int
    outcome: str
    result: Payload | None
    failure: Failure | None
    worker: str


@dataclass(frozen=True, slots=True)
class TimerSet:
    """The workflow sleeps until `due_ms`."""

    timer_id: str
    turn: int
    step: int
    due_ms: int


@dataclass(frozen=True, slots=True)
class TimerFired:
    """The log's clock passed `due_ms`."""

    timer_id: str
    due_ms: int


@dataclass(frozen=True, slots=True)
class TimerCancelled:
    """The timer is no longer wanted."""

    timer_id: str
    reason: str
