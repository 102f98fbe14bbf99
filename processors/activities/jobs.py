"""An attempt that a worker has taken: how it is read, and the count of what became of all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ...events.codec import decode_task
from ...events.contracts import LOOKUP, ONCE
from ...events.errors import Undecodable
from ...events.keys import session_key, task_key
from ...events.log.protocol import Place, Record
from ...events.records import ActivityTask
from .offsets import Ticket


@dataclass(slots=True, eq=False)
class Job:
    """One attempt to run. `fresh`: it was never handed to any worker before, so nothing of it can have run.

    `seen_ms` is when its task came into the log, if it lay there before this worker had its partition: another may run it.
    `taken_at` is in seconds of its worker's own clock, `log_ms` the newest log time that was known when it was taken, and
    `gaps` how often the worker had been silent for too long when it was last sure of the job (`hearing.py`). `begun` is set
    before the activity's function is called, and tells from then on that it may have done something. `mute`: no key here signs
    a result for its tenant, so that it is not called until one does.
    """

    task: ActivityTask
    command_id: str
    fresh: bool
    tickets: list[Ticket] = field(default_factory=list)
    seen_ms: int | None = None
    taken_at: float = 0.0
    log_ms: int | None = None
    gaps: int = 0
    begun: bool = False
    mute: bool = False

    @property
    def once(self) -> bool:
        """Whether nobody gets this attempt again: its offset was committed before it was handed out."""
        return self.task.contract in ONCE

    @property
    def lay(self) -> bool:
        """Whether its task may have lain in the log for long, so that a word about it may be older than this job."""
        return self.once or self.seen_ms is not None

    @property
    def may_rest(self) -> bool:
        """Whether it may have to wait before its call: for a look-up, for what is known of its authority, or for a key."""
        return self.task.contract == LOOKUP or self.ages or self.mute

    @property
    def ages(self) -> bool:
        """Whether the authority by which it was let go is asked about before its call (`standing.py`)."""
        return self.task.start_by_ms is not None or self.task.control_offset is not None

    @property
    def is_lost(self) -> bool:
        """Whether its partitions were taken away, so that another worker has its task by now."""
        return not self.once and all(ticket.watermark.lost for ticket in self.tickets)

    def lies_in(self, places: Sequence[Place]) -> bool:
        """Whether its task was delivered from these partitions, and from no other."""
        return all(ticket.watermark.place in places for ticket in self.tickets)


@dataclass(slots=True)
class Counts:
    """What became of the records so far."""

    taken: int = 0
    reported: int = 0
    settled: int = 0
    already_settled: int = 0
    expired: int = 0
    dead_letters: int = 0


def task_of(record: Record, *, once: bool) -> ActivityTask:
    """The task in a record of the queue's topic, or of its `.once` topic; `Undecodable` or `InvalidKey` say why not."""
    task = decode_task(record.value, record.headers)
    if record.key != task_key(task.idempotency_key, task.attempt):
        raise Undecodable("wrong_key", f"key {record.key!r} is not that of the task inside")
    session_key(task.tenant, task.session_id)
    if (task.contract in ONCE) is not once:
        told = f"a task of the contract {task.contract!r} does not belong into {record.topic}"
        raise Undecodable("wrong_topic", told)
    return task
