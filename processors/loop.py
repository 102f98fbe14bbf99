"""The transactional loop of a session processor, as a step machine: it stops between any two calls to a port.

`steps()` yields the name of each crash point as it passes it; production drives it in a `for`, the simulation picks
who steps next and may drop it anywhere. The rules that make it exactly-once:

1. begin → the group's membership → offsets, for every partition that will be written for → fold on scratch copies →
   produce → commit → only then replace live states, and the file behind them.
2. Any fault, unknown outcome or lost partition has one answer, `_recover`: a new producer (its `start` settles the old
   one), live states and coroutines forgotten, and every owned partition restored from what is committed. The lost
   answer may have been "committed", so events are folded again before commands go on.
3. A rebalance is met with no transaction open (callbacks run inside `poll`); the records of that poll are thrown away.
4. Faults in a row end the process, and so does a fatal one; the supervisor starts it again under the same names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import structlog

from ..commands.identity import INSECURE, Identity
from ..events.log.protocol import (
    Fatal,
    Group,
    Log,
    LogFault,
    NotYet,
    OffsetGone,
    Place,
    Producer,
    Record,
    TransactionalProducer,
)
from ..events.topics import Topics
from .clock import Clock
from .control import Control
from .handler import CommandHandler
from .outputs import Folded, Folder, with_batch
from .partition import Partition
from .quotas import Quotas
from .rebalances import Changes, Listener
from .stalls import Stalls
from .wake_ups import WakeUps

logger = structlog.get_logger(__name__)

FAULTS_IN_A_ROW_MAX = 3
"""Recoveries without a commit between them; after that a fresh process is the better cure."""

SHRINK_BITS = 2
"""A batch is four times smaller after each fault, and twice as large after each commit: one that outlives its
transaction would do so for ever."""

BATCH_BYTES_MAX = 4 * 1024 * 1024
"""Bytes of commands in one transaction: what they lead to takes about as much again."""

BUSY_RECORDS = 4
"""A batch of so many was no single session's; before the next one it pays to let more commands come."""

GATHER_MS = 8
"""How long: a transaction's price is fixed, and under load it is paid by more commands this way."""


class LoopFailed(Exception):
    """The loop gave up; the process ends with a non-zero code and is started again."""


@dataclass(frozen=True, slots=True)
class LoopSettings:
    """`name` is the processor's stable name (group and ordinal): its group instance and transactional id."""

    group: str
    name: str
    folder: Path | None
    batch_records: int = 500
    poll_ms: int = 100
    wake_ms: int = 50
    session_timeout_ms: int = 10_000

    def __post_init__(self) -> None:
        for bound in ("batch_records", "poll_ms", "wake_ms", "session_timeout_ms"):
            if getattr(self, bound) < 1:
                raise ValueError(f"{bound} is {getattr(self, bound)}: expected 1 or more")


class Loop:
    """See the module. Not thread-safe: one thread owns it and its clients."""

    def __init__(
        self,
        log: Log,
        topics: Topics,
        handler: CommandHandler,
        settings: LoopSettings,
        clock: Clock,
        *,
        identity: Identity = INSECURE,
        quotas: Quotas | None = None,
        open_partition: Callable[[int], Partition] | None = None,
        pause: Callable[[int], None] | None = None,
        control: Control | None = None,
    ) -> None:
        """`pause` waits for some milliseconds, to gather commands under load; without it nothing is gathered.

        `control` says by which policy to decide; without it the handler's facts stay as they are. `identity` judges every
        command before anything is made of it, and signs wake-ups; by default all are believed.
        """
        self._log, self._topics = log, topics
        self._settings, self._clock = settings, clock
        self._handler, self._control = handler, control
        self._folder = Folder(topics, handler, quotas, identity)
        self._let_go = handler.let_go
        self._open_partition = open_partition or self._partition
        self._listener = Listener()
        self._partitions: dict[int, Partition] = {}
        self._folded: list[Folded] = []
        self._stalls = Stalls(log)
        self._wake_ups = WakeUps(topics.commands, identity)
        self._producer: TransactionalProducer
        self._faults = 0
        self._shrunk_bits = 0
        self._woke_ms = 0
        self._log_ms = 0
        self._pause = pause
        self._last_batch = 0
        self.stopping = False

    def steps(self) -> Iterator[str]:
        """Runs until `stopping`; yields crash points. Closes what it opened when it is exhausted or closed."""
        settings = self._settings
        group = self._log.group(
            settings.group,
            [self._topics.commands],
            self._listener,
            instance_id=settings.name,
            session_timeout_ms=settings.session_timeout_ms,
        )
        wakes = self._log.producer()
        self._producer = self._log.transactional(settings.name)
        try:
            yield from self._start_producer()
            if self._control is not None:
                self._control.open()
            while not self.stopping:
                yield from self._cycle(group, wakes)
        finally:
            self._producer.abandon()
            for partition in self._partitions.values():
                partition.close()
            if self._control is not None:
                self._control.close()
            wakes.close()
            group.close()

    def _cycle(self, group: Group, wakes: Producer) -> Iterator[str]:
        records_max = max(1, self._settings.batch_records >> self._shrunk_bits)
        try:
            if self._folder.partitions is None:
                self._folder.partitions = self._log.partitions(self._topics.commands)
            if self._pause is not None and self._last_batch >= BUSY_RECORDS:
                self._pause(GATHER_MS)
            records = group.poll(records_max, self._poll_ms())
            self._last_batch = len(records)
            changes = self._listener.take()
            yield "p.polled"
            if changes:
                self._rebalance(group, changes)
                records = []
            elif not records:
                self._look_for_stalls()
                for partition in self._partitions.values():
                    partition.pass_marks()
            yield from self._restore(group)
            by_partition = self._by_partition(group, records)
            self._look(wakes)
            if by_partition:
                yield from self._transact(group, by_partition)
                self._faults = 0
                self._shrunk_bits = max(0, self._shrunk_bits - 1)
            self._wake(wakes)
        except (Fatal, OffsetGone):
            raise
        except LogFault as fault:
            yield from self._recover(group, fault)

    def _look(self, producer: Producer) -> None:
        """What the next transaction goes by; it holds for all of it. Told only once nothing goes by what was before."""
        if self._control is not None:
            self._control.look()
            control = self._control
            self._handler.go_by(control.policy, control.offset, control.rollouts)
            self._control.tell(producer)

    def _transact(self, group: Group, by_partition: dict[Partition, list[Record]]) -> Iterator[str]:
        producer = self._producer
        producer.begin()
        membership = group.membership()
        yield "p.begun"
        offsets = {
            partition.places.commands: records[-1].offset + 1
            for partition, records in by_partition.items()
        }
        producer.send_offsets(offsets, membership)
        yield "p.offsets_sent"
        folded = self._folded = [
            self._folder.fold(partition, records) for partition, records in by_partition.items()
        ]
        first = next(iter(by_partition.values()))[0]
        batch_id = f"{self._settings.name}/{first.partition}/{first.offset}"
        outputs = [output for share in folded for output in share.outputs]
        for output in with_batch(outputs, batch_id):
            producer.produce(
                output.topic,
                key=output.key,
                value=output.value,
                headers=output.headers,
                partition=output.partition,
            )
        yield "p.produced"
        yield "p.commit_sent"
        positions = producer.commit()
        yield "p.committed"
        for share in folded:
            self._keep(share, positions)
        self._folded = []
        yield "p.stored"

    @staticmethod
    def _keep(share: Folded, positions: dict[Place, int]) -> None:
        partition = share.partition
        before = partition.store.position or 0
        highest = positions.get(partition.places.events)
        after = before if highest is None else highest + 1
        partition.keep(
            share.changes(), position=after, open_from=before, cause_high=share.cause_high
        )
        share.meters.keep()
        partition.next_offset = share.next_offset

    def _recover(self, group: Group, fault: LogFault) -> Iterator[str]:
        """The one way back; see rule 2."""
        self._faults += 1
        self._shrunk_bits += SHRINK_BITS
        logger.warning("transaction failed, recovering", fault=str(fault), in_a_row=self._faults)
        if self._faults > FAULTS_IN_A_ROW_MAX:
            raise LoopFailed(f"{self._faults} faults in a row, the last: {fault}") from fault
        self._producer.abandon()
        for share in self._folded:
            for session in share.scratch.values():
                self._let_go(session)  # of a new one nobody else has the coroutine
        self._folded = []
        yield "p.abandoned"
        self._producer = self._log.transactional(self._settings.name)
        yield from self._start_producer()
        group.pause([p.places.commands for p in self._partitions.values()])
        for partition in self._partitions.values():
            partition.forget()
            partition.restoring = partition.restore(group)

    def _start_producer(self) -> Iterator[str]:
        while True:
            try:
                self._producer.start()
            except NotYet:
                yield "p.starting"
            else:
                return

    def _look_for_stalls(self) -> None:
        ready = (p for p in self._partitions.values() if p.ready)
        standing = {p.places.commands: p.next_offset for p in ready}
        self._stalls.look(standing, self._clock.steady_ms())

    def _rebalance(self, group: Group, changes: Changes) -> None:
        """Drops what is gone, begins to restore what is new, and goes back to the last position of what stays."""
        for number in changes.gone:
            partition = self._partitions.pop(number, None)
            if partition is not None:
                partition.close()
        for number in changes.assigned:
            if number in self._partitions:
                self._partitions.pop(number).close()
            partition = self._open_partition(number)
            partition.restoring = partition.restore(group)
            self._partitions[number] = partition
        for number, partition in self._partitions.items():
            if number not in changes.assigned and partition.ready:
                group.seek(partition.places.commands, partition.next_offset)

    def _restore(self, group: Group) -> Iterator[str]:
        """One slice for each partition that is not ready; the others keep running."""
        for partition in list(self._partitions.values()):
            if partition.restoring is None:
                continue
            point = next(partition.restoring, None)
            if point is not None:
                yield point
                continue
            partition.restoring = None
            partition.ready = True
            group.seek(partition.places.commands, partition.next_offset)
            logger.debug(
                "partition ready", partition=partition.number, offset=partition.next_offset
            )

    def _by_partition(self, group: Group, records: list[Record]) -> dict[Partition, list[Record]]:
        """The batch; what is over its bytes is read again, so that a transaction stays below its time-out."""
        shares: dict[Partition, list[Record]] = {}
        left: dict[Partition, int] = {}
        size = 0
        for record in records:
            self._log_ms = max(self._log_ms, record.timestamp_ms)
            partition = self._partitions.get(record.partition)
            if partition is None or not partition.ready or record.offset < partition.next_offset:
                continue
            size += len(record.value or b"")
            if shares and size > BATCH_BYTES_MAX:
                left.setdefault(partition, record.offset)
            else:
                shares.setdefault(partition, []).append(record)
        for partition, offset in left.items():
            group.seek(partition.places.commands, offset)
        return shares

    def _wake(self, producer: Producer) -> None:
        steady_ms = self._clock.steady_ms()
        producer.poll()
        if steady_ms - self._woke_ms < self._settings.wake_ms:
            return
        self._woke_ms = steady_ms
        now_ms = max(self._clock.now_ms(), self._log_ms)
        for partition in self._partitions.values():
            self._wake_ups.send(producer, partition, now_ms=now_ms, steady_ms=steady_ms)

    def _poll_ms(self) -> int:
        """Short while something is being restored, else long enough to sleep and short enough to wake sessions."""
        if any(p.restoring is not None for p in self._partitions.values()):
            return 0
        return self._settings.poll_ms

    def _partition(self, number: int) -> Partition:
        return Partition(
            number,
            self._topics,
            self._log,
            self._settings.group,
            self._settings.folder,
            let_go=self._let_go,
        )
