"""The stored records, as plain frozen dataclasses: one class per file in `schemas/`, field for field.

An event is an `Envelope` (who, when, why, and the chain) and a body (the fact). In Avro the two are one record
whose first field is `envelope`. Field order here is field order there; a test holds the two together.
Times are milliseconds since 1970 on the log's clock; `turn` and `step` count from 1.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Payload:
    """User data: inline bytes in `encoding` (`json`), or a reference to them. `digest` is keyed per tenant."""

    encoding: str
    inline: bytes | None
    ref: str | None
    digest: bytes
    size: int
    key_id: str | None


@dataclass(frozen=True, slots=True)
class Failure:
    """What went wrong in an activity: `kind` is the engine's word, `type` and `message` are the tool's."""

    kind: str
    type: str
    message: str
    detail: str


@dataclass(frozen=True, slots=True)
class Version:
    """One entry of the version vector: workflow, prompt, model, a tool, or the policy set."""

    name: str
    version: str


@dataclass(frozen=True, slots=True)
class Obligation:
    """Something the session owes or awaits; `expires_at_ms` is when, and `expiry` what happens then."""

    kind: str
    id: str
    name: str
    expires_at_ms: int | None
    expiry: str


@dataclass(frozen=True, slots=True)
class NextValid:
    """A command that may be applied now, or the reason why it may not."""

    command: str
    allowed: bool
    reason: str


@dataclass(frozen=True, slots=True)
class Cause:
    """The command that led here: where it lies, its id, and (external ones) what dedupe must remember."""

    topic: str
    partition: int
    offset: int
    command_id: str
    command_hash: bytes | None
    issued_at_ms: int | None


@dataclass(frozen=True, slots=True)
class Envelope:
    """What every event says besides its fact. `prev_hash` chains the session; see `events/hashing.py`."""

    tenant: str
    session_id: str
    seq: int
    at_ms: int
    actor: str
    on_behalf_of: str | None
    channel: str
    cause: Cause
    control_offset: int | None
    versions_seq: int | None
    prev_hash: bytes


@dataclass(frozen=True, slots=True)
class SessionOpened:
    """A conversation exists; nothing runs until its first message or trigger."""

    workflow: str


@dataclass(frozen=True, slots=True)
class MessageReceived:
    """A message joined the session's queue; the next turn (or the running one, if it asks) takes it."""

    message_id: str
    message: Payload


@dataclass(frozen=True, slots=True)
class TurnStarted:
    """A turn began on these versions; `message_id` is null for a trigger without a message."""

    turn: int
    trigger: str
    reason: str
    message_id: str | None
    workflow: str
    workflow_version: int
    versions: tuple[Version, ...]


@dataclass(frozen=True, slots=True)
class ReplySent:
    """The workflow said something to the conversation."""

    turn: int
    step: int
    message: Payload


@dataclass(frozen=True, slots=True)
class SessionWaiting:
    """Only waits are left; nothing runs, and memory is released."""

    turn: int
    obligations: tuple[Obligation, ...]
    next_valid: tuple[NextValid, ...]


@dataclass(frozen=True, slots=True)
class TurnCompleted:
    """The turn's function returned; `state` is what the next turn starts from."""

    turn: int
    steps: int
    state: Payload
    obligations: tuple[Obligation, ...]
    next_valid: tuple[NextValid, ...]


@dataclass(frozen=True, slots=True)
class SessionCompleted:
    """The session ended with an outcome; `verified_by` names the activity that verified it, if one did."""

    turn: int
    steps: int
    outcome: Payload
    state: Payload
    verified_by: str | None
    messages_unread: int


@dataclass(frozen=True, slots=True)
class SessionFailed:
    """The session ended because an activity's failure was not handled by its workflow."""

    turn: int
    failure: Failure
    messages_unread: int


@dataclass(frozen=True, slots=True)
class CancellationRequested:
    """Somebody asked the session to stop; no new work is dispatched from here on."""

    reason: str


@dataclass(frozen=True, slots=True)
class SessionCancelled:
    """The stop was carried out: activities done, withdrawn before they ran, and in doubt (they may have run)."""

    done: tuple[str, ...]
    undone: tuple[str, ...]
    uncertain: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class NondeterminismFound:
    """Replay gave another step than the history holds; the session is held and nothing else happened."""

    turn: int
    step: int
    expected: str
    actual: str


@dataclass(frozen=True, slots=True)
class SessionHeld:
    """The session cannot go on; everything is kept until an operator releases it."""

    reason: str
    detail: str


@dataclass(frozen=True, slots=True)
class CommandParked:
    """A command that arrived while held, byte for byte; it is decided, in order, on release."""

    command_type: str
    fingerprint: bytes
    command: bytes


@dataclass(frozen=True, slots=True)
class SessionReleased:
    """An operator let the session go on from where it was held."""

    reason: str


@dataclass(frozen=True, slots=True)
class CommandRefused:
    """A command was not applied: the check that failed, the reason in one word, and what to do in words."""

    command_type: str
    check: str
    reason: str
    detail: str


@dataclass(frozen=True, slots=True)
class ActivityRequested:
    """A tool or model call was decided; its task is dispatched in the same transaction.

    `approval` is `none` (not gated), `exempt` (its rule asked nobody) or `granted` (by `proposal_id`).
    The `idempotency_key` is stable over attempts; `deadline_ms` is schedule-to-close on the log's clock.
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


@dataclass(frozen=True, slots=True)
class ActivityCompleted:
    """The one recorded result of an activity."""

    activity_id: str
    attempt: int
    result: Payload
    worker: str


@dataclass(frozen=True, slots=True)
class ActivityFailed:
    """The activity ended without a result: it raised, returned what cannot be stored, or ran out of time."""

    activity_id: str
    attempt: int
    failure: Failure
    worker: str


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
class ApprovalRequested:
    """An action is proposed; a decision must name this proposal and this digest before it expires."""

    proposal_id: str
    turn: int
    step: int
    name: str
    contract: str
    arguments: Payload
    digest: bytes
    approver: str
    expires_at_ms: int


@dataclass(frozen=True, slots=True)
class ApprovalGranted:
    """The envelope's actor approved exactly the action with this digest; it may be used once."""

    proposal_id: str
    digest: bytes
    comment: str


@dataclass(frozen=True, slots=True)
class ApprovalRejected:
    """The envelope's actor declined the action."""

    proposal_id: str
    digest: bytes
    comment: str


@dataclass(frozen=True, slots=True)
class ApprovalExpired:
    """Nobody decided in time, by the log's order."""

    proposal_id: str


@dataclass(frozen=True, slots=True)
class ApprovalWithdrawn:
    """The session no longer asks."""

    proposal_id: str
    reason: str


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


@dataclass(frozen=True, slots=True)
class ActivityTask:
    """One attempt of an activity, for a worker. `event_seq` is the event that asked for it."""

    tenant: str
    session_id: str
    activity_id: str
    attempt: int
    name: str
    queue: str
    contract: str
    arguments: Payload
    idempotency_key: str
    start_to_close_ms: int
    deadline_ms: int
    event_seq: int
    actor: str
    on_behalf_of: str | None


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the world outside should know: reply, approval_wanted, refused, held, completed, failed, cancelled.

    `seq` is null for a refusal that left no event (unknown session).
    """

    tenant: str
    session_id: str
    seq: int | None
    at_ms: int
    kind: str
    turn: int | None
    message: Payload | None
    command_id: str | None
    reason: str | None
    detail: str | None
    proposal_id: str | None
    digest: bytes | None
    expires_at_ms: int | None


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A session's state at a turn's end; a cache that a full refold must reproduce byte for byte."""

    tenant: str
    session_id: str
    seq: int
    state_version: int
    state: bytes
    state_hash: bytes


@dataclass(frozen=True, slots=True)
class PartitionMark:
    """Every session whose last unsnapshotted event lies below `low_offset` has a snapshot."""

    partition: int
    low_offset: int
