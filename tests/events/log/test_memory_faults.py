"""What only the log in memory can show on demand: lost answers, late markers, time-outs, hung calls."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from wakeful.events.log.memory import MemoryLog
from wakeful.events.log.memory_faults import Fate, Hung, Markers, NoFaults
from wakeful.events.log.memory_group import MemoryGroup
from wakeful.events.log.memory_producer import MemoryTransactionalProducer
from wakeful.events.log.protocol import (
    EndOfPartition,
    Isolation,
    LogFault,
    NotYet,
    OffsetGone,
    Place,
    Record,
    TopicSpec,
)

from .conftest import Listener

ZERO, ONE = Place("t", 0), Place("t", 1)


class Clock:
    def __init__(self) -> None:
        self.now_ms = 1_000

    def __call__(self) -> int:
        return self.now_ms


class Planned(NoFaults):
    """Fates by call, each used once; then all goes well."""

    def __init__(self, *, markers: Markers = Markers.AT_ONCE, **fates: Fate) -> None:
        self.fates = fates
        self.marked = markers
        for call in fates:
            setattr(self, call, self._once(call))

    def _once(self, call: str) -> Callable[[str], Fate]:
        return lambda _name: self.fates.pop(call, Fate.OK)

    def markers(self, transactional_id: str) -> Markers:
        return self.marked


def log_with(faults: NoFaults | None = None, clock: Clock | None = None) -> MemoryLog:
    log = MemoryLog(now_ms=clock or Clock(), faults=faults)
    log.create_topics([TopicSpec("t", 2, {})])
    return log


def started(log: MemoryLog, name: str = "p") -> MemoryTransactionalProducer:
    producer = log.transactional(name)
    producer.start()
    return producer


def joined(
    log: MemoryLog, *, instance_id: str | None = None, begin: int | None = None
) -> tuple[MemoryGroup, Listener]:
    listener = Listener()
    member = log.group("g", ["t"], listener, instance_id=instance_id)
    member.poll(1, 0)
    for place in listener.held:
        if begin is not None:
            member.seek(place, begin)
    return member, listener


def both_partitions(producer: MemoryTransactionalProducer) -> None:
    producer.begin()
    producer.produce("t", key=None, value=b"0", partition=0)
    producer.produce("t", key=None, value=b"1", partition=1)


def values(log: MemoryLog) -> list[bytes | None]:
    return [record.value for record in log.dump("t")]


@pytest.mark.parametrize(
    ("fate", "seen"), [(Fate.LOST_ANSWER, [b"0", b"1"]), (Fate.FAILED, []), (Fate.DELAYED, [])]
)
def test_a_commit_without_an_answer_was_applied_or_not(fate: Fate, seen: list[bytes]):
    log = log_with(Planned(on_commit=fate))
    producer = started(log)
    both_partitions(producer)
    with pytest.raises(LogFault):
        producer.commit()
    started(log)
    assert values(log) == seen
    assert log.open_transactions() == []


def test_a_hung_call_is_not_caught_as_an_ordinary_error():
    log = log_with(Planned(on_commit=Fate.HUNG_DONE))
    producer = started(log)
    both_partitions(producer)
    with pytest.raises(Hung):
        producer.commit()
    assert not issubclass(Hung, Exception)
    assert values(log) == [b"0", b"1"]


def test_a_decided_transaction_becomes_visible_partition_by_partition():
    log = log_with(Planned(markers=Markers.LATER))
    producer = started(log)
    both_partitions(producer)
    producer.commit()
    assert values(log) == []
    first, second = log.pending_markers()
    log.write_marker(second)
    assert values(log) == [b"1"]
    log.write_marker(first)
    assert values(log) == [b"0", b"1"]
    assert log.ends([ZERO], Isolation.COMMITTED) == {ZERO: (0, 2)}


def test_a_decided_commit_is_completed_by_the_next_start():
    log = log_with(Planned(markers=Markers.LATER))
    producer = started(log)
    both_partitions(producer)
    producer.commit()
    started(log)
    assert values(log) == [b"0", b"1"]
    assert log.pending_markers() == []


def test_the_next_transaction_waits_for_the_markers_of_the_last():
    log = log_with(Planned(markers=Markers.LATER))
    producer = started(log)
    both_partitions(producer)
    producer.commit()
    producer.begin()
    assert len(log.pending_markers()) == 2
    producer.produce("t", key=None, value=b"2", partition=0)
    assert log.pending_markers() == []
    assert values(log) == [b"0", b"1"]


def test_an_open_transaction_hides_what_others_commit_behind_it():
    log = log_with()
    slow, quick = started(log, "slow"), started(log, "quick")
    slow.begin()
    slow.produce("t", key=None, value=b"slow", partition=0)
    both_partitions(quick)
    quick.commit()
    assert values(log) == [b"1"]
    slow.commit()
    assert values(log) == [b"slow", b"0", b"1"]


@pytest.mark.case("L3")
def test_a_late_commit_decides_a_later_transaction_of_a_producer_that_was_kept():
    """KAFKA-17754, and why any fault replaces the producer."""
    log = log_with(Planned(on_commit=Fate.DELAYED))
    producer = started(log)
    both_partitions(producer)
    with pytest.raises(LogFault):
        producer.commit()
    producer._broken = None  # the mistake
    producer._open = False
    producer.begin()
    producer.produce("t", key=None, value=b"half", partition=0)
    (late,) = log.late_commits()
    log.arrive(late)
    assert b"half" in values(log)


@pytest.mark.case("L3")
def test_a_late_commit_of_a_replaced_producer_is_refused():
    log = log_with(Planned(on_commit=Fate.DELAYED))
    producer = started(log)
    both_partitions(producer)
    with pytest.raises(LogFault):
        producer.commit()
    newer = started(log)
    newer.begin()
    newer.produce("t", key=None, value=b"half", partition=0)
    (late,) = log.late_commits()
    log.arrive(late)
    assert values(log) == []


@pytest.mark.case("L4")
def test_a_transaction_that_outlives_its_time_out_is_aborted_and_its_producer_fenced():
    clock = Clock()
    log = log_with(clock=clock)
    producer = started(log)
    both_partitions(producer)
    clock.now_ms += 14_999
    log.expire()
    assert log.open_transactions() == ["p"]
    clock.now_ms += 1
    log.expire()
    assert log.open_transactions() == []
    with pytest.raises(LogFault, match="fenced"):
        producer.commit()
    assert values(log) == []


def test_pending_offsets_are_committed_by_the_groups_own_marker():
    log = log_with(Planned(markers=Markers.LATER))
    member, _ = joined(log)
    producer = started(log)
    producer.begin()
    producer.send_offsets({ZERO: 5}, member.membership())
    producer.produce("t", key=None, value=b"v", partition=1)
    producer.commit()
    to_group = next(ref for ref in log.pending_markers() if ref.target == "g")
    log.write_marker(next(ref for ref in log.pending_markers() if ref.target == ONE))
    with pytest.raises(NotYet):
        member.committed([ZERO])
    log.write_marker(to_group)
    assert member.committed([ZERO]) == {ZERO: 5}


def test_a_session_ends_when_its_member_is_silent_for_too_long():
    clock = Clock()
    log = log_with(clock=clock)
    first, listener = joined(log)
    token = first.membership()
    second, others = joined(log)
    clock.now_ms += 6_000
    second.poll(1, 0)
    clock.now_ms += 6_000
    second.poll(1, 0)
    assert others.held == {ZERO, ONE}
    with pytest.raises(LogFault, match="not a member"):
        first.membership()
    producer = started(log)
    producer.begin()
    with pytest.raises(LogFault, match="is over"):
        producer.send_offsets({ZERO: 1}, token)
    first.poll(1, 0)
    assert set(listener.lost_places) == {ZERO, ONE}


def test_a_killed_dynamic_member_keeps_its_partitions_until_its_session_ends():
    clock = Clock()
    log = log_with(clock=clock)
    killed, _ = joined(log)
    log.kill_member(killed)
    other, listener = joined(log)
    assert listener.held == set()
    clock.now_ms += 9_000
    other.poll(1, 0)
    assert listener.held == set()
    clock.now_ms += 2_000
    other.poll(1, 0)
    assert listener.held == {ZERO, ONE}


def test_a_partition_moves_only_after_its_owner_has_polled():
    log = log_with()
    first, listener = joined(log)
    second, others = joined(log)
    for _ in range(3):
        second.poll(1, 0)
    assert others.held == set()
    first.poll(1, 0)
    second.poll(1, 0)
    assert len(others.held) == len(listener.held) == 1


def test_calls_that_may_be_asked_again_say_so():
    log = log_with(Planned(on_start=Fate.NOT_YET, on_committed=Fate.NOT_YET))
    producer = log.transactional("p")
    with pytest.raises(NotYet):
        producer.start()
    producer.start()
    member, _ = joined(log)
    with pytest.raises(NotYet):
        member.committed([ZERO])
    assert member.committed([ZERO]) == {ZERO: None}


def test_a_lost_record_fails_the_commit():
    log = log_with(Planned(on_produce=Fate.FAILED))
    producer = started(log)
    both_partitions(producer)
    with pytest.raises(LogFault):
        producer.commit()


def test_a_delayed_plain_record_keeps_its_place_before_those_behind_it():
    log = log_with(Planned(on_deliver=Fate.DELAYED))
    producer = log.producer()
    for value in (b"0", b"1"):
        producer.produce("t", key=None, value=value, partition=0)
    assert values(log) == []
    producer.flush(0)
    assert values(log) == [b"0", b"1"]


def test_a_plain_record_without_an_answer_may_have_arrived():
    log = log_with(Planned(on_deliver=Fate.LOST_ANSWER))
    reports: list[tuple[int, bool]] = []
    producer = log.producer()
    producer.produce(
        "t",
        key=None,
        value=b"v",
        partition=0,
        delivered=lambda _place, offset, fault: reports.append((offset, fault is not None)),
    )
    with pytest.raises(LogFault):
        producer.flush(0)
    assert reports == [(-1, True)]
    assert values(log) == [b"v"]


def test_a_position_below_the_logs_start_is_named():
    log = log_with()
    producer = log.producer()
    for _ in range(3):
        producer.produce("t", key=None, value=b"v", partition=0)
    log.trim(ZERO, 2)
    reader = log.reader()
    reader.assign({ZERO: 1})
    with pytest.raises(OffsetGone, match=r"t\[0\]@1"):
        reader.poll(1, 0)
    reader.assign({ZERO: 2})
    first, end = reader.poll(5, 0)
    assert isinstance(first, Record)
    assert end == EndOfPartition("t", 0, 3)
