"""The log in memory: the same protocol as Kafka's, deterministic, without threads or real time.

Plain tests use it as it is. The simulation hands in a clock and `Faults`, holds markers back and writes them in any order
(`pending_markers`, `write_marker`), lets late commits arrive (`late_commits`, `arrive`), lets time-outs pass (`expire`)
and reads what is there (`dump`, `group_offsets`, `open_transactions`). A killed process is one whose objects are
dropped: `kill_member` makes sure that its group handle is not used again, and its session ends by time-out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Self

from ..limits import RECORD_BYTES_MAX
from .memory_broker import TOPIC_BYTES_MAX, Broker, LateCommit, MarkerRef, Partition, Topic
from .memory_coordinator import Coordinator
from .memory_faults import Faults, NoFaults
from .memory_group import MemoryGroup
from .memory_producer import MemoryProducer, MemoryTransactionalProducer
from .protocol import (
    SESSION_TIMEOUT_MS,
    EndOfPartition,
    Fatal,
    Isolation,
    Place,
    RebalanceListener,
    Record,
    TopicSpec,
)

TRANSACTION_TIMEOUT_MS = 15_000


class MemoryLog:
    """See `protocol.Log`. Everything it hands out shares one state; one thread uses all of it."""

    def __init__(
        self,
        *,
        now_ms: Callable[[], int] = lambda: 0,
        faults: Faults | None = None,
        record_bytes_max: int = RECORD_BYTES_MAX,
        transaction_timeout_ms: int = TRANSACTION_TIMEOUT_MS,
    ) -> None:
        self._broker = Broker(now_ms, faults or NoFaults(), transaction_timeout_ms)
        self._coordinator = Coordinator(self._broker)
        self._record_bytes_max = record_bytes_max

    def group(
        self,
        group: str,
        topics: Sequence[str],
        listener: RebalanceListener,
        *,
        instance_id: str | None = None,
        session_timeout_ms: int = SESSION_TIMEOUT_MS,
    ) -> MemoryGroup:
        """See the protocol. It joins with its first `poll`."""
        return MemoryGroup(
            self._broker,
            self._coordinator,
            self.expire,
            group=group,
            topics=topics,
            listener=listener,
            instance_id=instance_id,
            session_timeout_ms=session_timeout_ms,
        )

    def reader(
        self, isolation: Isolation = Isolation.COMMITTED, *, fetch_wait_ms: int | None = None
    ) -> MemoryReader:
        """See the protocol; nothing is waited for here."""
        del fetch_wait_ms
        return MemoryReader(self._broker, self.expire, isolation)

    def producer(self) -> MemoryProducer:
        """See the protocol."""
        return MemoryProducer(self._broker, self._record_bytes_max)

    def transactional(self, transactional_id: str) -> MemoryTransactionalProducer:
        """See the protocol."""
        return MemoryTransactionalProducer(
            self._broker, self._coordinator, transactional_id, self._record_bytes_max
        )

    def partitions(self, topic: str) -> int:
        """See the protocol."""
        self._broker.partition(Place(topic, 0))
        return len(self._broker.topics[topic].partitions)

    def ends(self, places: Sequence[Place], isolation: Isolation) -> dict[Place, tuple[int, int]]:
        """See the protocol."""
        found = [self._broker.partition(place) for place in places]
        return {each.place: (each.start, each.limit(isolation)) for each in found}

    def offsets_at(self, places: Sequence[Place], timestamp_ms: int) -> dict[Place, int]:
        """See the protocol."""
        return {place: _offset_at(self._broker.partition(place), timestamp_ms) for place in places}

    def create_topics(self, topics: Sequence[TopicSpec]) -> list[str]:
        """See the protocol."""
        created: list[str] = []
        for spec in topics:
            existing = self._broker.topics.get(spec.name)
            if existing is None:
                partitions = [
                    Partition(Place(spec.name, number)) for number in range(spec.partitions)
                ]
                bytes_max = int(spec.config.get("max.message.bytes", TOPIC_BYTES_MAX))
                self._broker.topics[spec.name] = Topic(spec, partitions, bytes_max)
                created.append(spec.name)
            elif existing.spec.partitions != spec.partitions:
                found = existing.spec.partitions
                raise Fatal(
                    f"topic {spec.name} has {found} partitions, {spec.partitions} are configured; sessions would "
                    f"move away from their history: configure {found}, or use another namespace"
                )
        return created

    def delete_topics(self, names: Sequence[str]) -> None:
        """See the protocol."""
        for name in names:
            self._broker.topics.pop(name, None)

    def cluster_id(self) -> str:
        """See the protocol."""
        return "memory"

    def close(self) -> None:
        """See the protocol."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def expire(self) -> None:
        """Lets what is over by the clock be over: transactions and sessions. Members and readers call it themselves."""
        self._broker.expire()
        self._coordinator.expire()

    def pending_markers(self) -> list[MarkerRef]:
        """Markers of decided transactions that are still to be written, oldest decision first."""
        return self._broker.pending_markers()

    def write_marker(self, ref: MarkerRef) -> None:
        """Writes one of them."""
        self._broker.write_marker(ref)

    def settle(self) -> None:
        """Writes all of them."""
        for ref in self._broker.pending_markers():
            self._broker.write_marker(ref)

    def late_commits(self) -> list[LateCommit]:
        """Commit requests that are still on their way."""
        return list(self._broker.late_commits)

    def arrive(self, late: LateCommit) -> None:
        """Lets one of them reach the coordinator."""
        self._broker.arrive(late)

    def kill_member(self, member: MemoryGroup) -> None:
        """The member's process is gone; see `MemoryGroup.kill`."""
        member.kill()

    def trim(self, place: Place, before: int) -> None:
        """Retention has removed everything below an offset."""
        self._broker.partition(place).start = before

    def dump(self, topic: str, isolation: Isolation = Isolation.COMMITTED) -> list[Record]:
        """All records one may see, partition after partition."""
        records: list[Record] = []
        for partition in self._broker.topics[topic].partitions:
            records += partition.read(partition.start, len(partition.entries), isolation)[0]
        return records

    def group_offsets(self, group: str) -> dict[Place, int]:
        """What the group has committed; pending offsets are not in it."""
        return dict(self._coordinator.group(group).committed)

    def group_owners(self, group: str) -> dict[Place, str]:
        """Which member has which partition; a partition on its way is its old owner's."""
        members = self._coordinator.group(group).members.values()
        return {place: member.member_id for member in members for place in sorted(member.owned)}

    def open_transactions(self) -> list[str]:
        """Transactional ids with a transaction nobody has decided."""
        return [transaction.transactional_id for transaction in self._broker.open_transactions()]


class MemoryReader:
    """Reads partitions from given positions."""

    def __init__(self, broker: Broker, expire: Callable[[], None], isolation: Isolation) -> None:
        self._broker = broker
        self._expire = expire
        self._isolation = isolation
        self._positions: dict[Place, int] = {}
        self._told: dict[Place, int] = {}

    def assign(self, positions: Mapping[Place, int]) -> None:
        """See the protocol."""
        self._positions = dict(positions)
        self._told = {}

    def poll(self, records_max: int, timeout_ms: int) -> list[Record | EndOfPartition]:  # noqa: ARG002 no real time
        """See the protocol. Never waits; an end is told once."""
        self._expire()
        found: list[Record | EndOfPartition] = []
        for place, position in self._positions.items():
            if len(found) >= records_max:
                break
            partition = self._broker.partition(place)
            if self._told.get(place) == position == len(partition.entries):
                continue  # nothing is new, as mostly
            records, reached = partition.read(position, records_max - len(found), self._isolation)
            self._positions[place] = reached
            found += records
            at_end = reached == partition.limit(self._isolation)
            if at_end and self._told.get(place) != reached and len(found) < records_max:
                self._told[place] = reached
                found.append(EndOfPartition(place.topic, place.partition, reached))
        return found

    def close(self) -> None:
        """See the protocol."""
        self._positions = {}


def _offset_at(partition: Partition, timestamp_ms: int) -> int:
    for offset in range(partition.start, len(partition.entries)):
        record = partition.entries[offset][0]
        if record is not None and record.timestamp_ms >= timestamp_ms:
            return offset
    return len(partition.entries)
