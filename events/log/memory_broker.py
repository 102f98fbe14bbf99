"""The memory log's broker: partitions, transactions, their markers, and the epochs of transactional ids.

What it copies from Kafka, because engines have lost or doubled records over each of these:

- A decided transaction is visible in one partition and not yet in the next: each marker is written by itself, takes an
  offset, and until then holds the partition's last stable offset (LSO) back.
- Offsets inside a transaction are pending until the group's own marker is written.
- Registering a transactional id raises its epoch, ends what was left open, and completes what was decided.
- A transaction that outlives its time-out is aborted by the broker, which raises the epoch too.
- A commit request that arrives late decides whatever is open *then* under its epoch (KAFKA-17754).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from ..keys import partition_of
from .memory_faults import Faults, Markers
from .protocol import Fatal, Headers, Isolation, LogFault, OffsetGone, Place, Record, TopicSpec

TOPIC_BYTES_MAX = 1_048_588  # a broker's default `message.max.bytes`


class MarkerRef(NamedTuple):
    """One marker still to be written: to a partition, or to a group's offsets."""

    transactional_id: str
    transaction: int
    target: Place | str


class LateCommit(NamedTuple):
    """A commit request that is still on its way."""

    transactional_id: str
    epoch: int


@dataclass(eq=False, slots=True)
class Transaction:
    """From the first record or offset to the last marker."""

    transactional_id: str
    number: int
    started_ms: int
    partitions: dict[Place, Partition] = field(default_factory=dict)
    groups: list[str] = field(default_factory=list)
    committed: bool | None = None
    unmarked: set[Place | str] = field(default_factory=set)


class Partition:
    """One partition's entries; an entry without a record is a marker, and an offset is an index."""

    __slots__ = ("entries", "open", "place", "start")

    def __init__(self, place: Place) -> None:
        self.place = place
        self.start = 0
        self.entries: list[tuple[Record | None, Transaction | None]] = []
        self.open: dict[Transaction, int] = {}

    def limit(self, isolation: Isolation) -> int:
        """The end of what a reader of that isolation may see."""
        if self.open and isolation is Isolation.COMMITTED:
            return min(self.open.values())
        return len(self.entries)

    def read(
        self, position: int, records_max: int, isolation: Isolation
    ) -> tuple[list[Record], int]:
        """Visible records from a position on, and the position behind them."""
        if not self.start <= position <= len(self.entries):
            raise OffsetGone(
                f"{self.place.topic}[{self.place.partition}]@{position}: the log holds {self.start} to "
                f"{len(self.entries)}; nothing is skipped in silence"
            )
        records: list[Record] = []
        if position == len(self.entries):
            return records, position
        limit = self.limit(isolation)
        while position < limit and len(records) < records_max:
            record, transaction = self.entries[position]
            position += 1
            if record is None:
                continue
            if transaction is None or transaction.committed or isolation is Isolation.UNCOMMITTED:
                records.append(record)
        return records, position


@dataclass(slots=True)
class Topic:
    """A topic; records without a key go round its partitions."""

    spec: TopicSpec
    partitions: list[Partition]
    bytes_max: int
    keyless: int = 0


@dataclass(slots=True)
class Holder:
    """What the coordinator knows of one transactional id."""

    epoch: int = 0
    open: Transaction | None = None
    decided: Transaction | None = None  # until its last marker is written


class Broker:
    """The shared state of everything one `MemoryLog` hands out; `appended` counts records and markers."""

    def __init__(
        self, now_ms: Callable[[], int], faults: Faults, transaction_timeout_ms: int
    ) -> None:
        self.now_ms = now_ms
        self.faults = faults
        self.topics: dict[str, Topic] = {}
        self.late_commits: list[LateCommit] = []
        self.settle_group: Callable[[str, Transaction], None] = lambda _group, _transaction: None
        self._timeout_ms = transaction_timeout_ms
        self._holders: dict[str, Holder] = {}
        self._undone: dict[MarkerRef, Transaction] = {}
        self._transactions = 0
        self.appended = 0

    def partition(self, place: Place) -> Partition:
        """The partition, or `Fatal` where it does not exist."""
        topic = self.topics.get(place.topic)
        if topic is None:
            raise Fatal(
                f"topic {place.topic} does not exist; create it with `wakeful topics apply`"
            )
        if not 0 <= place.partition < len(topic.partitions):
            raise Fatal(f"topic {place.topic} has no partition {place.partition}")
        return topic.partitions[place.partition]

    def append(
        self,
        topic: str,
        partition: int | None,
        key: bytes | None,
        value: bytes | None,
        headers: Headers,
        transaction: Transaction | None,
    ) -> tuple[Place, int]:
        """Appends one record where its key belongs; returns where it went."""
        found = self.topics.get(topic)
        if found is None:
            raise LogFault(f"topic {topic} does not exist; create it with `wakeful topics apply`")
        if size_of(key, value, headers) > found.bytes_max:
            raise LogFault(f"a record is larger than topic {topic} takes ({found.bytes_max} bytes)")
        if partition is None:
            if key is None:
                found.keyless += 1
                partition = found.keyless % len(found.partitions)
            else:
                partition = partition_of(key, len(found.partitions))
        target = self.partition(Place(topic, partition))
        offset = len(target.entries)
        if transaction is not None and target.place not in transaction.partitions:
            transaction.partitions[target.place] = target
            target.open[transaction] = offset
        record = Record(topic, partition, offset, self.now_ms(), key, value, tuple(headers))
        target.entries.append((record, transaction))
        self.appended += 1
        return target.place, offset

    def start(self, transactional_id: str) -> int:
        """Registers a producer: a new epoch, and nothing left over from the older ones."""
        holder = self._holders.setdefault(transactional_id, Holder())
        self._complete(holder)
        if holder.open is not None:
            self._decide(holder, committed=False, markers=Markers.AT_ONCE)
        holder.epoch += 1
        return holder.epoch

    def opened(self, transactional_id: str, epoch: int) -> Transaction:
        """The transaction that is open under this epoch; the first record or offset opens it."""
        holder = self._held(transactional_id, epoch)
        self._complete(
            holder
        )  # the real client waits here: a coordinator takes one transaction at a time
        if holder.open is None:
            self._transactions += 1
            holder.open = Transaction(transactional_id, self._transactions, self.now_ms())
        return holder.open

    def end(self, transactional_id: str, epoch: int, *, committed: bool) -> None:
        """Decides what is open under this epoch."""
        holder = self._held(transactional_id, epoch)
        if holder.open is None:
            return
        self._decide(holder, committed=committed, markers=self.faults.markers(transactional_id))

    def arrive(self, late: LateCommit) -> None:
        """A late commit request reaches the coordinator; under an older epoch it is refused."""
        self.late_commits.remove(late)
        holder = self._holders[late.transactional_id]
        if holder.epoch == late.epoch and holder.open is not None:
            self._decide(holder, committed=True, markers=self.faults.markers(late.transactional_id))

    def expire(self) -> None:
        """Aborts transactions that have outlived their time-out, and fences their producers."""
        ended_ms = self.now_ms() - self._timeout_ms
        for holder in self._holders.values():
            if holder.open is not None and holder.open.started_ms <= ended_ms:
                self._decide(
                    holder,
                    committed=False,
                    markers=self.faults.markers(holder.open.transactional_id),
                )
                holder.epoch += 1

    def open_transactions(self) -> list[Transaction]:
        """Transactions nobody has decided."""
        return [holder.open for holder in self._holders.values() if holder.open is not None]

    def pending_markers(self) -> list[MarkerRef]:
        """Markers still to be written, oldest decision first."""
        return list(self._undone)

    def write_marker(self, ref: MarkerRef) -> None:
        """Writes one marker: the transaction becomes visible there."""
        transaction = self._undone.pop(ref)
        if isinstance(ref.target, str):
            self.settle_group(ref.target, transaction)
        else:
            partition = transaction.partitions[ref.target]
            partition.entries.append((None, transaction))
            self.appended += 1
            del partition.open[transaction]
        transaction.unmarked.discard(ref.target)
        holder = self._holders[ref.transactional_id]
        if not transaction.unmarked and holder.decided is transaction:
            holder.decided = None

    def _held(self, transactional_id: str, epoch: int) -> Holder:
        holder = self._holders.get(transactional_id)
        if holder is None or holder.epoch != epoch:
            raise LogFault(
                f"the producer {transactional_id} is fenced: a newer one, or its time-out, has ended it"
            )
        return holder

    def _decide(self, holder: Holder, *, committed: bool, markers: Markers) -> None:
        transaction = holder.open
        if transaction is None:
            return
        holder.open = None
        transaction.committed = committed
        targets: Iterable[Place | str] = [*transaction.partitions, *transaction.groups]
        transaction.unmarked = set(targets)
        for target in targets:
            self._undone[MarkerRef(transaction.transactional_id, transaction.number, target)] = (
                transaction
            )
        if transaction.unmarked:
            holder.decided = transaction
        if markers is Markers.AT_ONCE:
            self._complete(holder)

    def _complete(self, holder: Holder) -> None:
        transaction = holder.decided
        if transaction is None:
            return
        for ref in [ref for ref, owner in self._undone.items() if owner is transaction]:
            self.write_marker(ref)


def size_of(key: bytes | None, value: bytes | None, headers: Headers) -> int:
    """A record's size, as far as limits care."""
    size = len(key or b"") + len(value or b"")
    for name, content in headers:
        size += len(name) + len(content)
    return size
