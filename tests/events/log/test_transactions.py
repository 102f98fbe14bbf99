"""Transactions: atomic, fenced, and after any fault done with."""

from __future__ import annotations

from contextlib import suppress

import pytest

from wakeful.events.keys import partition_of
from wakeful.events.log.protocol import Isolation, LogFault, NotYet, Place, RecordTooLarge

from .conftest import RECORD_BYTES_MAX, World


def test_a_transaction_is_visible_in_all_its_partitions_or_in_none(world: World):
    topic = world.topic("events")
    producer = world.producer()
    producer.begin()
    for number in range(6):
        producer.produce(topic, key=None, value=b"%d" % number, partition=number % 2)
    assert world.read(topic) == []
    ends = producer.commit()
    records = world.read(topic)
    assert [record.value for record in records] == [b"0", b"2", b"4", b"1", b"3", b"5"]
    assert ends == {Place(topic, 0): 2, Place(topic, 1): 2}


def test_commit_names_the_last_record_of_each_partition_not_its_marker(world: World):
    topic = world.topic("events")
    producer = world.producer()
    for _ in range(2):
        producer.begin()
        producer.produce(topic, key=None, value=b"x", partition=1)
        ends = producer.commit()
    assert ends == {Place(topic, 1): 2}  # record 0, marker 1, record 2


def test_headers_keys_and_times_come_back_as_they_were_written(world: World):
    topic = world.topic("events", message_timestamp_type="LogAppendTime")
    producer = world.producer()
    producer.begin()
    producer.produce(
        topic, key=b"k", value=None, headers=[("a", b"1"), ("a", b"2"), ("b", b"\x00")]
    )
    producer.commit()
    (record,) = world.read(topic)
    assert (record.key, record.value) == (b"k", None)
    assert list(record.headers) == [("a", b"1"), ("a", b"2"), ("b", b"\x00")]
    assert record.timestamp_ms >= 0


def test_keys_lie_where_murmur2_puts_them(world: World):
    topic = world.topic("events", partitions=5)
    keys = [f"acme/session-{number}".encode() for number in range(50)]
    producer = world.producer()
    producer.begin()
    for key in keys:
        producer.produce(topic, key=key, value=b"x")
    producer.commit()
    assert {record.key: record.partition for record in world.read(topic)} == {
        key: partition_of(key, 5) for key in keys
    }


def test_records_of_an_abandoned_transaction_are_never_seen(world: World):
    topic = world.topic("events")
    producer = world.producer()
    producer.begin()
    producer.produce(topic, key=b"k", value=b"aborted", partition=0)
    producer.abandon()
    producer = world.producer()
    producer.begin()
    producer.produce(topic, key=b"k", value=b"kept", partition=0)
    producer.commit()
    assert [record.value for record in world.read(topic)] == [b"kept"]
    producer.begin()
    producer.abandon()
    with pytest.raises(LogFault):
        producer.commit()


def test_a_new_start_fences_the_older_producer_and_settles_what_it_left_open(world: World):
    topic = world.topic("events")
    older = world.producer()
    older.begin()
    older.produce(topic, key=b"k", value=b"zombie", partition=0)
    newer = world.producer()
    newer.begin()
    newer.produce(topic, key=b"k", value=b"newer", partition=0)
    newer.commit()
    with pytest.raises(LogFault):
        older.commit()
    with pytest.raises(LogFault):
        older.begin()
    assert [record.value for record in world.read(topic)] == [b"newer"]


def test_a_record_over_the_clients_limit_breaks_the_transaction(world: World):
    topic = world.topic("events")
    producer = world.producer()
    producer.begin()
    producer.produce(topic, key=b"k", value=b"small", partition=0)
    with pytest.raises(RecordTooLarge):
        producer.produce(topic, key=b"k", value=b"x" * (RECORD_BYTES_MAX + 1), partition=0)
    with pytest.raises(LogFault):
        producer.commit()
    producer.abandon()
    world.producer()
    assert world.read(topic) == []


def test_a_record_over_the_topics_limit_fails_the_whole_commit(world: World):
    topic = world.topic("events", max_message_bytes="2000")
    producer = world.producer()
    producer.begin()
    producer.produce(topic, key=b"k", value=b"small", partition=0)
    producer.produce(topic, key=b"k", value=b"x" * 4_000, partition=1)
    with pytest.raises(LogFault):
        producer.commit()
    producer.abandon()
    world.producer()
    assert world.read(topic) == []


def test_a_producer_that_has_failed_once_refuses_everything(world: World):
    topic = world.topic("events")
    producer = world.producer()
    producer.begin()
    with pytest.raises(RecordTooLarge):
        producer.produce(topic, key=b"k", value=b"x" * (RECORD_BYTES_MAX + 1))
    for call in (producer.begin, producer.commit, producer.start):
        with pytest.raises(LogFault, match="start a new one"):
            call()
    with pytest.raises(LogFault, match="start a new one"):
        producer.produce(topic, key=b"k", value=b"small")


def test_a_plain_record_over_the_clients_limit_is_refused_at_once(world: World):
    topic = world.topic("commands")
    producer = world.log.producer()
    with pytest.raises(RecordTooLarge):
        producer.produce(topic, key=b"k", value=b"x" * (RECORD_BYTES_MAX + 1))
    producer.flush(5_000)
    producer.close()
    assert world.read(topic) == []


def test_plain_records_are_reported_in_order_and_keep_their_place(world: World):
    topic = world.topic("commands")
    assert world.committed(topic, 20, partition=1) == list(range(20))
    assert [record.value for record in world.read(topic)] == [
        b"%d" % number for number in range(20)
    ]


@pytest.mark.case("L11")
def test_a_delivery_callback_that_raises_comes_out_of_flush(world: World):
    topic = world.topic("commands")
    producer = world.log.producer()

    def raises(_place: Place, _offset: int, _fault: LogFault | None) -> None:
        raise ZeroDivisionError

    producer.produce(topic, key=b"k", value=b"v", delivered=raises)
    with pytest.raises(ZeroDivisionError):
        producer.flush(5_000)
    producer.close()


@pytest.mark.case("L8")
def test_ends_tell_committed_from_appended_while_a_transaction_is_open(world: World):
    topic = world.topic("events", partitions=1)
    place = Place(topic, 0)
    world.committed(topic, 2)
    producer = world.producer()
    producer.begin()
    producer.produce(topic, key=b"k", value=b"open", partition=0)
    appended = world.log.reader(Isolation.UNCOMMITTED)
    appended.assign({place: 2})
    world.closed_later(appended.close)
    seen: list[object] = []
    world.until(lambda: bool(seen), lambda: seen.extend(appended.poll(1, 50)))
    assert world.log.ends([place], Isolation.COMMITTED) == {place: (0, 2)}
    assert world.log.ends([place], Isolation.UNCOMMITTED) == {place: (0, 3)}
    assert [record.value for record in world.read(topic)] == [b"0", b"1"]
    assert len(world.read(topic, Isolation.UNCOMMITTED)) == 3
    producer.commit()
    world.until(
        lambda: world.log.ends([place], Isolation.COMMITTED) == {place: (0, 4)}, lambda: None
    )


def test_offsets_of_a_current_membership_commit_with_the_transaction(world: World):
    topic = world.topic("commands")
    member, _ = world.joined(topic)
    place = Place(topic, 0)
    producer = world.producer()
    producer.begin()
    producer.send_offsets({place: 7}, member.membership())
    producer.commit()
    assert world.patiently(lambda: member.committed([place])) == {place: 7}


def test_pending_offsets_hold_the_next_owner_back_until_they_are_settled(world: World):
    topic = world.topic("commands")
    member, _ = world.joined(topic)
    first, second = world.places(topic)
    producer = world.producer()
    producer.begin()
    producer.send_offsets({first: 7}, member.membership())
    with pytest.raises(NotYet):
        member.committed([first])
    assert world.patiently(lambda: member.committed([second])) == {second: None}
    world.producer()  # the same id again: settles it
    assert world.patiently(lambda: member.committed([first])) == {first: None}


def test_a_negative_offset_is_refused_rather_than_ignored(world: World):
    topic = world.topic("commands")
    member, _ = world.joined(topic)
    producer = world.producer()
    producer.begin()
    with pytest.raises(LogFault):
        producer.send_offsets({Place(topic, 0): -1}, member.membership())
    with pytest.raises(LogFault):
        producer.commit()


def test_a_membership_from_before_a_rebalance_is_refused(world: World):
    topic = world.topic("commands")
    member, listener = world.joined(topic)
    stale = member.membership()
    other, others = world.member(topic)

    def both() -> None:
        member.poll(1, 20)
        other.poll(1, 20)

    world.until(lambda: bool(others.held) and len(listener.held) == 1, both)
    producer = world.producer()
    producer.begin()
    with pytest.raises(LogFault):
        producer.send_offsets({Place(topic, 0): 1}, stale)


def test_a_fresh_membership_may_commit_what_another_member_owns(world: World):
    """Why a transaction is given up in every rebalance: the broker checks the member, never who owns the partition."""
    topic = world.topic("commands")
    member, listener = world.joined(topic)
    other, others = world.member(topic)

    def both() -> None:
        member.poll(1, 20)
        other.poll(1, 20)

    world.until(lambda: bool(others.held) and len(listener.held) == 1, both)
    (moved,) = others.held
    producer = world.producer()

    def commits() -> bool:
        # The second rebalance of the cooperative protocol may still be under way: then the token is old again.
        nonlocal producer
        with suppress(LogFault):
            producer.begin()
            producer.send_offsets({moved: 42}, member.membership())
            producer.commit()
            return True
        producer.abandon()
        producer = world.producer()
        return False

    world.until(commits, both)
    assert world.patiently(lambda: other.committed([moved])) == {moved: 42}
