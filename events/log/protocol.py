"""The log as a protocol: what the engine needs from Kafka, and nothing more.

Two implementations pass one suite: `kafka.KafkaLog` (confluent-kafka) and `memory.MemoryLog` (virtual, for
tests and the simulation). The rules both keep:

- A record's offset rises within its partition; control markers take offsets too, so offsets have gaps.
- A `Reader` or `Group` with isolation `COMMITTED` sees nothing above the last stable offset and nothing aborted.
- `Transaction` calls have three outcomes: done, `LogFault` (nothing is known to be done: replace the producer),
  or the process is ended by the watchdog. After any fault the same producer is never used again.
- Only `Group.committed` and `TransactionalProducer.start` may raise `NotYet`, which means: ask again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from types import TracebackType
from typing import NamedTuple, Protocol, Self

from ..freezing import dataclass

SESSION_TIMEOUT_MS = 10_000
"""How long a member of a group may be silent before its partitions go to others."""

DELIVERY_MS = 30_000
"""How long a plain producer tries to deliver a record before it says that it could not: a broker may restart meanwhile."""

Headers = Sequence[tuple[str, bytes]]


class Place(NamedTuple):
    """One partition of one topic."""

    topic: str
    partition: int


class Isolation(Enum):
    """What a reader may see: only decided transactions, or everything appended."""

    COMMITTED = "read_committed"
    UNCOMMITTED = "read_uncommitted"


@dataclass(frozen=True, slots=True)
class Record:
    """One record as stored; `timestamp_ms` is the broker's append time where the topic says so."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Headers


@dataclass(frozen=True, slots=True)
class EndOfPartition:
    """The reader stands at `offset`, the end of what its isolation lets it see for now."""

    topic: str
    partition: int
    offset: int


class LogFault(Exception):
    """A call failed or its outcome is unknown; the caller replaces the producer and rewinds."""


class NotYet(LogFault):
    """The answer is not to be had yet (a pending transaction, a coordinator that moves); ask again."""


class OffsetGone(LogFault):
    """The position asked for is below the log's start or above its end; reading on would lose records."""


class RecordTooLarge(LogFault):
    """The record is over the client's or the topic's limit; nothing was appended."""


class Fatal(LogFault):
    """This client will never work again (fenced, authorisation, fatal flag): end the process."""


class NameTaken(Fatal):
    """Another process runs under the same instance id; the newer one has the name, and this client never works again."""


class RebalanceListener(Protocol):
    """Told inside `Group.poll`; it sets flags only and never raises."""

    def assigned(self, places: Sequence[Place]) -> None:
        """These partitions are now this member's, in addition to those it has."""

    def revoked(self, places: Sequence[Place]) -> None:
        """These partitions are taken away in order; another member gets them once this returns."""

    def lost(self, places: Sequence[Place]) -> None:
        """These partitions are gone already; another member may have them."""


class Membership(Protocol):
    """An opaque token: which member, of which generation, took part when it was fetched."""


class Group(Protocol):
    """A member of a consumer group (classic protocol, cooperative-sticky, read_committed, no auto-commit)."""

    def poll(self, records_max: int, timeout_ms: int) -> list[Record]:
        """Up to `records_max` records of assigned partitions, as soon as one is there.

        Records of partitions that are no longer assigned are dropped. A partition newly assigned delivers
        nothing until `seek` has named its position (it is paused).
        """

    def membership(self) -> Membership:
        """The member's identity now; taken at begin, before a rebalance can change it."""

    def committed(self, places: Sequence[Place]) -> dict[Place, int | None]:
        """The group's committed offsets; `NotYet` while a transaction holds pending ones."""

    def seek(self, place: Place, offset: int) -> None:
        """Delivers from `offset` on, and resumes the partition where it was paused."""

    def pause(self, places: Sequence[Place]) -> None:
        """Stops delivery for these partitions; membership goes on."""

    def resume(self, places: Sequence[Place]) -> None:
        """Delivers again."""

    def commit(self, offsets: Mapping[Place, int]) -> None:
        """Commits outside a transaction (workers); synchronous, fenced by the generation."""

    def close(self) -> None:
        """Leaves the group (a static member does not) and frees the client."""


class Reader(Protocol):
    """Reads assigned partitions, without a group."""

    def assign(self, positions: Mapping[Place, int]) -> None:
        """Reads exactly these partitions from these offsets on (replaces what was assigned)."""

    def poll(self, records_max: int, timeout_ms: int) -> list[Record | EndOfPartition]:
        """Records in order per partition, and a mark each time the end is reached."""

    def close(self) -> None:
        """Frees the client."""


class Producer(Protocol):
    """Idempotent, acks=all, murmur2_random; delivery is known after `flush` or through the callback."""

    def produce(
        self,
        topic: str,
        *,
        key: bytes | None,
        value: bytes | None,
        headers: Headers = (),
        partition: int | None = None,
        delivered: Callable[[Place, int, LogFault | None], None] | None = None,
    ) -> None:
        """Queues one record. `delivered(place, offset, fault)` is called from `poll` or `flush`.

        Raises `RecordTooLarge` at once where the size is over the client's limit. A full queue waits.
        """

    def poll(self) -> None:
        """Serves delivery callbacks without waiting."""

    def flush(self, timeout_ms: int) -> None:
        """Waits until every queued record is decided; `LogFault` when one was not delivered."""

    def close(self) -> None:
        """Frees the client without waiting."""


class TransactionalProducer(Protocol):
    """One open transaction at a time; see the module's rules for faults."""

    def start(self) -> None:
        """Registers the transactional id: fences older holders and settles what they left open."""

    def begin(self) -> None:
        """Opens a transaction."""

    def send_offsets(self, offsets: Mapping[Place, int], membership: Membership) -> None:
        """Adds the group's positions; refused when the membership's generation is over."""

    def produce(
        self,
        topic: str,
        *,
        key: bytes | None,
        value: bytes | None,
        headers: Headers = (),
        partition: int | None = None,
    ) -> None:
        """Queues one record of the transaction."""

    def commit(self) -> dict[Place, int]:
        """Commits; the highest offset appended per partition. A fault leaves the outcome unknown."""

    def abandon(self) -> None:
        """Drops the client without waiting; whatever was open is settled by the next `start`."""


class Log(Protocol):
    """A cluster, as the engine sees it. Everything it hands out is closed by its user."""

    def group(
        self,
        group: str,
        topics: Sequence[str],
        listener: RebalanceListener,
        *,
        instance_id: str | None = None,
        session_timeout_ms: int = SESSION_TIMEOUT_MS,
    ) -> Group:
        """Joins a group; a static member where `instance_id` is given. A session is never below the brokers' floor."""

    def reader(
        self, isolation: Isolation = Isolation.COMMITTED, *, fetch_wait_ms: int | None = None
    ) -> Reader:
        """A reader with nothing assigned yet.

        `fetch_wait_ms` is how long a fetch that finds nothing may last, and so how long the next `assign` may wait for it.
        """

    def producer(self) -> Producer:
        """A plain idempotent producer."""

    def transactional(self, transactional_id: str) -> TransactionalProducer:
        """A producer that has not yet called `start`."""

    def partitions(self, topic: str) -> int:
        """How many partitions the topic has; `Fatal` naming the topic where it does not exist."""

    def ends(self, places: Sequence[Place], isolation: Isolation) -> dict[Place, tuple[int, int]]:
        """First offset and end (one above the last record the isolation lets one see) per partition."""

    def offsets_at(self, places: Sequence[Place], timestamp_ms: int) -> dict[Place, int]:
        """Per partition the first offset with that time or later, or its end."""

    def create_topics(self, topics: Sequence[TopicSpec]) -> list[str]:
        """Creates what is missing and returns those names; `Fatal` where partitions differ."""

    def delete_topics(self, names: Sequence[str]) -> None:
        """Deletes topics, for tests and `reset`."""

    def cluster_id(self) -> str:
        """The cluster's own id."""

    def close(self) -> None:
        """Frees what the log itself holds."""

    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...


@dataclass(frozen=True, slots=True)
class TopicSpec:
    """A topic to be created: its full name, partitions, and broker settings."""

    name: str
    partitions: int
    config: Mapping[str, str]
