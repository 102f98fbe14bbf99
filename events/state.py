"""What a session is, folded from its events: the head (total) and the state (may fail to fold).

Everything here is a value: frozen, without clocks, and encodable with the codec, since snapshots store it.
Collections are tuples in the order of the log, so that equal histories give equal bytes.
"""

from __future__ import annotations

import dataclasses

from .contracts import WAIT
from .freezing import dataclass
from .holding import HeldResource
from .past_turns import PastTurn
from .records import Attribute, ChildEnd, Parent, Payload, RetryPolicy, Version
from .undoing import Registered, Undoing

STATE_VERSION = 16
"""Raised when the fold changes what it stores; a snapshot of another version is ignored and refolded."""

DEDUPE_MAX = 1_000
"""Commands remembered per session; one dropped early raises the floor, so nothing is applied twice."""

DEDUPE_MS = 7 * 24 * 3_600_000
"""How long a command id is remembered: the retention of the commands topic."""

CLOCK_SKEW_MS = 10 * 60_000
"""How far ahead of the log a caller's clock may be; what is further ahead is refused, and dedupe has no room for it."""

SETTLED_MAX = 64
"""Settled activities remembered, so that a result sent again by its worker is a repeat and not news."""

NEVER_MS = 0
"""So much time is left of an attempt that is withheld, and that no approval would let go."""

HASH_SHOWN = 16
"""Hex digits of a policy set's hash that are told in a sentence: as many as tell one set from another."""

TAINTS_MAX = 64
"""Names of activities remembered that brought in untrusted content; it stays tainted by one as by more."""

ARTIFACTS_MAX = 1_000
"""Things outside whose versions are remembered per session; the one not relied on for longest is dropped."""

PAST_JOBS_MAX = 64
"""Jobs remembered that are awaited no more, so that whoever completes one late is told why it is refused."""

CHILDREN_MAX = 200
"""Children of one session that are open at once: a snapshot holds them, and each that ends wakes the session."""

PAST_CHILDREN_MAX = 200
"""Children remembered that are waited for no more, so that an end that comes late is recorded once."""

CHILD_DEPTH_MAX = 8
"""Generations of children below a session that has no parent: a workflow that opens itself ends there."""

MESSAGE = "message"
"""The `trigger` of a turn that a message starts."""

NO_HASH = bytes(32)
"""`prev_hash` of a session's first event."""


class Status:
    """Where a session stands in the lifecycle; the words are stored, so they never change."""

    OPENED = "Opened"
    RUNNING = "Running"
    WAITING = "Waiting"
    SUSPENDED = "Suspended"
    RECOVERING = "Recovering"
    COMPENSATING = "Compensating"
    COMPLETED = "Completed"
    FAILED = "Failed"
    CANCELLED = "Cancelled"


ENDED = frozenset({Status.COMPLETED, Status.FAILED, Status.CANCELLED})


@dataclass(frozen=True, slots=True)
class SeenCommand:
    """An external command that was disposed of: its id, the hash of its bytes, and when it was issued."""

    command_id: str
    command_hash: bytes
    issued_at_ms: int


@dataclass(frozen=True, slots=True)
class Head:
    """The envelope fold: position, chain, clock and dedupe. It never fails, whatever the bodies say."""

    seq: int = 0
    hash: bytes = NO_HASH
    now_ms: int = 0
    cause_offset: int = -1
    versions_seq: int | None = None
    dedupe: tuple[SeenCommand, ...] = ()
    dedupe_floor_ms: int = 0


@dataclass(frozen=True, slots=True)
class QueuedMessage:
    """A message that waits for its turn, or a trigger: `trigger` names its kind, `reason` the occasion."""

    message_id: str
    actor: str
    message: Payload
    trigger: str = MESSAGE
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Grant:
    """An approval: the action with this digest may be requested once, in this turn, while what it rests on holds."""

    proposal_id: str
    digest: bytes


@dataclass(frozen=True, slots=True)
class OpenActivity:
    """An activity in flight: one obligation, due at `deadline_ms`. `attempt` is the newest dispatched.

    While `retry_due_ms` is there, that attempt has failed, and the next one is dispatched then. `started`: its first
    heartbeat was seen, so its silence counts. `doubtful`: an attempt that failed may have been carried out.
    `returned` attempts were given back unrun, and count for no retry. While `withheld_ms` is there, the newest attempt is not
    dispatched, as an approval is missing, and so much is left of its time; `NEVER_MS` where none would help. `grant` is the
    approval it uses; `denied` says why there is none and will be none.
    """

    activity_id: str
    step: int
    name: str
    attempt: int
    deadline_ms: int
    retry: RetryPolicy | None = None
    retry_due_ms: int | None = None
    contract: str = ""
    heartbeat_ms: int | None = None
    on_uncertain: str = WAIT
    started: bool = False
    doubtful: bool = False
    returned: int = 0
    progress: Payload | None = None
    withheld_ms: int | None = None
    grant: Grant | None = None
    denied: str = ""
    untrusted: bool = False

    @property
    def waits_for_approval(self) -> bool:
        """Whether it goes on when somebody approves, and not before."""
        return self.withheld_ms is not None and self.grant is None and not self.denied

    def runs(self, attempt: int) -> bool:
        """Whether this attempt is the newest, was dispatched, and has not failed yet."""
        return self.attempt == attempt and self.retry_due_ms is None and self.withheld_ms is None

    @property
    def forbidden(self) -> bool:
        """Whether policy forbids its newest attempt, and nobody can approve it."""
        return self.withheld_ms == NEVER_MS


@dataclass(frozen=True, slots=True)
class Uncertain:
    """An activity that may have been carried out or not; it waits until somebody resolves it."""

    activity_id: str
    step: int
    name: str
    attempt: int
    told: str
    untrusted: bool = False


@dataclass(frozen=True, slots=True)
class QueuedSignal:
    """A signal that no turn has asked for yet."""

    signal_id: str
    name: str
    data: Payload


@dataclass(frozen=True, slots=True)
class OpenReceive:
    """A wait to receive something: a `signal` of this name, or the `inbox`; `wait` until there is something."""

    wait_id: str
    step: int
    kind: str
    name: str
    wait: bool


@dataclass(frozen=True, slots=True)
class Artifact:
    """The version of something outside that the session relied on last."""

    artifact_id: str
    version: str


@dataclass(frozen=True, slots=True)
class Settled:
    """An attempt that has its outcome, and the digest of it.

    `completed`, `failed`, `cancelled` and `uncertain` are the activity's own; after `retried` another attempt follows.
    """

    activity_id: str
    attempt: int
    outcome: str
    digest: bytes


@dataclass(frozen=True, slots=True)
class OpenApproval:
    """A proposal that waits for a decision until `expires_at_ms`."""

    proposal_id: str
    step: int
    name: str
    digest: bytes
    approver: str
    expires_at_ms: int
    quorum: int = 1
    votes: tuple[str, ...] = ()
    requester: str = ""
    relies_on: tuple[Version, ...] = ()
    activity_id: str | None = None


@dataclass(frozen=True, slots=True)
class Decided:
    """A proposal that is no longer open, and how it ended."""

    proposal_id: str
    decision: str
    actor: str


@dataclass(frozen=True, slots=True)
class OpenTimer:
    """A sleep that ends at `due_ms`."""

    timer_id: str
    step: int
    due_ms: int


@dataclass(frozen=True, slots=True)
class OpenJob:
    """Work elsewhere that is awaited until `expires_at_ms`."""

    job_id: str
    step: int
    name: str
    expires_at_ms: int
    untrusted: bool = False


@dataclass(frozen=True, slots=True)
class PastJob:
    """A job that is awaited no more: `completed` or `failed` by this actor, `expired` or `withdrawn`."""

    job_id: str
    end: str
    actor: str


@dataclass(frozen=True, slots=True)
class OpenChild:
    """A session of its own that this one has opened, and whose end it awaits until `expires_at_ms`."""

    child_id: str
    step: int
    workflow: str
    expires_at_ms: int


@dataclass(frozen=True, slots=True)
class ParkedCommand:
    """A command kept while the session is held, with all that its later decision needs."""

    fingerprint: bytes
    command: bytes
    at_ms: int
    topic: str
    partition: int
    offset: int
    command_hash: bytes | None
    vouched_by: str | None = None


@dataclass(frozen=True, slots=True)
class Hold:
    """Why the session cannot go on."""

    reason: str
    detail: str


@dataclass(frozen=True, slots=True)
class State:
    """The body fold of one session."""

    workflow: str
    status: str = Status.OPENED
    turn: int = 0
    workflow_version: int = 0
    versions: tuple[Version, ...] = ()
    data: Payload | None = None
    queue: tuple[QueuedMessage, ...] = ()
    message: QueuedMessage | None = None
    activities: tuple[OpenActivity, ...] = ()
    settled: tuple[Settled, ...] = ()
    approvals: tuple[OpenApproval, ...] = ()
    decided: tuple[Decided, ...] = ()
    grants: tuple[Grant, ...] = ()
    timers: tuple[OpenTimer, ...] = ()
    hold: Hold | None = None
    parked: tuple[ParkedCommand, ...] = ()
    steps: int = 0
    uncertain: tuple[Uncertain, ...] = ()
    receives: tuple[OpenReceive, ...] = ()
    signals: tuple[QueuedSignal, ...] = ()
    artifacts: tuple[Artifact, ...] = ()
    tainted_by: tuple[str, ...] = ()
    attributes: tuple[Attribute, ...] = ()
    attributes_before: tuple[Attribute, ...] = ()
    """Those with which the open stretch began: its code is told these in a replay, too."""
    jobs: tuple[OpenJob, ...] = ()
    past_jobs: tuple[PastJob, ...] = ()
    registered: tuple[Registered, ...] = ()
    undoing: Undoing | None = None
    recoveries: int = 0
    """Times that it was made to go on again since its stretch began."""
    parent: Parent | None = None
    children: tuple[OpenChild, ...] = ()
    past_children: tuple[ChildEnd, ...] = ()
    data_version: int = 0
    """The version of the workflow that left `data`."""
    pinned: int = 0
    past_turns: tuple[PastTurn, ...] = ()
    resources: tuple[HeldResource, ...] = ()
    resources_before: tuple[HeldResource, ...] = ()
    """Those with which the open stretch began, like `attributes_before`."""

    @property
    def ended(self) -> bool:
        """Whether nothing will ever run again."""
        return self.status in ENDED

    @property
    def requester(self) -> str:
        """Whose message the turn answers; empty where no message began it.

        While effects are taken back: for whom the one was that is next, whoever's message came last.
        """
        if self.undoing is not None and self.registered:
            return self.registered[-1].on_behalf_of or ""
        return self.message.actor if self.message is not None else ""

    @property
    def waits(self) -> bool:
        """Whether something is owed to the session that is not an activity."""
        return bool(
            self.approvals
            or self.timers
            or self.uncertain
            or self.receives
            or self.jobs
            or self.children
        )

    @property
    def only_waits(self) -> bool:
        """Whether its turn runs and nothing but waits is left of it, so that it parks before the next command."""
        return (
            self.status == Status.RUNNING
            and self.hold is None
            and all(activity.waits_for_approval for activity in self.activities)
            and self.waits
        )


@dataclasses.dataclass(frozen=True, slots=True)
class SessionState:
    """Both folds together, as a snapshot stores them."""

    head: Head
    state: State = dataclasses.field(default_factory=lambda: State(workflow=""))
