"""A group's committed offsets, asked for by one of its members."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from confluent_kafka import OFFSET_INVALID, Consumer, KafkaException, TopicPartition

from .kafka_client import patient_fault_of
from .protocol import NotYet, Place
from .watchdog import Watch

COMMITTED_WAIT_MS = 500  # then `NotYet`: the caller's loop has other partitions to serve


class CommittedOffsets:
    """Asks on the member's own connection, and from its first silence on, over another.

    On a connection with a request to join, brokers answer nothing else until the group's rebalance is through: a member
    that has to go back meanwhile would wait for the slowest of the others, with partitions that it keeps. The other
    client joins nothing. An admin client would not do: after a lost connection it was measured to time out for ever.
    """

    def __init__(
        self, member: Consumer, group: str, settings: Mapping[str, Any], watch: Watch
    ) -> None:
        """`settings` are those of a consumer of this group that is nobody's instance."""
        self._member = member
        self._group = group
        self._settings = settings
        self._watch = watch
        self._other: Consumer | None = None

    def of(self, places: Sequence[Place]) -> dict[Place, int | None]:
        """See `Group.committed`. read_committed makes librdkafka ask again while offsets are pending: we bound that."""
        try:
            return self._ask(self._other or self._member, places)
        except NotYet:
            if self._other is None:
                self._other = Consumer({**self._settings})
            raise

    def close(self) -> None:
        """Closes what it opened."""
        if self._other is not None:
            with self._watch("close"):
                self._other.close()

    def _ask(self, consumer: Consumer, places: Sequence[Place]) -> dict[Place, int | None]:
        asked = [TopicPartition(place.topic, place.partition) for place in places]
        try:
            with self._watch("committed"):
                answered = consumer.committed(asked, timeout=COMMITTED_WAIT_MS / 1000)
        except KafkaException as failure:
            raise patient_fault_of(failure, f"reading offsets of group {self._group}") from failure
        offsets: dict[Place, int | None] = {}
        for each in answered:
            if each.error is not None:
                raise patient_fault_of(
                    each.error, f"reading the offset of {each.topic}[{each.partition}]"
                )
            offsets[Place(each.topic, each.partition)] = (
                None if each.offset == OFFSET_INVALID else each.offset
            )
        return offsets
