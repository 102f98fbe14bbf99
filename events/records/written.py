"""What the session processor writes beside events: tasks, outcomes, snapshots and their marks."""

from __future__ import annotations

from ..freezing import dataclass
from .envelope import Payload


@dataclass(frozen=True, slots=True)
class ActivityTask:
    """One attempt of an activity, for a worker. `event_seq` is the event that asked for it.

    `progress` is the last that an earlier attempt told of. One that was let go by a policy set has a
    `control_offset`, the end of the control topic that was known then, and one by an approval a `start_by_ms` on the log's
    clock, too: a worker that knows of policy that was published since, or has not begun it by then, gives it back unrun.
    """

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
    settle_ms: int | None = None
    heartbeat_ms: int | None = None
    progress: Payload | None = None
    start_by_ms: int | None = None
    control_offset: int | None = None


@dataclass(frozen=True, slots=True)
class AttemptOver:
    """Nobody waits for this attempt any more: cancelled, superseded or past its deadline. Workers stop it."""

    tenant: str
    session_id: str
    activity_id: str
    attempt: int
    idempotency_key: str
    reason: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the world outside should know: reply, approval_wanted, uncertain, refused, held, completed, failed, cancelled.

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
class StoredEvent:
    """One event as it lies in the events topic, without framing."""

    fingerprint: bytes
    body: bytes


@dataclass(frozen=True, slots=True)
class JournalChunk:
    """Events of an open stretch, beside the snapshot that they follow: the `chunk`-th part, from 1, after `base_seq`."""

    tenant: str
    session_id: str
    base_seq: int
    chunk: int
    events: tuple[StoredEvent, ...]


@dataclass(frozen=True, slots=True)
class PartitionMark:
    """Every session whose last unsnapshotted event lies below `low_offset` has a snapshot."""

    partition: int
    low_offset: int
