"""Attempts as a worker of the simulation has them: which were started, and those that are on their way."""

from __future__ import annotations

from dataclasses import dataclass

from ...events.log.protocol import Place
from ...events.records import ActivityTask
from ..activities.attempt import Step, Steps
from ..activities.beats import Beats
from ..activities.jobs import Job


@dataclass(frozen=True, slots=True)
class Start:
    """An attempt that was started, the digest of its arguments, and how far the commands topic went when its partition was taken over."""

    command_id: str
    idempotency_key: str
    task: ActivityTask
    worker: str
    known: dict[Place, int]


@dataclass(slots=True)
class Running:
    """An attempt, and its next step; what its last one gave is known, and is told at `ready_ms`."""

    job: Job
    steps: Steps
    step: Step
    ready_ms: int
    begun_ms: int = 0
    body_until_ms: int = 0
    beats: Beats | None = None
    silent: bool = False

    def close(self, *, completed: bool) -> None:
        """Its body has ended, or counts for nothing any more."""
        if self.beats is not None:
            self.beats.close(completed=completed)
