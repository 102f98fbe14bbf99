"""One suite, two logs: `world` is a fresh set of topics on the log in memory or on Kafka."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import TypeVar

import pytest

from wakeful.events.log.kafka import KafkaLog
from wakeful.events.log.kafka_client import KafkaLimits
from wakeful.events.log.memory import MemoryLog
from wakeful.events.log.protocol import (
    EndOfPartition,
    Group,
    Isolation,
    Log,
    LogFault,
    NotYet,
    Place,
    Record,
    TopicSpec,
    TransactionalProducer,
)

DEADLINE_S = 15.0
RECORD_BYTES_MAX = 50_000

Answer = TypeVar("Answer")
_numbers = itertools.count()


class Listener:
    """Writes down what a member is told."""

    def __init__(self) -> None:
        self.assigned_places: list[Place] = []
        self.revoked_places: list[Place] = []
        self.lost_places: list[Place] = []

    def assigned(self, places: Sequence[Place]) -> None:
        self.assigned_places += places

    def revoked(self, places: Sequence[Place]) -> None:
        self.revoked_places += places

    def lost(self, places: Sequence[Place]) -> None:
        self.lost_places += places

    @property
    def held(self) -> set[Place]:
        gone = [*self.revoked_places, *self.lost_places]
        return {
            place
            for place in self.assigned_places
            if self.assigned_places.count(place) > gone.count(place)
        }


class World:
    """A log, names nobody else uses, and waits with a deadline."""

    def __init__(self, log: Log, prefix: str, *, virtual: bool) -> None:
        self.log = log
        self.prefix = prefix
        self.virtual = virtual
        self._closing: list[Callable[[], None]] = []

    def topic(self, name: str, partitions: int = 2, **config: str) -> str:
        full = f"{self.prefix}.{name}"
        config = {each.replace("_", "."): value for each, value in config.items()}
        self.log.create_topics([TopicSpec(full, partitions, config)])
        return full

    def places(self, topic: str) -> list[Place]:
        return [Place(topic, number) for number in range(self.log.partitions(topic))]

    def member(
        self, topic: str, *, group: str = "group", instance_id: str | None = None
    ) -> tuple[Group, Listener]:
        listener = Listener()
        member = self.log.group(
            f"{self.prefix}.{group}",
            [topic],
            listener,
            instance_id=instance_id,
            session_timeout_ms=10_000,
        )
        self.closed_later(member.close)
        return member, listener

    def joined(
        self,
        topic: str,
        *,
        group: str = "group",
        instance_id: str | None = None,
        begin: int | None = 0,
    ) -> tuple[Group, Listener]:
        """A member that has all of a topic, positioned at `begin`."""
        member, listener = self.member(topic, group=group, instance_id=instance_id)
        self.until(
            lambda: len(listener.held) == self.log.partitions(topic), lambda: member.poll(100, 50)
        )
        for place in self.places(topic):
            if begin is not None:
                member.seek(place, begin)
        return member, listener

    def producer(self, name: str = "producer") -> TransactionalProducer:
        producer = self.log.transactional(f"{self.prefix}.{name}")
        self.closed_later(producer.abandon)
        self.patiently(producer.start)
        return producer

    def committed(self, topic: str, count: int, *, partition: int = 0) -> list[int]:
        """Produces plain records; their offsets."""
        offsets: list[int] = []
        producer = self.log.producer()
        for number in range(count):
            producer.produce(
                topic,
                key=b"%d" % number,
                value=b"%d" % number,
                partition=partition,
                delivered=lambda _place, offset, _fault: offsets.append(offset),
            )
        producer.flush(10_000)
        producer.close()
        return offsets

    def read(self, topic: str, isolation: Isolation = Isolation.COMMITTED) -> list[Record]:
        """Everything that isolation may see, by partition."""
        places = self.places(topic)
        ends = self.log.ends(places, isolation)
        reader = self.log.reader(isolation)
        reader.assign({place: start for place, (start, _end) in ends.items()})
        records: list[Record] = []
        reached: dict[Place, int] = {}

        def step() -> None:
            for item in reader.poll(100, 50):
                if isinstance(item, EndOfPartition):
                    reached[Place(item.topic, item.partition)] = item.offset
                else:
                    records.append(item)

        self.until(lambda: all(reached.get(place, -1) >= ends[place][1] for place in places), step)
        reader.close()
        return sorted(records, key=lambda record: (record.partition, record.offset))

    def take(self, member: Group, count: int) -> list[Record]:
        """Polls until so many records have come."""
        records: list[Record] = []
        self.until(lambda: len(records) >= count, lambda: records.extend(member.poll(100, 50)))
        return records

    def patiently(self, call: Callable[[], Answer]) -> Answer:
        """Asks again while the answer is `NotYet`."""
        answers: list[Answer] = []

        def ask() -> None:
            with suppress(NotYet):
                answers.append(call())

        self.until(lambda: bool(answers), ask)
        return answers[0]

    def until(self, reached: Callable[[], bool], step: Callable[[], object]) -> None:
        """Steps until it is so; fails at the deadline."""
        deadline = time.monotonic() + DEADLINE_S
        steps = 0
        while not reached():
            steps += 1
            assert time.monotonic() < deadline, "the deadline has passed"
            assert not self.virtual or steps < 1_000, "a thousand steps have led nowhere"
            step()

    def closed_later(self, close: Callable[[], None]) -> None:
        self._closing.append(close)

    def close(self) -> None:
        for close in reversed(self._closing):
            with suppress(LogFault):
                close()


@pytest.fixture(params=["memory", pytest.param("kafka", marks=pytest.mark.kafka)])
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    if request.param == "memory":
        log: Log = MemoryLog(record_bytes_max=RECORD_BYTES_MAX)
        world = World(log, "memory", virtual=True)
    else:
        bootstrap = request.getfixturevalue("kafka")
        prefix = request.getfixturevalue("namespace")
        log = KafkaLog(
            bootstrap,
            client_id="contract",
            limits=KafkaLimits(
                record_bytes_max=RECORD_BYTES_MAX, heartbeat_ms=100, fetch_wait_ms=20
            ),
        )
        world = World(log, f"{prefix}.{next(_numbers)}", virtual=False)
    yield world
    world.close()
    log.close()
