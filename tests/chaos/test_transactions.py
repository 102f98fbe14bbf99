"""A processor between whose transactions and the broker something goes wrong: nothing is torn, lost, or there twice."""

from __future__ import annotations

import struct
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import ClassVar

import pytest
from confluent_kafka import Producer

from tests.chaos.long_form import whole
from tests.chaos.proxy import END_TXN, Proxy
from tests.processors.desk import KEY, desk, find_order, refund
from wakeful.commands.check import Facts
from wakeful.commands.client import Client
from wakeful.commands.policy import EVERYBODY
from wakeful.deploy.clock import SystemClock
from wakeful.events.codec import decode_event
from wakeful.events.headers import BATCH, BATCH_COUNT
from wakeful.events.log import kafka_transaction
from wakeful.events.log.kafka import KafkaLog
from wakeful.events.log.kafka_client import KafkaLimits
from wakeful.events.log.protocol import Isolation, Place, Record
from wakeful.events.topics import Topics
from wakeful.processors.app import gather
from wakeful.processors.handler import CommandHandler
from wakeful.processors.loop import Loop, LoopFailed, LoopSettings

pytestmark = [pytest.mark.slow, pytest.mark.chaos]

FENCED = (47, 90)
"""Kafka's words for a producer whose epoch is over."""

LIMIT_S = 60.0
SESSIONS = [f"s{n}" for n in range(4)]
COMMANDS = 2 * len(SESSIONS)
EACH = ["SessionOpened", "MessageReceived", "TurnStarted", "ActivityRequested"]


class World:
    """Commands that wait for a processor, one that reaches its broker through a proxy, and what came of them."""

    def __init__(self, kafka: str, namespace: str, proxy: Proxy) -> None:
        self.topics, self.app = Topics(namespace), gather((desk, find_order, refund))
        self.log = KafkaLog(kafka, client_id=f"{namespace}-direct")
        self.proxy, self._namespace = proxy, namespace
        self.specs = self.topics.specs(self.app.queues, 2)
        self.log.create_topics(self.specs)
        who = {"tenant": "acme", "actor": "ann", "channel": "test", "digest_key": KEY}
        with Client(self.log, self.topics, **who, now_ms=SystemClock().now_ms) as client:
            for session in SESSIONS:
                client.open("desk", session)
                client.send(session, "hello")

    def close(self) -> None:
        self.log.delete_topics([spec.name for spec in self.specs])
        self.log.close()

    def drive(self, limits: KafkaLimits, meets: Callable[[str, int], None]) -> None:
        """Runs a processor until all commands are decided; `meets` hears of each point that it passes, and how often it has."""
        name = f"{self._namespace}.processors"
        with KafkaLog(self.proxy.address, client_id=name, limits=limits) as log:
            handler = CommandHandler(self.app, Facts(KEY, policy=EVERYBODY))
            loop = Loop(
                log, self.topics, handler, LoopSettings(name, f"{name}.0", None), SystemClock()
            )
            passes: Counter[str] = Counter()
            ends = time.monotonic() + LIMIT_S
            for point in loop.steps():
                passes[point] += 1
                meets(point, passes[point])
                decided = sum(one.next_offset for one in loop._partitions.values())
                loop.stopping = point == "p.stored" and decided >= COMMANDS
                assert time.monotonic() < ends, f"{decided} of {COMMANDS} in {LIMIT_S:.0f} s"

    def records(self) -> Iterator[Record]:
        """What readers of committed records see in the topics that a processor writes its facts and tasks to."""
        named = {self.topics.events, self.topics.outcomes, self.topics.activities("default")}
        places = {Place(topic, n): 0 for topic in named for n in range(2)}
        reader = self.log.reader(Isolation.COMMITTED)
        reader.assign(places)
        left, ends = set(places), time.monotonic() + LIMIT_S
        try:
            while left:
                assert time.monotonic() < ends, f"no end of {left}"
                for item in reader.poll(500, 100):
                    if isinstance(item, Record):
                        yield item
                    else:
                        left.discard(Place(item.topic, item.partition))
        finally:
            reader.close()

    def assert_nothing_is_torn_lost_or_there_twice(self) -> None:
        facts: dict[str, list[str]] = {session: [] for session in SESSIONS}
        tasks: Counter[bytes | None] = Counter()
        batches: Counter[tuple[bytes, int]] = Counter()
        for record in self.records():
            headers = dict(record.headers)
            batches[headers[BATCH], int(headers[BATCH_COUNT])] += 1
            if record.topic == self.topics.events:
                event = decode_event(record.value, record.headers)
                facts[event.envelope.session_id].append(type(event.body).__name__)
            elif record.topic != self.topics.outcomes:
                tasks[record.key] += 1
        assert facts == dict.fromkeys(SESSIONS, EACH)
        assert sorted(tasks.values()) == [1] * len(SESSIONS)
        assert {batch: count for (batch, count), found in batches.items() if found != count} == {}


@pytest.fixture
def world(kafka: str, namespace: str) -> Iterator[World]:
    with Proxy(kafka) as proxy:
        one = World(kafka, namespace, proxy)
        yield one
        one.close()


@pytest.mark.case("L3")
def test_an_end_of_a_transaction_that_comes_late_tears_none_of_a_later_one(world: World) -> None:
    answers: list[bytes] = []

    def meets(point: str, passes: int) -> None:
        if (point, passes) == ("p.commit_sent", 1):
            world.proxy.keep_back(END_TXN)
        if (point, passes) == ("p.abandoned", 1):
            assert world.proxy.wait_for_one(0)
        if (point, passes) == ("p.produced", 2):
            answers.extend(world.proxy.let_go(10))

    world.drive(KafkaLimits(call_timeout_ms=1_500), meets)
    assert [error_in(answer) in FENCED for answer in answers] == [True]
    world.assert_nothing_is_torn_lost_or_there_twice()


def error_in(answer: bytes) -> int:
    """What a broker says to the end of a transaction: behind length, correlation and the time to wait."""
    (code,) = struct.unpack_from(">h", answer, 12)
    return int(code)


class Counted(Producer):
    """Counts how often each producer was told to abort."""

    aborts: ClassVar[Counter[int]] = Counter()

    def abort_transaction(self, *given: float) -> None:
        self.aborts[id(self)] += 1
        super().abort_transaction(*given)


@pytest.mark.case("L12")
@pytest.mark.parametrize("cut_at", ["p.begun", pytest.param("p.commit_sent", marks=whole)])
def test_while_no_broker_answers_each_producer_aborts_once_at_most_and_the_next_one_waits(
    world: World, monkeypatch: pytest.MonkeyPatch, cut_at: str
) -> None:
    monkeypatch.setattr(Counted, "aborts", Counter())
    monkeypatch.setattr(kafka_transaction, "Client", Counted)
    monkeypatch.setattr(kafka_transaction, "START_WAIT_S", 1.0)
    waited: list[float] = []
    cuts: list[str] = []

    def meets(point: str, _: int) -> None:
        if (point, len(cuts)) == (cut_at, 0):
            cuts.append(point)
            world.proxy.cut()
        if point == "p.starting":
            waited.append(time.monotonic())
            world.proxy.mend()

    limits = KafkaLimits(call_timeout_ms=1_500)
    try:
        world.drive(limits, meets)
    except LoopFailed:
        world.drive(limits, meets)  # its supervisor starts it again
    assert 1 <= len(waited) < 5, "it asks again after a while, and not all the time"
    assert Counted.aborts.total() == (cut_at == "p.begun")
    world.assert_nothing_is_torn_lost_or_there_twice()
