"""A replay comes to the state that a session had at any of its events, and names what does not fit, by its field."""

from dataclasses import replace
from hashlib import sha256

import pytest

from wakeful.deploy.auditing.replaying import (
    Range,
    compare_rows,
    first_difference,
    replay,
    replayed_json,
    told,
)
from wakeful.events import records as r
from wakeful.events.codec import decode_event, decode_snapshot, encode_snapshot, encode_state
from wakeful.events.headers import record_headers
from wakeful.events.state import Head, State
from wakeful.projections.audit import rebuild_rows
from wakeful.projections.rows import LEDGER, SESSIONS

EVERYTHING = Range()


def kinds(replayed, wanted):
    return [type(event.body).__name__ for event, _ in told(replayed, wanted)]


def rows_of(records, change=lambda rows: None):
    rows = rebuild_rows(decode_event(one.value, one.headers) for one in records)
    change(rows)
    return [(table, key, row) for table in rows for key, row in rows[table].items()]


@pytest.mark.case("L29")
def test_each_prefix_of_a_history_folds_to_what_the_whole_had_there(recorded):
    events, snapshots = recorded.of("s3")
    whole = replay(events, snapshots, EVERYTHING)
    assert whole.differences == []
    assert whole.snapshots > 0
    hashes = [decode_event(one.value, one.headers).envelope.prev_hash for one in events[1:]]
    for seq in range(1, len(events) + 1):
        part = replay(events, snapshots, Range(last=seq))
        assert (part.head.seq, part.events, part.differences) == (seq, len(events), [])
        assert part.head.hash == [*hashes, whole.head.hash][seq - 1]
    assert part.state == whole.state


def test_a_turn_is_folded_to_its_end_and_told_alone(recorded):
    events, snapshots = recorded.of("s3")
    wanted = Range(turn=2)
    second = replay(events, snapshots, wanted)
    assert (second.state.turn, second.state.status) == (2, "Suspended")
    assert kinds(second, wanted)[0] == "TurnStarted"
    assert kinds(second, wanted).count("TurnStarted") == 1
    assert "TurnCompleted" in kinds(second, wanted)


def test_a_range_of_positions_is_told_and_folded_from_the_first_event(recorded):
    events, snapshots = recorded.of("s1")
    wanted = Range(first=2, last=4)
    part = replay(events, snapshots, wanted)
    assert [event.envelope.seq for event, _ in told(part, wanted)] == [2, 3, 4]
    assert part.head.seq == 4


def test_a_lost_event_is_named_by_its_number(recorded):
    events, snapshots = recorded.of("s1")
    found = replay([*events[:3], *events[4:]], snapshots, EVERYTHING)
    (difference,) = found.differences
    assert (difference.field, difference.expected, difference.found) == ("seq", 4, 5)
    assert f"{events[4].partition}@{events[4].offset}" in difference.where


def test_a_changed_event_is_named_at_the_next_one_which_has_its_hash(recorded):
    events, _ = recorded.of("s1")
    at = next(
        n
        for n, one in enumerate(events)
        if isinstance(decode_event(one.value, one.headers).body, r.MessageReceived)
    )
    value = events[at].value.replace(b"hello", b"HELLO")
    assert value != events[at].value
    changed = [*events[:at], replace(events[at], value=value), *events[at + 1 :]]
    (difference,) = replay(changed, [], EVERYTHING).differences
    assert difference.field == "prev_hash"
    assert f"@{events[at + 1].offset}" in difference.where


def test_what_is_no_event_is_named(recorded):
    events, _ = recorded.of("s1")
    (difference,) = replay([replace(events[0], value=b"x")], [], EVERYTHING).differences
    assert (difference.field, difference.expected) == ("value", "event 1")


def test_a_snapshot_that_says_something_else_is_named_by_its_field(recorded):
    events, snapshots = recorded.of("s3")
    whole = replay(events, snapshots, EVERYTHING)
    at, right = next(
        (one, found)
        for one in snapshots
        if one.value is not None
        and isinstance(found := decode_snapshot(one.value, one.headers), r.Snapshot)
    )
    state = whole.at_snapshots[right.seq]
    wrong = encode_state(replace(state, state=replace(state.state, turn=9)))
    told_ = encode_snapshot(replace(right, state=wrong, state_hash=sha256(wrong).digest()))
    other = replace(at, value=told_.value, headers=record_headers(told_, "x"))
    found = replay(events, [other], EVERYTHING)
    (difference,) = found.differences
    assert difference.where == f"the snapshot at seq {right.seq}"
    assert (difference.field, difference.expected) == ("state.turn", state.state.turn)
    assert difference.found == 9


def test_rows_are_compared_where_the_fold_goes_as_far_as_they_do(recorded):
    events, snapshots = recorded.of("s3")
    part = replay(events, snapshots, Range(last=3))
    compare_rows(part, rows_of(events))
    assert (part.views_at, part.differences) == (None, [])
    whole = replay(events, snapshots, EVERYTHING)
    compare_rows(whole, rows_of(events))
    assert (whole.views_at, whole.differences) == (len(events), [])
    behind = replay(events, snapshots, EVERYTHING)
    compare_rows(behind, rows_of(events[:-1]))
    assert (behind.views_at, behind.differences) == (len(events) - 1, [])


def test_a_row_that_says_something_else_is_named_by_its_column(recorded):
    events, snapshots = recorded.of("s1")

    def change(rows):
        rows[SESSIONS]["acme", "s1"]["status"] = "Running"

    whole = replay(events, snapshots, EVERYTHING)
    compare_rows(whole, rows_of(events, change))
    (difference,) = whole.differences
    assert difference.where == "the row acme/s1 of sessions"
    assert (difference.field, difference.expected, difference.found) == (
        "status",
        "Completed",
        "Running",
    )


def test_a_row_that_is_gone_is_named(recorded):
    events, snapshots = recorded.of("s1")

    def change(rows):
        rows[LEDGER].pop(min(rows[LEDGER]))

    whole = replay(events, snapshots, EVERYTHING)
    compare_rows(whole, rows_of(events, change))
    (difference,) = whole.differences
    assert (difference.field, difference.expected, difference.found) == ("row", "a row", "no row")


def test_json_has_the_state_as_people_know_it(recorded):
    events, snapshots = recorded.of("s2")
    found = replayed_json(replay(events, snapshots, EVERYTHING))
    assert found["state"]["status"] == "Waiting"
    assert found["state"]["approvals"][0]["name"] == "refund"
    assert found["differences"] == []


@pytest.mark.parametrize(
    ("expected", "found", "field"),
    [
        (State("a"), State("a", turn=1), "turn"),
        (
            State("a", versions=(r.Version("x", "1"),)),
            State("a", versions=(r.Version("x", "2"),)),
            "versions[0].version",
        ),
        (State("a", versions=(r.Version("x", "1"),)), State("a"), "versions"),
        (Head(), State("a"), ""),
    ],
)
def test_the_first_field_that_differs_is_found(expected, found, field):
    assert first_difference(expected, found)[0] == field
    assert first_difference(expected, expected) is None
