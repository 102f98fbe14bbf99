"""Groups: nothing is delivered before `seek`, after a revocation, or behind a listener's error."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from confluent_kafka import KafkaError
from tests.chaos.proxy import JOIN_GROUP, Proxy

from wakeful.events.log import kafka_group
from wakeful.events.log.kafka import KafkaLog
from wakeful.events.log.kafka_client import KafkaLimits
from wakeful.events.log.protocol import LogFault, NameTaken, OffsetGone, Place

from .conftest import Listener, World


def test_an_assigned_partition_delivers_nothing_until_seek_names_its_position(world: World):
    topic = world.topic("commands", partitions=1)
    world.committed(topic, 5)
    member, _ = world.joined(topic, begin=None)
    for _ in range(3):
        assert member.poll(10, 50) == []
    member.seek(Place(topic, 0), 2)
    assert [record.offset for record in world.take(member, 3)] == [2, 3, 4]


def test_records_come_in_order_per_partition_and_at_most_as_many_as_asked(world: World):
    topic = world.topic("commands")
    for partition in (0, 1):
        world.committed(topic, 30, partition=partition)
    member, _ = world.joined(topic)
    records: list[tuple[int, int]] = []

    def step() -> None:
        batch = member.poll(7, 50)
        assert len(batch) <= 7
        records.extend((record.partition, record.offset) for record in batch)

    world.until(lambda: len(records) == 60, step)
    for partition in (0, 1):
        assert [offset for place, offset in records if place == partition] == list(range(30))


def test_seek_reads_again_what_an_abandoned_transaction_had_read(world: World):
    topic = world.topic("commands", partitions=1)
    world.committed(topic, 50)
    member, _ = world.joined(topic)
    for _ in range(3):
        assert [record.offset for record in world.take(member, 50)] == list(range(50))
        member.seek(Place(topic, 0), 0)
    member.seek(Place(topic, 0), 40)
    assert [record.offset for record in world.take(member, 10)] == list(range(40, 50))


def test_seek_in_the_middle_of_a_batch_gives_no_record_twice(world: World):
    topic = world.topic("commands", partitions=1)
    world.committed(topic, 60)
    member, _ = world.joined(topic)
    for begin in (10, 0, 25):
        records: list[int] = []
        world.until(
            lambda: len(records) >= 20,  # noqa: B023 used at once
            lambda: records.extend(record.offset for record in member.poll(5, 50)),  # noqa: B023
        )
        member.seek(Place(topic, 0), begin)
        rest = [record.offset for record in world.take(member, 60 - begin)]
        assert rest == list(range(begin, 60))
        member.seek(Place(topic, 0), 0)


def test_a_paused_partition_rests_while_the_other_goes_on(world: World):
    topic = world.topic("commands")
    resting, going = world.places(topic)
    member, _ = world.joined(topic)
    member.pause([resting])
    for place in (resting, going):
        world.committed(topic, 5, partition=place.partition)
    assert {record.partition for record in world.take(member, 5)} == {going.partition}
    assert member.poll(10, 50) == []
    member.resume([resting])
    assert [record.offset for record in world.take(member, 5)] == [0, 1, 2, 3, 4]


def test_seek_resumes_a_paused_partition(world: World):
    topic = world.topic("commands", partitions=1)
    world.committed(topic, 5)
    member, _ = world.joined(topic)
    member.pause([Place(topic, 0)])
    member.seek(Place(topic, 0), 3)
    assert [record.offset for record in world.take(member, 2)] == [3, 4]


def test_a_partition_that_was_taken_away_while_it_was_paused_delivers_when_it_comes_back(
    world: World,
):
    topic = world.topic("commands")
    member, listener = world.joined(topic)
    member.pause(world.places(topic))
    other, others = world.member(topic)

    def both() -> None:
        member.poll(1, 20)
        other.poll(1, 20)

    world.until(lambda: len(others.held) == 1, both)
    (moved,) = others.held
    other.close()
    world.until(lambda: len(listener.held) == 2, lambda: member.poll(1, 20))
    world.committed(topic, 5, partition=moved.partition)
    member.seek(moved, 0)
    assert [record.offset for record in world.take(member, 5)] == [0, 1, 2, 3, 4]


def test_a_partition_of_another_member_cannot_be_sought(world: World):
    topic = world.topic("commands")
    member, _ = world.joined(topic)
    with pytest.raises(LogFault, match="not assigned"):
        member.seek(Place(topic, 9), 0)


@pytest.mark.case("L9")
def test_a_second_member_takes_its_share_and_the_first_drops_the_rest(world: World):
    topic = world.topic("commands", partitions=4)
    for partition in range(4):
        world.committed(topic, 40, partition=partition)
    member, listener = world.joined(topic)
    other, others = world.member(topic)
    stray: list[Place] = []

    def both() -> None:
        for record in member.poll(
            3, 20
        ):  # small batches: records are waiting all through the rebalance
            if Place(record.topic, record.partition) not in listener.held:
                stray.append(Place(record.topic, record.partition))
        other.poll(3, 20)

    world.until(lambda: len(others.held) == 2, both)
    assert stray == []
    assert len(listener.held) == 2
    assert listener.held | others.held == set(world.places(topic))
    assert listener.revoked_places != []
    assert listener.lost_places == []
    for place in others.held:
        other.seek(place, 0)
    assert len(world.take(other, 80)) == 80


def test_partitions_of_a_member_that_leaves_go_to_the_rest(world: World):
    topic = world.topic("commands")
    member, listener = world.joined(topic)
    other, others = world.member(topic)

    def both() -> None:
        member.poll(1, 20)
        other.poll(1, 20)

    world.until(lambda: len(others.held) == 1, both)
    other.close()
    world.until(lambda: len(listener.held) == 2, lambda: member.poll(1, 20))


def test_a_static_member_that_comes_back_has_its_partitions_at_once(world: World):
    topic = world.topic("commands", partitions=4)
    world.joined(topic, instance_id="one")[0].close()
    again, listener = world.member(topic, instance_id="one")
    polls: list[int] = []
    world.until(lambda: len(listener.held) == 4, lambda: polls.append(len(again.poll(1, 100))))
    assert len(polls) < 50, "it waited for the old session to end"
    assert again.membership() is not None


def test_a_second_process_under_one_instance_id_ends_the_first(world: World):
    topic = world.topic("commands")
    first, _ = world.joined(topic, instance_id="one")
    second, listener = world.member(topic, instance_id="one")
    world.until(lambda: bool(listener.held), lambda: second.poll(1, 50))
    with pytest.raises(NameTaken):
        world.until(lambda: False, lambda: first.poll(1, 50))


def test_the_membership_of_a_static_member_that_was_replaced_is_refused(world: World):
    topic = world.topic("commands")
    first, _ = world.joined(topic, instance_id="one")
    token = first.membership()
    second, listener = world.member(topic, instance_id="one")
    world.until(lambda: bool(listener.held), lambda: second.poll(1, 50))
    producer = world.producer()
    producer.begin()
    with pytest.raises(LogFault):
        producer.send_offsets({Place(topic, 0): 1}, token)


def test_a_member_that_has_not_joined_has_no_membership(world: World):
    topic = world.topic("commands")
    member, _ = world.member(topic)
    with pytest.raises(LogFault, match="not a member"):
        member.membership()


def test_a_commit_outside_a_transaction_is_read_back(world: World):
    topic = world.topic("activities")
    member, _ = world.joined(topic)
    first, second = world.places(topic)
    member.commit({first: 3})
    assert world.patiently(lambda: member.committed([first, second])) == {first: 3, second: None}


@pytest.mark.parametrize("offset", [99])
def test_a_position_beyond_the_log_is_named_and_nothing_is_skipped(world: World, offset: int):
    topic = world.topic("commands", partitions=1)
    world.committed(topic, 3)
    member, _ = world.joined(topic, begin=None)
    member.seek(Place(topic, 0), offset)
    with pytest.raises(OffsetGone, match=r"commands\[0\]@99"):
        world.until(lambda: False, lambda: member.poll(10, 50))


class Raising(Listener):
    def assigned(self, places: Sequence[Place]) -> None:
        super().assigned(places)
        raise ZeroDivisionError


@pytest.mark.case("L11")
def test_an_exception_of_the_listener_comes_out_of_poll(world: World):
    topic = world.topic("commands")
    listener = Raising()
    member = world.log.group(f"{world.prefix}.group", [topic], listener)
    world.closed_later(member.close)
    with pytest.raises(ZeroDivisionError):
        world.until(lambda: False, lambda: member.poll(1, 50))
    assert len(listener.held) == 2
    member.seek(Place(topic, 0), 0)  # the group itself has taken no harm
    world.committed(topic, 1)
    assert [record.offset for record in world.take(member, 1)] == [0]


class Fault:
    """A message that is an error of its partition."""

    def __init__(self, place: Place) -> None:
        self._place = place

    def error(self) -> KafkaError:
        return KafkaError(KafkaError._INVALID_ARG)

    def topic(self) -> str:
        return self._place.topic

    def partition(self) -> int:
        return self._place.partition

    def offset(self) -> int:
        return -1


@pytest.mark.parametrize("world", [pytest.param("kafka", marks=pytest.mark.kafka)], indirect=True)
def test_a_partition_that_met_a_fault_goes_on_where_it_was(
    world: World, monkeypatch: pytest.MonkeyPatch
):
    """Whoever asks again loses nothing: what came behind the fault was dropped, and is read once more."""
    topic = world.topic("activities", partitions=1)
    world.committed(topic, 20)
    member, _ = world.joined(topic)
    fetch, faults = kafka_group.fetch, [Fault(Place(topic, 0))]

    def with_a_fault(*arguments: object) -> list[object]:
        messages = fetch(*arguments)
        return [*messages[:3], faults.pop(), *messages[3:]] if faults and messages else messages

    monkeypatch.setattr(kafka_group, "fetch", with_a_fault)
    found: list[int] = []
    refused: list[str] = []

    def step() -> None:
        try:
            found.extend(record.offset for record in member.poll(100, 50))
        except LogFault as fault:
            refused.append(str(fault))

    world.until(lambda: len(found) >= 20, step)
    assert found == list(range(20))
    assert len(refused) == 1


@pytest.mark.parametrize("world", [pytest.param("kafka", marks=pytest.mark.kafka)], indirect=True)
def test_a_paused_partition_that_met_a_fault_stays_paused(world: World):
    topic = world.topic("activities", partitions=1)
    place = Place(topic, 0)
    world.committed(topic, 5)
    member, _ = world.joined(topic)
    member.pause([place])
    member._inbox.faulty.add(place)
    for _ in range(5):
        assert member.poll(100, 50) == []
    member.resume([place])
    assert [record.offset for record in world.take(member, 5)] == list(range(5))


@pytest.mark.case("L5")
@pytest.mark.parametrize("world", [pytest.param("kafka", marks=pytest.mark.kafka)], indirect=True)
def test_committed_offsets_are_told_while_the_rebalance_waits_for_another_member(
    world: World, kafka: str
):
    topic, others = world.topic("commands"), Listener()
    place, _ = world.places(topic)
    member, _ = world.joined(topic, instance_id="0")
    member.commit({place: 3})
    with (
        Proxy(kafka) as proxy,
        KafkaLog(proxy.address, client_id="slow", limits=KafkaLimits(heartbeat_ms=100)) as far,
    ):
        slow = far.group(f"{world.prefix}.group", [topic], others, instance_id="1")
        world.until(lambda: bool(others.held), lambda: (member.poll(1, 50), slow.poll(1, 50)))
        proxy.keep_back(JOIN_GROUP)
        third, _ = world.member(topic, instance_id="2")
        world.until(lambda: proxy.wait_for_one(0), lambda: (member.poll(1, 50), third.poll(1, 50)))
        for _ in range(10):  # by now it has joined again itself, and waits for the slow one
            member.poll(1, 50)
        assert world.patiently(lambda: member.committed([place])) == {place: 3}
        assert len(others.held) == 1, "the rebalance went on without it"
        proxy.let_go(10)
        slow.close()
