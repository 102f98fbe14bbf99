"""Facts about children: sessions of their own that a workflow has opened, and that tell it how they ended."""

from __future__ import annotations

from ..freezing import dataclass
from .envelope import Attribute, Failure, Payload


@dataclass(frozen=True, slots=True)
class ChildStarted:
    """The workflow waits until `expires_at_ms` for a session of this workflow; the command that opens it goes out with this.

    `child_id` is that session's id, drawn from where it was asked for: whoever asks again asks for the same one.
    """

    child_id: str
    turn: int
    step: int
    workflow: str
    input: Payload
    expires_at_ms: int
    attributes: tuple[Attribute, ...] = ()


@dataclass(frozen=True, slots=True)
class ChildCompleted:
    """The child has ended with this outcome, which may rest on what these activities brought in."""

    child_id: str
    result: Payload
    tainted_by: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ChildFailed:
    """The child has failed, or was never opened; `failure` says why."""

    child_id: str
    failure: Failure
    tainted_by: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ChildCancelled:
    """The child was cancelled, by somebody else or with whoever waits for it."""

    child_id: str
    tainted_by: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ChildExpired:
    """The log's clock passed the child's time, and it had not ended: the command that cancels it goes out with this."""

    child_id: str


@dataclass(frozen=True, slots=True)
class ChildWithdrawn:
    """The workflow no longer waits for the child: the command that cancels it goes out with this."""

    child_id: str
    reason: str


@dataclass(frozen=True, slots=True)
class LateChildRecorded:
    """The end of a child for which nobody waited any more; it changes nothing."""

    child_id: str
    end: str
    result: Payload | None
    failure: Failure | None
