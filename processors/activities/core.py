"""The worker as small steps, without asyncio: take tasks, say which run, report results, commit what is settled.

```
poll ─ adopt new partitions (position, end) ─ take records ┬─ undecodable, or not of this topic → dead letter → settled
                                                          ├─ result in log    → settled
                                                          ├─ past its deadline → settled
                                                          ├─ running already  → joins that job
                                                          └─ else             → Job, for the caller to run
report(job, body) ─ produce the result ─ … acknowledged ─ settle ─ commit the low watermark
```

What no key signs waits: see `unsaid.py`. What comes from the `.once` topic is committed first: see `once.py`.

Two threads may use it: `report`, `beat`, `give_back` and `expire` belong to whoever runs the activities, all else to the intake.
What they share are two queues and the producer. The simulation calls both from one thread.

After a crash anywhere, a task is delivered again. Its result, once acknowledged, is found in the log and not
computed again; a call that was cut runs again with the same key.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

import structlog

from ...commands.identity import INSECURE, Identity
from ...commands.models import ReturnActivity
from ...events.errors import InvalidKey, Undecodable
from ...events.keys import attempt_id
from ...events.log.protocol import (
    Fatal,
    Group,
    Isolation,
    Log,
    LogFault,
    NotYet,
    OffsetGone,
    Place,
    Record,
)
from ...events.topics import Topics
from ..failpoints import no_failpoint
from .attempt import let_go
from .beats import Beat
from .held import Held
from .jobs import Counts, Job, task_of
from .offsets import Offsets, Ticket
from .once import Letter, OnceTasks, ends_of
from .reports import Reports
from .retold import Again
from .runner import Body
from .seat import Seat
from .sending import Sender
from .settled import Settled
from .unsaid import Unsaid

SESSION_TIMEOUT_MS = 1_500
"""A dead worker's tasks are given to others this long after its last heartbeat, or after the brokers' floor (6 s)."""

UNSETTLED_MAX = 10_000
"""Results on their way to the broker; more, and no task is taken."""

FAULTS_MAX = 100
"""Times in a row that positions or recorded results cannot be read (a leader moves, say) before the worker ends."""

LATE_MS = 60_000
"""A task is past its deadline only when the log's clock is this far past it: brokers' clocks differ."""

logger = structlog.get_logger("wakeful.worker")


class WorkerCore:
    """One member of one queue's group."""

    def __init__(
        self,
        log: Log,
        topics: Topics,
        queue: str,
        *,
        seat: Seat,
        worker_id: str,
        now_ms: Callable[[], int],
        identity: Identity = INSECURE,
        hit: Callable[[str], None] = no_failpoint,
        draining: Callable[[Sequence[Place]], None] = lambda _places: None,
        own_ms: Callable[[], int] | None = None,
    ) -> None:
        self.counts, self.offsets = Counts(), Offsets()
        self.queue, self._log, self._topics = queue, log, topics
        self._seat, self._worker_id, self._own_ms = seat, worker_id, own_ms or now_ms
        self._reports = Reports(topics, worker_id, now_ms, identity)
        self._hit, self._draining = hit, draining
        self._settled = Settled(log, topics, late_ms=LATE_MS, identity=identity)
        self._group: Group | None = None
        self._arriving: set[Place] = set()
        self._jobs: dict[str, Job] = {}
        self._taken_once: set[Job] = set()
        self._sender: Sender[Job | Ticket | Letter | Beat | Again] = Sender(log, self._acknowledge)
        self.unsaid = Unsaid(self._reports, self._sender.send, now_ms)
        self._given_back, self._expired = deque[Job](), deque[Job]()
        self._held = Held(self._settled, self.offsets)
        self._once_topic = topics.activities(queue, once=True)
        self._once, self._faults, self._log_ms = OnceTasks(self._bury), 0, 0

    def open(self) -> None:
        """Joins the group; partitions arrive with the next polls."""
        self._sender.open()
        self._group = self._log.group(
            self._seat.group,
            [self._topics.activities(self.queue), self._once_topic],
            _Listener(self),
            instance_id=self._seat.instance,
            session_timeout_ms=SESSION_TIMEOUT_MS,
        )

    @property
    def running(self) -> int:
        """Jobs taken whose report has not been handed in."""
        return self.counts.taken - self.counts.reported

    @property
    def unsettled(self) -> int:
        """Jobs taken whose result is not acknowledged."""
        return len(self._jobs)

    @property
    def sending(self) -> int:
        """Reports handed in whose acknowledgement is not here."""
        return self._sender.unacknowledged

    @property
    def waiting_once(self) -> int:
        """Tasks that must not run twice, fetched and not taken."""
        return len(self._once)

    @property
    def unbegun_once(self) -> int:
        """Of those taken, how many have not begun."""
        return sum(not job.begun for job in self._taken_once)

    def poll(self, records_max: int, timeout_ms: int, *, once_max: int | None = None) -> list[Job]:
        """Fetches up to `records_max` records and returns those that are to run.

        Of those that must not run twice up to `once_max` are taken, all that are here by default: no more than can
        start at once, since one that is taken and then lost with its worker is uncertain.
        """
        once_max = len(self._once) + records_max if once_max is None else once_max
        try:
            self._adopt()
            fetched = self._joined.poll(
                records_max, 0 if self._once.ready(once_max) else timeout_ms
            )
            self._once.add([record for record in fetched if record.topic == self._once_topic])
            self._held.add([record for record in fetched if record.topic != self._once_topic])
            self.settle()
            if not self.unsaid.mute:  # what is looked up is taken at once, or it is old news
                self._log_ms = self._held.look_up(self._log_ms)
        except (Fatal, OffsetGone):
            raise
        except LogFault as fault:
            self._faults += 1
            if self._faults > FAULTS_MAX:
                raise
            logger.info("asking again", queue=self.queue, times=self._faults, fault=str(fault))
            return []  # what was fetched is held, and taken once its results can be looked up
        self._faults = 0
        if self.unsaid.mute:
            return []
        taken = self._once.take(self._joined, once_max)
        jobs = self._take(taken)
        self.offsets.committed(ends_of(taken))
        return jobs + self._take(self._held.take())

    def is_over(self, job: Job) -> bool:
        """Whether it is past its deadline (by the newest log time known, or long by this clock), or others have it by now."""
        return job.is_lost or job.task.deadline_ms <= max(self._log_ms, self._own_ms() - LATE_MS)

    def report(self, job: Job, body: Body | ReturnActivity) -> None:
        """Sends what is to be said of a job, once a key signs it; it is settled when the broker has acknowledged it."""
        self.unsaid.say(job, body)
        self.counts.reported += 1

    def beat(self, beat: Beat) -> None:
        """Sends a sign of life and returns; it is told of its acknowledgement."""
        self.unsaid.say(beat, beat.body)

    def give_back(self, job: Job) -> None:
        """Lets go of a job without a result: its task stays uncommitted and is delivered again to somebody.

        One that nobody is given again is reported instead, as not begun or as cut off.
        """
        told = let_go(job.task, begun=job.begun, worker=self._worker_id)
        if told is not None:
            self.report(job, told)
            return
        self._given_back.append(job)
        self.counts.reported += 1

    def expire(self, job: Job) -> None:
        """Lets go of a job for good: nobody waits for it, or the log has its result."""
        self._expired.append(job)
        self.counts.reported += 1

    def settle(self) -> None:
        """Takes note of what the broker has acknowledged, and sends again what it has not."""
        self._given_back.extend(self.unsaid.look())
        self._sender.settle()
        while self._given_back:
            self._let_go(self._given_back.popleft())
        while self._expired:
            self.counts.expired += 1
            self._finish(self._expired.popleft())

    def commit(self) -> None:
        """Commits what can be; a refusal is no loss, since what is not committed is only looked up again."""
        if not (due := self.offsets.due()):
            return
        try:
            self._joined.commit(due)
        except LogFault as fault:
            logger.debug("offsets not committed", queue=self.queue, fault=str(fault))
            return
        self.offsets.committed(due)

    def pause(self) -> None:
        """Takes no more tasks; membership goes on."""
        self._joined.pause(self.offsets.places)

    def resume(self) -> None:
        """Takes tasks again."""
        self._joined.resume(self.offsets.places)

    def flush(self, timeout_ms: int) -> None:
        """Waits for acknowledgements, then commits."""
        self._sender.flush(timeout_ms)
        if self._group is not None:
            self.commit()

    def close(self) -> None:
        """Leaves the group, so that others get the partitions at once."""
        group, self._group = self._group, None
        try:
            if group is not None:
                group.close()
        finally:
            self._sender.close()

    def assigned(self, places: Sequence[Place]) -> None:
        """Told by the group, inside `poll`."""
        self._arriving.update(places)

    def revoked(self, places: Sequence[Place]) -> None:
        """Told by the group, inside `poll`: lets running jobs finish (bounded), commits, and lets go."""
        self._arriving.difference_update(places)
        mine = [place for place in places if self.offsets.mark(place) is not None]
        if mine:
            self._draining(mine)
            self.settle()
            self.commit()
        self._forget(places)

    def lost(self, places: Sequence[Place]) -> None:
        """Told by the group, inside `poll`: others may have the partitions already."""
        self._arriving.difference_update(places)
        self._forget(places)

    def unsettled_in(self, places: Sequence[Place]) -> int:
        """How many of these partitions' jobs have no acknowledged result, without those that wait for a key."""
        return sum(job.lies_in(places) and job not in self.unsaid for job in self._jobs.values())

    def has(self, job: Job) -> bool:
        """Whether its result is still to be acknowledged."""
        return self._jobs.get(job.command_id) is job

    def results_of(self, jobs: Sequence[Job]) -> set[str]:
        """Which of these have a result in the log by now; raises `LogFault` where it cannot be read."""
        since_ms = min(job.seen_ms or 0 for job in jobs)
        return self._settled.found_among({job.command_id for job in jobs}, since_ms)

    def _adopt(self) -> None:
        """Positions partitions that were just given to us, and notes their ends: what lies below may have run."""
        if not self._arriving:
            return
        places = sorted(self._arriving)
        try:
            committed = self._joined.committed(places)
        except NotYet:
            return  # asked again at the next poll, however long a transaction holds them
        ends = self._log.ends(places, Isolation.COMMITTED)
        self._settled.forget()
        for place in places:
            (first, end), position = ends[place], committed[place]
            if position is not None and position < first:
                logger.warning(
                    "tasks were deleted before they ran",
                    place=place,
                    committed=position,
                    first=first,
                )
            start = first if position is None else max(first, position)
            once = place.topic == self._once_topic
            self.offsets.assign(place, start, start if once else end)
            self._joined.seek(place, start)
            self._arriving.discard(place)

    def _forget(self, places: Sequence[Place]) -> None:
        self.offsets.drop(places)
        self._held.drop(places)
        self._once.drop(places)

    def _take(self, records: Sequence[Record]) -> list[Job]:
        jobs = []
        for record in records:
            self._log_ms = max(self._log_ms, record.timestamp_ms)
            job = self._take_one(record)
            if job is not None:
                self._hit("w.leased")
                jobs.append(job)
        return jobs

    def _take_one(self, record: Record) -> Job | None:
        mark = self.offsets.mark(Place(record.topic, record.partition))
        if mark is None:
            return None  # taken away meanwhile; its new owner has it
        ticket, once = mark.take(record.offset), record.topic == self._once_topic
        if once:
            ticket.settle()  # it is committed
        try:
            task = task_of(record, once=once)
        except (Undecodable, InvalidKey) as error:
            self._bury(record, ticket, error)
            return None
        command_id = attempt_id(task.idempotency_key, task.attempt)
        if (running := self._jobs.get(command_id)) is not None:
            running.tickets.append(ticket)
            return None
        if record.offset < mark.fresh_from and command_id in self._settled:
            self.counts.already_settled += 1
            ticket.settle()
            return None
        if task.deadline_ms + LATE_MS <= self._log_ms:
            self.counts.expired += 1
            ticket.settle()
            return None
        self.counts.taken += 1
        fresh = once or (task.attempt == 1 and record.offset >= mark.fresh_from)
        seen_ms = record.timestamp_ms if record.offset < mark.fresh_from else None
        job = self._jobs[command_id] = Job(task, command_id, fresh, [ticket], seen_ms)
        job.log_ms, job.mute = self._log_ms, not self._reports.may_speak(task.tenant)
        if once:
            self._taken_once.add(job)
        return job

    def _bury(
        self, record: Record, ticket: Ticket | Letter, error: Undecodable | InvalidKey
    ) -> None:
        at = f"{record.topic}[{record.partition}]@{record.offset}"
        logger.warning("task sent to dead letters", at=at, why=str(error))
        self.counts.dead_letters += 1
        self._sender.send(ticket, self._reports.dead_letter(record, error))

    def _acknowledge(self, owner: Job | Ticket | Letter | Beat | Again) -> None:
        if isinstance(owner, Beat | Again):
            owner.acknowledged()
            return
        self._hit("w.result_sent")
        if isinstance(owner, Ticket | Letter):
            owner.settle()
            return
        self.counts.settled += 1
        self._finish(owner)

    def _finish(self, job: Job) -> None:
        self._let_go(job)
        for ticket in job.tickets:
            ticket.settle()

    def _let_go(self, job: Job) -> None:
        self._taken_once.discard(job)
        if self._jobs.get(job.command_id) is job:
            del self._jobs[job.command_id]

    @property
    def _joined(self) -> Group:
        if self._group is None:
            raise LogFault("the worker has not joined its group, or has left it")
        return self._group


class _Listener:
    """Passes on what the group says; a class of its own keeps these names off the worker's public face."""

    def __init__(self, core: WorkerCore) -> None:
        self.assigned = core.assigned
        self.revoked = core.revoked
        self.lost = core.lost
