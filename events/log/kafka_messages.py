"""From what a consumer hands out to records: what is dropped, what is an end, what is a fault."""

from __future__ import annotations

from collections.abc import Iterable

from confluent_kafka import Consumer, KafkaError, Message

from .kafka_client import TRANSIENT, fault_of, logger, record_of
from .protocol import EndOfPartition, Fatal, LogFault, OffsetGone, Place, Record
from .watchdog import Watch

POLL_MS_MAX = 5_000  # far below the watchdog's limit: waiting for records is not hanging

_GONE = frozenset(
    {
        KafkaError._AUTO_OFFSET_RESET,  # noqa: SLF001 confluent_kafka spells its local codes so
        KafkaError.OFFSET_OUT_OF_RANGE,
        KafkaError._NO_OFFSET,  # noqa: SLF001
        KafkaError._LOG_TRUNCATION,  # noqa: SLF001
    }
)
_CORRUPT = frozenset({KafkaError._BAD_MSG, KafkaError._BAD_COMPRESSION})  # noqa: SLF001
_HARMLESS = TRANSIENT | {KafkaError._MAX_POLL_EXCEEDED}  # noqa: SLF001 the listener is told `lost`


def fetch(consumer: Consumer, records_max: int, timeout_ms: int, watch: Watch) -> list[Message]:
    """Waits for one message, then takes what else is there (`consume` alone would wait for all of them)."""
    with watch("poll"):
        first = consumer.poll(min(timeout_ms, POLL_MS_MAX) / 1000)
        if first is None:
            return []
        if records_max <= 1:
            return [first]
        return [first, *consumer.consume(records_max - 1, 0)]


class Inbox:
    """Sorts messages; a fault that came behind good records waits for the next call, so none is lost.

    `floors` is the consumer's positions: a message of a partition that is not in it, or of an offset below its
    floor, was fetched before a rebalance or a seek and is dropped. Partitions in `faulty` met a fault at their floor:
    what comes behind it would be a gap, and is dropped until somebody seeks.
    """

    def __init__(self) -> None:
        self.floors: dict[Place, int] = {}
        self.faulty: set[Place] = set()
        self._fault: LogFault | None = None

    def raise_waiting(self) -> None:
        """Raises the fault that waited."""
        if self._fault is not None:
            fault, self._fault = self._fault, None
            raise fault

    def records(self, messages: Iterable[Message]) -> list[Record]:
        """The records among the messages."""
        return [item for item in self.sort(messages) if isinstance(item, Record)]

    def sort(self, messages: Iterable[Message]) -> list[Record | EndOfPartition]:
        """Records and ends, in order; of a partition with a fault only what came before it."""
        floors = self.floors
        sorted_: list[Record | EndOfPartition] = []
        for message in messages:
            error = message.error()
            if error is not None:
                end = self._error(message, error)
                if end is not None:
                    sorted_.append(end)
                continue
            record = record_of(message)
            place = Place(record.topic, record.partition)
            floor = floors.get(place)
            if floor is None or record.offset < floor or place in self.faulty:
                continue
            floors[place] = record.offset + 1
            sorted_.append(record)
        if not sorted_:
            self.raise_waiting()
        return sorted_

    def _error(self, message: Message, error: KafkaError) -> EndOfPartition | None:
        topic, partition, offset = message.topic() or "", message.partition(), message.offset()
        place = Place(topic, -1 if partition is None else partition)
        code = error.code()
        if code == KafkaError._PARTITION_EOF:  # noqa: SLF001
            if place in self.floors and place not in self.faulty and offset is not None:
                return EndOfPartition(topic, place.partition, offset)
            return None
        if code in _HARMLESS:
            logger.debug("consumer: %s (%s)", error.str(), error.name())
        else:
            self._fault = self._fault or _fault(place, offset, error)
            self.faulty.add(place)
        return None


def _fault(place: Place, offset: int | None, error: KafkaError) -> LogFault:
    where = f"{place.topic}[{place.partition}]@{offset}"
    if error.code() in _GONE:
        return OffsetGone(
            f"{where}: {error.str()}; records were deleted or never existed there, and nothing is skipped in silence"
        )
    if error.code() in _CORRUPT:
        return Fatal(
            f"{where}: {error.str()}; the stored bytes are damaged, restore the partition from a replica"
        )
    return fault_of(error, f"consuming {where}")
