"""Readers, ends, and topics."""

from __future__ import annotations

import pytest

from wakeful.events.log.protocol import (
    EndOfPartition,
    Fatal,
    Isolation,
    OffsetGone,
    Place,
    Record,
    TopicSpec,
)

from .conftest import World


def test_a_reader_starts_where_it_is_told_and_says_when_the_end_is_reached(world: World):
    topic = world.topic("events")
    world.committed(topic, 5, partition=0)
    reader = world.log.reader()
    world.closed_later(reader.close)
    reader.assign({Place(topic, 0): 3, Place(topic, 1): 0})
    items: list[Record | EndOfPartition] = []
    world.until(
        lambda: sum(isinstance(item, EndOfPartition) for item in items) == 2,
        lambda: items.extend(reader.poll(10, 50)),
    )
    assert [item.offset for item in items if item.partition == 0] == [3, 4, 5]
    assert [item for item in items if item.partition == 1] == [EndOfPartition(topic, 1, 0)]


@pytest.mark.case("L8")
def test_the_end_of_a_partition_lies_behind_its_markers(world: World):
    """Watermark arithmetic on the last record never gets there: the end counts the markers."""
    topic = world.topic("events", partitions=1)
    producer = world.producer()
    for _ in range(3):
        producer.begin()
        producer.produce(topic, key=b"k", value=b"v", partition=0)
        last = producer.commit()
    place = Place(topic, 0)
    world.until(lambda: world.log.ends([place], Isolation.COMMITTED)[place] == (0, 6), lambda: None)
    reader = world.log.reader()
    world.closed_later(reader.close)
    reader.assign({place: 0})
    items: list[Record | EndOfPartition] = []
    end = EndOfPartition(topic, 0, 6)
    world.until(lambda: end in items, lambda: items.extend(reader.poll(10, 50)))
    assert last == {place: 4}
    assert [item.offset for item in items if isinstance(item, Record)] == [0, 2, 4]


@pytest.mark.case("L8")
def test_the_end_for_committed_readers_stands_before_an_open_transaction(world: World):
    topic = world.topic("events", partitions=1)
    world.committed(topic, 2)
    producer = world.producer()
    producer.begin()
    producer.produce(topic, key=b"k", value=b"v", partition=0)
    reader = world.log.reader()
    world.closed_later(reader.close)
    reader.assign({Place(topic, 0): 0})
    items: list[Record | EndOfPartition] = []
    world.until(
        lambda: EndOfPartition(topic, 0, 2) in items, lambda: items.extend(reader.poll(10, 50))
    )
    producer.commit()
    world.until(
        lambda: EndOfPartition(topic, 0, 4) in items, lambda: items.extend(reader.poll(10, 50))
    )
    assert [item.offset for item in items if isinstance(item, Record)] == [0, 1, 2]


def test_a_reader_told_new_positions_forgets_the_old_ones(world: World):
    topic = world.topic("events")
    for partition in (0, 1):
        world.committed(topic, 10, partition=partition)
    reader = world.log.reader()
    world.closed_later(reader.close)
    reader.assign({Place(topic, 0): 0})
    world.until(lambda: bool(reader.poll(2, 50)), lambda: None)
    reader.assign({Place(topic, 1): 8})
    items: list[Record | EndOfPartition] = []
    world.until(
        lambda: EndOfPartition(topic, 1, 10) in items, lambda: items.extend(reader.poll(10, 50))
    )
    assert [(item.partition, item.offset) for item in items] == [(1, 8), (1, 9), (1, 10)]


def test_a_reader_beyond_the_log_names_the_place(world: World):
    topic = world.topic("events", partitions=1)
    world.committed(topic, 3)
    reader = world.log.reader()
    world.closed_later(reader.close)
    reader.assign({Place(topic, 0): 99})
    with pytest.raises(OffsetGone, match=r"events\[0\]@99"):
        world.until(lambda: False, lambda: reader.poll(10, 50))


def test_topics_are_created_once(world: World):
    spec = TopicSpec(f"{world.prefix}.fresh", 3, {"retention.ms": "-1"})
    assert world.log.create_topics([spec]) == [spec.name]
    assert world.log.create_topics([spec]) == []
    assert world.log.partitions(spec.name) == 3


def test_another_partition_count_is_refused_with_both_numbers(world: World):
    topic = world.topic("events", partitions=2)
    with pytest.raises(Fatal, match=r"has 2 partitions, 4 are configured"):
        world.log.create_topics([TopicSpec(topic, 4, {})])


def test_a_topic_that_is_not_there_is_named(world: World):
    with pytest.raises(Fatal, match=r"nowhere does not exist"):
        world.log.partitions("nowhere")


def test_a_deleted_topic_is_gone(world: World):
    topic = world.topic("events")
    world.log.delete_topics([topic, f"{world.prefix}.never-was"])
    with pytest.raises(Fatal):
        world.log.partitions(topic)


def test_offsets_at_a_time_are_the_first_at_or_after_it_or_the_end(world: World):
    topic = world.topic("events", partitions=1, message_timestamp_type="LogAppendTime")
    world.committed(topic, 3)
    place = Place(topic, 0)
    first = world.read(topic)[0].timestamp_ms
    assert world.log.offsets_at([place], first) == {place: 0}
    assert world.log.offsets_at([place], first + 3_600_000) == {place: 3}


def test_the_cluster_has_an_id(world: World):
    assert world.log.cluster_id()
