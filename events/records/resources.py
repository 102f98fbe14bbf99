"""Facts about resources: what an activity has set up outside (a sandbox, a browser), and a session holds over its turns."""

from __future__ import annotations

from ..freezing import dataclass
from .envelope import Compensation, Failure, Payload


@dataclass(frozen=True, slots=True)
class ResourceAttached:
    """An activity has set it up, and the session holds it until `expires_at_ms`. `release` gives it back, should the session
    fail or be cancelled.

    `resource_id` is the activity that set it up: each time that a kind is attached has its own.
    """

    resource_id: str
    turn: int
    step: int
    kind: str
    handle: Payload
    expires_at_ms: int
    release: Compensation | None = None


@dataclass(frozen=True, slots=True)
class ResourceReattached:
    """The same of one that was expired or lost: an activity has set it up again from its last handle."""

    resource_id: str
    turn: int
    step: int
    kind: str
    handle: Payload
    expires_at_ms: int
    release: Compensation | None = None


@dataclass(frozen=True, slots=True)
class ResourceExpired:
    """The session holds it no more: its time was over on the log's clock (`expired`), a tool found it gone (`lost`, and
    `failure` is what it said), or the session ended with it.
    """

    resource_id: str
    kind: str
    reason: str
    failure: Failure | None = None


@dataclass(frozen=True, slots=True)
class ResourceReleased:
    """The workflow has given it back."""

    resource_id: str
    turn: int
    step: int
    kind: str
