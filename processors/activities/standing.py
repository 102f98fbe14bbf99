"""Whether an attempt may begin now: the authority by which it was let go still stands, and its worker can say what came of it.

The task says until when it may begin, and up to where the control topic was known when it was let go. A worker reads that
topic while it has such tasks and at no other time, and of it only where policy was published: what a policy says is the
engine's to judge, which looks again at what is given back. So is who may publish: whatever lies under the policy's key
counts here, for a worker may have no key that tells publishers apart, and a stranger makes tasks come back and no more.

```
begun too late, or policy published since ─▶ Outdated: it is given back unrun
nobody knows what was published since     ─▶ Unsure: it waits, until somebody does or it is too late
no key here signs a result of its tenant  ─▶ Unsure: it waits, until one does
```

So a worker that cannot read the control topic runs nothing that somebody had to approve. It does not give that back at
once either: the engine would only send it again, to the same worker. A body that has begun is not asked about any more.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from math import inf

import structlog

from ...events.log.protocol import (
    Isolation,
    Log,
    LogFault,
    NotYet,
    OffsetGone,
    Place,
    Reader,
    Record,
)
from ..control import POLICY_KEY
from .jobs import Job

KNOWN_MS = 1_000
"""What was read holds for so long: a worker that stood still for longer reads again before it begins anything."""

AGAIN_MS = 5_000
"""Between two tries after a fault: a look may block for the client's own time-out."""

RECORDS_MAX = 500
POLL_MS = 50
POLLS_MAX = 20
"""Of one look at a topic of some dozens of records."""

logger = structlog.get_logger("wakeful.worker")


class Outdated(Exception):
    """The attempt must not begin by the authority that let it go."""


class Unsure(Exception):
    """Nobody here knows whether it may: rest, and ask again."""


class Standing:
    """One for all queues of a worker process: any thread may `check`, and whichever intake looks, looks for all."""

    def __init__(
        self,
        log: Log,
        topic: str,
        *,
        monotonic: Callable[[], float],
        now_ms: Callable[[], int],
        may_speak: Callable[[str], bool],
    ) -> None:
        """`may_speak` is whether a key that is there now signs results of a tenant."""
        self._log, self._place = log, Place(topic, 0)
        self._monotonic, self._now_ms = monotonic, now_ms
        self._may_speak = may_speak
        self._keyless: set[str] = set()
        self._looking = threading.Lock()
        self._reader: Reader | None = None
        self._reached = 0
        self._policy_at = -1
        """Offset of the newest policy that was published, or taken back."""
        self._known_at, self._again_at = -inf, -inf
        self._wanted = self._faulty = False

    def check(self, job: Job) -> None:
        """To be asked just before the call. Raises `Outdated` or `Unsure`."""
        task, now = job.task, self._monotonic()
        if job.mute:
            self._look_for_key(job)
        if task.start_by_ms is not None and self._newest_ms(job, now) >= task.start_by_ms:
            raise Outdated
        if task.control_offset is None:
            return
        if self._policy_at >= task.control_offset:
            raise Outdated
        if now - self._known_at > KNOWN_MS / 1000:
            self._wanted = True
            raise Unsure

    def look(self, jobs: Sequence[Job] = ()) -> None:
        """Reads to the end that is there now, where one of these jobs, or one that rests, asks for it. Raises no fault."""
        if any(job.task.control_offset is not None for job in jobs):
            self._wanted = True
        if not self._wanted or self._monotonic() < self._again_at:
            return
        if not self._looking.acquire(blocking=False):
            return  # another intake reads, perhaps from before this was asked: it is looked again
        try:
            self._look()
        finally:
            self._looking.release()

    def close(self) -> None:
        """Frees the reader."""
        with self._looking:
            self._let_go()

    def _look_for_key(self, job: Job) -> None:
        """What is called while nobody could say what came of it would be called again by whoever can."""
        tenant = job.task.tenant
        job.mute = not self._may_speak(tenant)
        if not job.mute:
            self._keyless.discard(tenant)
            return
        if tenant not in self._keyless:
            self._keyless.add(tenant)
            logger.warning(
                "no key of this worker signs results of this tenant: its tasks wait until one does",
                tenant=tenant,
                next_step="make one with 'wakeful keys new --role worker', or give the tenant's tasks a queue of their own",
            )
        raise Unsure

    def _newest_ms(self, job: Job, now: float) -> int:
        """By the log, as far as it is known, or by this worker's own clock: too late by either is too late."""
        own_ms = self._now_ms()
        if job.log_ms is None:
            return own_ms
        return max(own_ms, job.log_ms + round((now - job.taken_at) * 1000))

    def _look(self) -> None:
        self._wanted, now = False, self._monotonic()
        try:
            self._read()
        except LogFault as fault:
            self._wanted, self._again_at = True, self._monotonic() + AGAIN_MS / 1000
            self._let_go(forget=isinstance(fault, OffsetGone))
            if not self._faulty:
                logger.warning(
                    "policy cannot be read for now: what somebody had to approve waits",
                    fault=str(fault),
                )
            self._faulty = True
        else:
            self._known_at, self._faulty = now, False

    def _read(self) -> None:
        start, end = self._log.ends([self._place], Isolation.COMMITTED)[self._place]
        if end < self._reached:
            raise OffsetGone(f"{self._place.topic} ends at {end}, and was read to {self._reached}")
        if self._reader is None:
            self._reached = max(self._reached, start)
            self._reader = self._log.reader(Isolation.COMMITTED)
            self._reader.assign({self._place: self._reached})
        for _ in range(POLLS_MAX):
            if self._reached >= end:
                return
            for item in self._reader.poll(RECORDS_MAX, POLL_MS):
                self._reached = item.offset
                if isinstance(item, Record):
                    self._take(item)
        raise NotYet(f"{self._place.topic} was not read to offset {end}: is its leader there?")

    def _take(self, record: Record) -> None:
        self._reached = record.offset + 1
        if record.key == POLICY_KEY:
            self._policy_at = record.offset

    def _let_go(self, *, forget: bool = False) -> None:
        reader, self._reader = self._reader, None
        if forget:
            self._reached, self._policy_at = 0, -1
        if reader is not None:
            reader.close()
