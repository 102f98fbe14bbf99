"""What every event says besides its fact, and the small records that facts are made of."""

from __future__ import annotations

from ..freezing import dataclass


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
    """What went wrong in an activity: `kind` is the engine's word, `type` and `message` are the tool's.

    `retry_after_ms` is the tool's wish that the next attempt wait at least so long.
    """

    kind: str
    type: str
    message: str
    detail: str
    retry_after_ms: int | None = None


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often a failed activity is tried, and how long it rests between: the first delay, times
    `factor_thousandths` / 1000 after each attempt, up to the cap. Types in `never` are not tried again.
    """

    attempts_max: int
    initial_ms: int
    factor_thousandths: int
    cap_ms: int
    never: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Compensation:
    """The action that takes an activity's effect back: as it was when that was requested, whatever later code says.

    `approver` must approve it first; empty where nobody is asked. `quorum` people must, with `four_eyes` none of them the
    one for whom the effect was.
    """

    name: str
    queue: str
    contract: str
    arguments: Payload
    digest: bytes
    start_to_close_ms: int
    schedule_to_close_ms: int
    approver: str = ""
    retry: RetryPolicy | None = None
    settle_ms: int | None = None
    heartbeat_ms: int | None = None
    untrusted: bool = False
    quorum: int = 1
    four_eyes: bool = False


@dataclass(frozen=True, slots=True)
class Version:
    """One entry of the version vector: workflow, prompt, model, a tool, or the policy set."""

    name: str
    version: str


@dataclass(frozen=True, slots=True)
class Attribute:
    """Something to find the session by: `kind` is text, integer, number, boolean or timestamp, `value` how it is told."""

    name: str
    kind: str
    value: str


@dataclass(frozen=True, slots=True)
class Parent:
    """The session that opened a child and waits for it until `deadline_ms`; `depth` is 1 for a child of one that has none."""

    session_id: str
    depth: int
    deadline_ms: int


@dataclass(frozen=True, slots=True)
class ChildEnd:
    """How a child ended: `completed`, `failed`, `cancelled`, `expired`, `withdrawn`, or `open` where nobody knows yet."""

    child_id: str
    end: str


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
    """What every event says besides its fact. `prev_hash` chains the session; see `events/hashing.py`.

    `vouched_by` is the key that signed the command of its cause; null where commands are not signed.
    """

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
    vouched_by: str | None = None
