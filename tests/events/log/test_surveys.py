"""What a group has committed, as somebody outside of it is told: also while a transaction of its member is open."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from wakeful.events.log.kafka import KafkaLog
from wakeful.events.log.kafka_client import KafkaLimits
from wakeful.events.log.kafka_survey import committed_offsets
from wakeful.events.log.protocol import Place

from .conftest import World


@pytest.fixture
def real(kafka: str, namespace: str) -> Iterator[World]:
    log = KafkaLog(kafka, client_id="survey", limits=KafkaLimits(heartbeat_ms=100))
    world = World(log, namespace, virtual=False)
    yield world
    world.close()
    log.close()


def test_an_offset_in_an_open_transaction_leaves_the_one_before_it_and_is_told_once_it_is_over(
    real: World, kafka: str
) -> None:
    """Given a group that has committed, when more is pending, then it is not told to have committed nothing."""
    topic = real.topic("commands")
    member, _ = real.joined(topic)
    first, second = real.places(topic)
    producer = real.producer()

    def told() -> dict[Place, int]:
        return committed_offsets(kafka, f"{real.prefix}.group", [first, second])

    assert told() == {}
    for before, after in ((None, 7), (7, 9)):
        producer.begin()
        producer.send_offsets({first: after}, member.membership())
        assert told() == ({} if before is None else {first: before})
        producer.commit()
        assert told() == {first: after}
