"""The low watermark: nothing below it is unsettled, whatever the order of results."""

from hypothesis import given
from hypothesis import strategies as st

from wakeful.events.log.protocol import Place
from wakeful.processors.activities.offsets import Offsets

PLACE = Place("tasks", 0)


def assigned(position: int = 0, fresh_from: int = 0) -> Offsets:
    offsets = Offsets()
    offsets.assign(PLACE, position, fresh_from)
    return offsets


def take(offsets: Offsets, offset: int):
    mark = offsets.mark(PLACE)
    assert mark is not None
    return mark.take(offset)


def test_nothing_is_due_before_a_result():
    offsets = assigned(5)
    take(offsets, 5)
    assert offsets.due() == {}


def test_the_offset_after_the_last_settled_record_is_due():
    offsets = assigned(5)
    take(offsets, 5).settle()
    assert offsets.due() == {PLACE: 6}


def test_a_running_task_holds_back_all_behind_it():
    offsets = assigned()
    first, second, third = (take(offsets, n) for n in (0, 1, 2))
    second.settle()
    third.settle()
    assert offsets.due() == {}
    first.settle()
    assert offsets.due() == {PLACE: 3}


def test_control_markers_between_records_are_committed_over():
    offsets = assigned()
    for n in (0, 4, 9):
        take(offsets, n).settle()
    assert offsets.due() == {PLACE: 10}


def test_what_is_committed_is_not_due_again():
    offsets = assigned()
    take(offsets, 0).settle()
    offsets.committed({PLACE: 1})
    assert offsets.due() == {}


def test_a_ticket_of_an_earlier_assignment_settles_nothing_of_a_later_one():
    offsets = assigned()
    old = take(offsets, 0)
    offsets.drop([PLACE])
    offsets.assign(PLACE, 0, 1)
    take(offsets, 0)
    old.settle()
    assert offsets.due() == {}


def test_a_commit_answered_after_the_partition_is_gone_is_forgotten():
    offsets = assigned()
    offsets.drop([PLACE])
    offsets.committed({PLACE: 7})
    assert offsets.places == []


@given(
    st.lists(st.integers(min_value=1, max_value=3), min_size=1, max_size=40),
    st.randoms(use_true_random=False),
)
def test_the_watermark_is_the_lowest_unsettled_record_in_any_order(gaps, random):
    offsets = assigned()
    at, records = -1, []
    for gap in gaps:
        at += gap
        records.append(at)
    tickets = [take(offsets, offset) for offset in records]
    open_ = set(records)
    random.shuffle(tickets)
    for ticket in tickets:
        ticket.settle()
        open_.discard(ticket.offset)
        mark = offsets.mark(PLACE)
        assert mark is not None
        assert mark.low == min(open_, default=records[-1] + 1)
