"""Facts about proposals: an action is shown to people, who approve, decline, edit, or answer."""

from __future__ import annotations

from ..freezing import dataclass
from .envelope import Payload, Version


@dataclass(frozen=True, slots=True)
class ApprovalRequested:
    """An action is proposed; a decision must name this proposal and this digest before it expires.

    `quorum` people must approve, none of them the `requester` where one is named. The action was made from what
    `relies_on` says, and the `policies` apply to it, as a hash. A proposal that `supersedes` another was not asked for by
    the workflow, which waits on; nor was one with an `activity_id`, which policy asks for before that activity is
    dispatched. `because` says in sentences why policy asks, or has it asked again.
    """

    proposal_id: str
    turn: int
    step: int
    name: str
    contract: str
    arguments: Payload
    digest: bytes
    approver: str
    expires_at_ms: int
    quorum: int = 1
    requester: str = ""
    relies_on: tuple[Version, ...] = ()
    supersedes: str | None = None
    activity_id: str | None = None
    policies: bytes | None = None
    because: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ApprovalGranted:
    """The envelope's actor approved exactly the action with this digest; it may be used once."""

    proposal_id: str
    digest: bytes
    comment: str
    policy_ids: tuple[str, ...] = ()
    policy_hash: bytes | None = None


@dataclass(frozen=True, slots=True)
class ApprovalRejected:
    """The envelope's actor declined the action."""

    proposal_id: str
    digest: bytes
    comment: str
    policy_ids: tuple[str, ...] = ()
    policy_hash: bytes | None = None


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
class ApprovalVoted:
    """The envelope's actor approved, one of several who must."""

    proposal_id: str
    digest: bytes
    comment: str
    policy_ids: tuple[str, ...] = ()
    policy_hash: bytes | None = None


@dataclass(frozen=True, slots=True)
class ApprovalVoided:
    """The proposal no longer stands as it was shown, and another is made in its place; `drift` says what changed."""

    proposal_id: str
    reason: str
    drift: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ApprovalAnswered:
    """The envelope's actor neither approved nor declined, but told the workflow something."""

    proposal_id: str
    digest: bytes
    answer: Payload
    policy_ids: tuple[str, ...] = ()
    policy_hash: bytes | None = None
