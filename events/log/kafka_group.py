"""A member of a consumer group, on confluent-kafka.

A partition the group gives us is *not* handed to librdkafka in the rebalance callback. It is only once `seek` names
a position, and with that position: assigning, pausing and seeking one after another races inside librdkafka (its
issues 2190 and 3471), and an assignment without a position would ask for the committed one. So between
assignment and `seek` there is nothing that could be delivered.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from confluent_kafka import Consumer, KafkaException, TopicPartition

from .kafka_client import KafkaLimits, connection, consuming, fault_of
from .kafka_commit import OffsetCommits
from .kafka_messages import Inbox, fetch
from .kafka_offsets import CommittedOffsets
from .kafka_orphans import Orphans
from .protocol import Isolation, LogFault, Membership, Place, RebalanceListener, Record
from .watchdog import Watch

_TOKEN_MAGIC = (
    b"CGMDv2:"  # librdkafka's serialised group metadata; the generation follows, in native order
)


class KafkaGroup:
    """The classic protocol, cooperative-sticky, read_committed; all calls from one thread."""

    def __init__(
        self,
        bootstrap: str,
        client_id: str,
        limits: KafkaLimits,
        watch: Watch,
        *,
        group: str,
        topics: Sequence[str],
        listener: RebalanceListener,
        instance_id: str | None,
        session_timeout_ms: int,
    ) -> None:
        plain = {
            **connection(bootstrap, client_id),
            **consuming(limits, Isolation.COMMITTED.value),
            "group.id": group,
        }
        settings = {
            **plain,
            "group.protocol": "classic",
            "partition.assignment.strategy": "cooperative-sticky",
            "session.timeout.ms": session_timeout_ms,
            "heartbeat.interval.ms": min(limits.heartbeat_ms, session_timeout_ms // 3),
            "max.poll.interval.ms": max(limits.poll_interval_ms, session_timeout_ms),
        }
        if instance_id is not None:
            settings["group.instance.id"] = instance_id
        self._group = group
        self._watch = watch
        self._listener = listener
        self._inbox = Inbox()
        self._assigned: set[Place] = set()
        self._paused: set[Place] = set()
        self._raised: BaseException | None = None
        self._consumer = Consumer(settings)
        self._commits = OffsetCommits(self._consumer, group, limits.call_timeout_ms / 1000)
        self._offsets = CommittedOffsets(self._consumer, group, plain, watch)
        self._orphans = Orphans(bootstrap, group, topics) if instance_id is not None else None
        self._consumer.subscribe(
            list(topics),
            on_assign=self._on_assign,
            on_revoke=self._on_revoke,
            on_lost=self._on_lost,
        )

    def poll(self, records_max: int, timeout_ms: int) -> list[Record]:
        """See the protocol. A listener's exception comes out of here, and the batch is dropped with it.

        Whoever polls again after a fault, without a seek, gets what it met once more.
        """
        self._inbox.raise_waiting()
        for place in sorted(self._inbox.faulty & self._inbox.floors.keys()):
            was_paused = place in self._paused
            self.seek(place, self._inbox.floors[place])
            if was_paused:  # a seek resumes, and whoever paused it has not asked for that
                self.pause([place])
        messages = fetch(self._consumer, records_max, timeout_ms, self._watch)
        self._raise_listeners()
        return self._inbox.records(messages)

    def membership(self) -> Membership:
        """See the protocol. Raises `LogFault` while this is no member: the broker lets offsets pass unfenced then."""
        token: bytes = self._call("membership", self._consumer.consumer_group_metadata)
        generation = token[len(_TOKEN_MAGIC) : len(_TOKEN_MAGIC) + 4]
        if (
            not token.startswith(_TOKEN_MAGIC)
            or int.from_bytes(generation, sys.byteorder, signed=True) < 0
        ):
            raise LogFault(
                f"not a member of group {self._group} at the moment; poll until partitions are assigned"
            )
        return token

    def committed(self, places: Sequence[Place]) -> dict[Place, int | None]:
        """See the protocol."""
        return self._offsets.of(places)

    def seek(self, place: Place, offset: int) -> None:
        """See the protocol. What was fetched before is dropped by librdkafka's version barrier."""
        if place not in self._assigned:
            raise LogFault(
                f"{place.topic}[{place.partition}] is not assigned to this member; it cannot be sought"
            )
        if offset < 0:
            raise LogFault(f"{place.topic}[{place.partition}] cannot be sought to offset {offset}")
        target = TopicPartition(place.topic, place.partition, offset)
        if place in self._paused:
            self._paused.discard(place)
            self._call("resume", self._consumer.resume, [target])
        if place in self._inbox.floors:
            self._call("seek", self._reposition, target)
        else:
            self._call("assign", self._consumer.incremental_assign, [target])
        self._inbox.floors[place] = offset
        self._inbox.faulty.discard(place)

    def pause(self, places: Sequence[Place]) -> None:
        """See the protocol. What is not positioned yet delivers nothing anyway."""
        pausing = [
            place for place in places if place in self._inbox.floors and place not in self._paused
        ]
        if pausing:
            self._call("pause", self._consumer.pause, _partitions(pausing))
            self._paused.update(pausing)

    def resume(self, places: Sequence[Place]) -> None:
        """See the protocol."""
        resuming = [place for place in places if place in self._paused]
        if resuming:
            self._call("resume", self._consumer.resume, _partitions(resuming))
            self._paused.difference_update(resuming)

    def commit(self, offsets: Mapping[Place, int]) -> None:
        """See the protocol."""
        asked = [
            TopicPartition(place.topic, place.partition, offset)
            for place, offset in offsets.items()
        ]
        with self._watch("commit_offsets"):
            self._commits.commit(asked)

    def close(self) -> None:
        """See the protocol."""
        if self._orphans is not None:
            self._orphans.close()
        with self._watch("close"):
            if self._commits.finished():
                self._consumer.close()  # whose listener may still commit what it gives up
            self._commits.close()
        self._offsets.close()

    def _reposition(self, target: TopicPartition) -> None:
        try:
            self._consumer.seek(target)
        except KafkaException:
            # The fetcher has not started or is stopping; assigning anew names the position just as well.
            self._consumer.incremental_unassign([target])
            self._consumer.incremental_assign([target])

    def _call(self, name: str, function: Callable[..., Any], *arguments: Any) -> Any:
        try:
            with self._watch(name):
                return function(*arguments)
        except KafkaException as failure:
            raise fault_of(failure, f"{name} in group {self._group}") from failure

    def _on_assign(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._guarded(self._assign, consumer, partitions)

    def _on_revoke(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        # The listener may still finish and commit what it has: nobody else gets them before we let go.
        self._tell(self._listener.revoked, partitions)
        self._guarded(self._drop, consumer, partitions)

    def _on_lost(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._guarded(self._drop, consumer, partitions)
        self._tell(self._listener.lost, partitions)

    def _assign(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        consumer.incremental_assign(
            []
        )  # answers the rebalance; the partitions follow with their positions
        self._assigned.update(_places(partitions))
        if self._orphans is not None:
            self._orphans.begin()
        self._tell(self._listener.assigned, partitions)

    def _drop(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        leaving = [
            each for each in partitions if Place(each.topic, each.partition) in self._inbox.floors
        ]
        # librdkafka keeps a pause over assignments: what comes back would deliver nothing, for ever.
        paused = [place for place in _places(leaving) if place in self._paused]
        for place in _places(partitions):
            self._assigned.discard(place)
            self._paused.discard(place)
            self._inbox.floors.pop(place, None)
            self._inbox.faulty.discard(place)
        if paused:
            consumer.resume(_partitions(paused))
        consumer.incremental_unassign(leaving)

    def _tell(
        self, hear: Callable[[Sequence[Place]], None], partitions: list[TopicPartition]
    ) -> None:
        if partitions:
            self._guarded(hear, _places(partitions))

    def _guarded(self, function: Callable[..., None], *arguments: Any) -> None:
        """An exception must not cross C: librdkafka's caller would see a SystemError somewhere else."""
        try:
            function(*arguments)
        except BaseException as error:  # noqa: BLE001 kept and raised from poll
            self._raised = self._raised or error

    def _raise_listeners(self) -> None:
        if self._raised is None:
            return
        error, self._raised = self._raised, None
        if isinstance(error, KafkaException):
            raise fault_of(error, f"rebalancing group {self._group}") from error
        raise error


def _places(partitions: Sequence[TopicPartition]) -> list[Place]:
    return [Place(each.topic, each.partition) for each in partitions]


def _partitions(places: Sequence[Place]) -> list[TopicPartition]:
    return [TopicPartition(place.topic, place.partition) for place in places]
