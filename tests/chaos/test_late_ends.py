"""A request that ends a transaction comes late, when its producer is replaced and the next transaction is open."""

from __future__ import annotations

import struct

import pytest

from tests.chaos.proxy import END_TXN, Proxy
from wakeful.deploy.telling.reading import to_the_end
from wakeful.events.log.kafka import KafkaLog
from wakeful.events.log.kafka_client import KafkaLimits
from wakeful.events.log.protocol import (
    Isolation,
    LogFault,
    NotYet,
    Place,
    TopicSpec,
    TransactionalProducer,
)

pytestmark = pytest.mark.chaos

FENCED = (47, 90)
"""Kafka's words for a producer whose epoch is over."""

STARTS_MAX = 10
IMPATIENT = KafkaLimits(call_timeout_ms=800)


@pytest.mark.case("L3")
def test_given_a_late_commit_when_its_producer_was_replaced_then_it_tears_no_later_transaction(
    kafka: str, namespace: str
) -> None:
    topic, name = f"{namespace}.events.v1", f"{namespace}.processors.0"
    places = [Place(topic, number) for number in range(2)]
    with (
        Proxy(kafka) as proxy,
        KafkaLog(proxy.address, client_id=namespace, limits=IMPATIENT) as log,
        KafkaLog(kafka, client_id=namespace) as observer,
    ):
        observer.create_topics([TopicSpec(topic, 2, {})])
        first = started(log, name)
        write(first, topic, b"first")
        proxy.keep_back(END_TXN)
        with pytest.raises(LogFault):
            first.commit()
        assert proxy.wait_for_one(5)
        first.abandon()

        second = started(log, name)
        write(second, topic, b"second")
        second._client.flush(5)
        before = observer.ends(places, Isolation.COMMITTED)
        (answer,) = proxy.let_go(10)
        assert error_in(answer) in FENCED
        assert observer.ends(places, Isolation.COMMITTED) == before
        assert read(observer, places) in ([], [b"first"] * 2)
        second.commit()
        assert read(observer, places)[-2:] == [b"second"] * 2
        second.abandon()
        observer.delete_topics([topic])


def error_in(answer: bytes) -> int:
    """What a broker says to the end of a transaction: behind length, correlation and the time to wait."""
    (code,) = struct.unpack_from(">h", answer, 12)
    return int(code)


def started(log: KafkaLog, name: str) -> TransactionalProducer:
    """A producer that holds this transactional id now."""
    producer = log.transactional(name)
    for _ in range(STARTS_MAX):
        try:
            producer.start()
        except NotYet:
            continue
        return producer
    raise AssertionError(f"{name} did not start")


def write(producer: TransactionalProducer, topic: str, value: bytes) -> None:
    """One record in each of the two partitions."""
    producer.begin()
    for number in range(2):
        producer.produce(topic, key=None, value=value, partition=number)


def read(log: KafkaLog, places: list[Place]) -> list[bytes]:
    """What a reader of committed records is shown, each partition after the other."""
    found = [(r.partition, r.value) for r in to_the_end(log, dict.fromkeys(places, 0))]
    values = [value for _, value in sorted(found, key=lambda one: one[0])]
    halves = len(values) // 2
    assert values[:halves] == values[halves:], values  # no transaction is there by half
    return [value for pair in zip(values[:halves], values[halves:], strict=True) for value in pair]
