"""Facts about external jobs: work that is done elsewhere, and told of by whoever does it."""

from __future__ import annotations

from ..freezing import dataclass
from .envelope import Failure, Payload


@dataclass(frozen=True, slots=True)
class JobAwaited:
    """The workflow waits until `expires_at_ms` for a job that somebody else does, and who is given this id."""

    job_id: str
    turn: int
    step: int
    name: str
    expires_at_ms: int
    untrusted: bool = False


@dataclass(frozen=True, slots=True)
class JobCompleted:
    """The envelope's actor said that the job is done, with this result."""

    job_id: str
    result: Payload


@dataclass(frozen=True, slots=True)
class JobFailed:
    """The envelope's actor said that the job will not be done, and why."""

    job_id: str
    failure: Failure


@dataclass(frozen=True, slots=True)
class JobExpired:
    """The log's clock passed the job's time, and nobody had said what became of it."""

    job_id: str


@dataclass(frozen=True, slots=True)
class JobWithdrawn:
    """The workflow no longer waits for the job, which may be done all the same."""

    job_id: str
    reason: str
