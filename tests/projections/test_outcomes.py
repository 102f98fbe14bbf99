"""What became of each command: accepted, refused or kept, told by the events that it left."""

import pytest

from wakeful.events import records as r
from wakeful.projections.audit import rebuild_rows
from wakeful.projections.outcomes import ASKED
from wakeful.projections.rows import ESCAPED, OUTCOMES, SESSIONS

S = ("acme", "s1")
FAILED = r.Failure("raised", "IOError", "no", "")


@pytest.fixture
def opened(scribe):
    """A session that one command opened, at offset 0."""
    scribe.add(S, r.SessionOpened("desk"), cause=scribe.cause("c0"))
    return scribe


def outcome_of(scribe, offset):
    return rebuild_rows(scribe.events)[OUTCOMES][(*S, offset)]


def test_all_events_of_one_command_are_one_row_and_its_actor_is_who_asked(opened):
    cause = opened.cause("c1")
    opened.add(S, r.MessageReceived("c1", opened.payload("hi")), cause=cause, actor="ann")
    opened.add(S, r.TurnStarted(1, "message", "", "c1", "desk", 1, ()), cause=cause, actor="clock")
    opened.add(S, r.ReplySent(1, 1, opened.payload("ho")), cause=cause, actor="workflow:desk")
    row = outcome_of(opened, 1)
    assert (row["command_id"], row["command"], row["actor"]) == ("c1", "SendMessage", "ann")
    assert (row["events"], row["seq"], row["reason"]) == (3, 4, None)
    assert rebuild_rows(opened.events)[SESSIONS][S]["command_offset"] == 1


def test_a_refused_command_tells_check_reason_and_what_to_do(opened):
    refusal = r.CommandRefused("SendMessage", "ordering", "too_old", "issue it\0anew")
    opened.add(S, refusal, cause=opened.cause("c1"), actor="bob")
    row = outcome_of(opened, 1)
    assert (row["command"], row["actor"], row["failed_check"]) == ("SendMessage", "bob", "ordering")
    assert (row["reason"], row["detail"], row[ESCAPED]) == (
        "too_old",
        "issue it\\u0000anew",
        "detail",
    )


def test_an_id_used_for_something_else_does_not_touch_the_row_of_the_first(opened):
    opened.add(S, r.MessageReceived("c1", opened.payload("hi")), cause=opened.cause("c1"))
    refusal = r.CommandRefused("SendMessage", "ordering", "id_reused", "take another id")
    opened.add(S, refusal, cause=opened.cause("c1"))
    assert [outcome_of(opened, offset)["reason"] for offset in (1, 2)] == [None, "id_reused"]


def test_a_kept_command_is_parked_until_it_is_decided_behind_the_release(opened):
    opened.add(S, r.SessionHeld("unfoldable", "because"), cause=opened.cause("c1"))
    kept = opened.cause("c2")
    opened.add(S, r.CommandParked("SendMessage", b"\1" * 8, b"\2"), cause=kept)
    row = outcome_of(opened, 2)
    assert (row["command"], row["parked_seq"], row["seq"]) == ("SendMessage", 3, 3)
    opened.add(S, r.SessionReleased("fixed"), cause=opened.cause("c3"))
    opened.add(S, r.MessageReceived("c2", opened.payload("hi")), cause=kept)
    row = outcome_of(opened, 2)
    assert (row["parked_seq"], row["seq"], row["events"]) == (3, 5, 2)
    assert rebuild_rows(opened.events)[SESSIONS][S]["command_offset"] == 3


@pytest.mark.parametrize(
    "body",
    [
        r.TimerFired("1.1", 5),
        r.ActivityFailed("1.1", 1, FAILED, ""),
        r.ActivityUncertain("1.1", 1, FAILED, ""),
        r.ActivityRetryScheduled("1.1", 2, 50, FAILED, ""),
        r.ActivityRetried("1.1", 2),
        r.ApprovalExpired("1.1-a"),
    ],
)
def test_what_only_the_clock_owed_says_nothing_about_what_was_asked(opened, body):
    opened.add(S, body, cause=opened.cause("c1"), actor="clock")
    row = outcome_of(opened, 1)
    assert (row["command"], row["actor"], row["events"]) == (None, None, 1)


@pytest.mark.parametrize(
    ("body", "command"),
    [
        (r.ActivityFailed("1.1", 1, FAILED, "w1"), "FailActivity"),
        (r.LateResultRecorded("1.1", 1, "failed", None, FAILED, "w1"), "FailActivity"),
        (r.ActivityStarted("1.1", 1, "w1"), "HeartbeatActivity"),
    ],
)
def test_what_a_worker_reported_names_its_command(opened, body, command):
    opened.add(S, body, cause=opened.cause("c1"), actor="w1")
    assert outcome_of(opened, 1)["command"] == command


def test_a_late_result_names_the_command_that_brought_it(opened):
    late = r.LateResultRecorded("1.1", 1, "completed", opened.payload(1), None, "w1")
    opened.add(S, late, cause=opened.cause("c1"), actor="w1")
    assert outcome_of(opened, 1)["command"] == "CompleteActivity"


def test_the_kinds_of_commands_are_those_that_can_be_sent():
    from wakeful.commands import models

    assert all(hasattr(models, name) for name in ASKED.values())
