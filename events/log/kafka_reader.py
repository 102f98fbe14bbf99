"""Reads partitions from given positions, without a group, on confluent-kafka."""

from __future__ import annotations

from collections.abc import Mapping

from confluent_kafka import Consumer, KafkaException, TopicPartition

from .kafka_client import KafkaLimits, connection, consuming, fault_of
from .kafka_messages import Inbox, fetch
from .protocol import EndOfPartition, Isolation, Place, Record
from .watchdog import Watch


class KafkaReader:
    """`assign` and `poll`; the end of a partition is a record of its own kind."""

    def __init__(
        self,
        bootstrap: str,
        client_id: str,
        limits: KafkaLimits,
        watch: Watch,
        isolation: Isolation,
    ) -> None:
        self._watch = watch
        self._inbox = Inbox()
        self._consumer = Consumer(
            {
                **connection(bootstrap, client_id),
                **consuming(limits, isolation.value),
                "group.id": f"{client_id}-reader",  # demanded by the client, never joined
                "enable.partition.eof": True,
            }
        )

    def assign(self, positions: Mapping[Place, int]) -> None:
        """See the protocol."""
        wanted = [
            TopicPartition(place.topic, place.partition, offset)
            for place, offset in positions.items()
        ]
        self._inbox.floors, self._inbox.faulty = dict(positions), set()
        try:
            with self._watch("assign"):
                self._consumer.assign(wanted)
        except KafkaException as failure:
            raise fault_of(failure, "assigning a reader") from failure

    def poll(self, records_max: int, timeout_ms: int) -> list[Record | EndOfPartition]:
        """See the protocol."""
        self._inbox.raise_waiting()
        return self._inbox.sort(fetch(self._consumer, records_max, timeout_ms, self._watch))

    def close(self) -> None:
        """See the protocol."""
        with self._watch("close"):
            self._consumer.close()
