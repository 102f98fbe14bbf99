"""A schedule in a rehearsal: it sleeps until it is time, and knows what to do with what it has missed."""

from datetime import UTC, datetime

import pytest

from wakeful.events import records as r
from wakeful.processors.schedules import workflow as built_in
from wakeful.processors.schedules.spec import CAUGHT_UP_MAX
from wakeful.processors.schedules.workflow import schedule
from wakeful.testing import Rehearsal, rehearse

START = datetime(2027, 3, 26, 8, 30, tzinfo=UTC)
HOURLY = {"name": "hourly", "cron": "0 * * * *", "workflow": "report", "data": {"top": 3}}


def begun(**given) -> Rehearsal:
    session = rehearse(schedule, starts_at=START)
    session.crash_everywhere()
    session.send({**HOURLY, **given}, by="ann")
    return session


def runs(session: Rehearsal) -> list[r.RunStarted]:
    return [body for body in session.events if isinstance(body, r.RunStarted)]


def due(session: Rehearsal) -> list[str]:
    return [run.reason.partition(" ")[2] for run in runs(session)]


def sleep_through(session: Rehearsal, duration: str) -> None:
    """All was down meanwhile: the timer fires late, and once."""
    session._engine.now_ms += {"30s": 30_000, "3h": 10_800_000, "9d": 777_600_000}[duration]
    session.skip("0s")


def test_it_sleeps_until_it_is_time_and_again():
    session = begun()
    assert session.attributes["next"] == "2027-03-26T09:00:00Z"
    session.skip("2h")
    assert due(session) == ["2027-03-26T09:00:00Z", "2027-03-26T10:00:00Z"]
    first = runs(session)[0]
    assert (first.run_id, first.workflow, first.trigger) == (
        "hourly-20270326T090000Z",
        "report",
        "schedule",
    )
    assert first.data.inline == b'{"top":3}'
    assert first.where_open == "refuse"
    assert session.status == "Waiting"


def test_what_is_reckoned_once_is_kept_and_not_reckoned_again(monkeypatch):
    """When it is due next is in the state that the last stretch left, so other rules for time zones change nothing of it."""
    session = begun()

    def other_rules(*_):
        pytest.fail("a replay reckons with the rules of today")

    monkeypatch.setattr(built_in, "first_due", other_rules)
    session.redeploy(schedule)
    session.signal("schedule", {"do": "nothing"})
    assert session.attributes["next"] == "2027-03-26T09:00:00Z"
    (timer,) = [wait for wait in session.waits if wait.kind == "timer"]
    assert timer.expires_at_ms == 1_806_051_600_000


@pytest.mark.parametrize(
    ("catch_up", "caught_up"),
    [
        ("none", []),
        ("last", ["2027-03-26T11:00:00Z"]),
        ("all", ["2027-03-26T09:00:00Z", "2027-03-26T10:00:00Z", "2027-03-26T11:00:00Z"]),
    ],
)
def test_what_was_missed_is_caught_up_on_as_it_says(catch_up, caught_up):
    session = begun(catch_up=catch_up)
    sleep_through(session, "3h")
    assert due(session) == caught_up
    assert len(session.replies) == (catch_up != "all")
    session.skip("30m")
    assert due(session) == [*caught_up, "2027-03-26T12:00:00Z"]


def test_half_a_minute_is_not_late():
    session = begun(catch_up="none", cron="31 * * * *")
    session.skip("30s")
    sleep_through(session, "30s")
    sleep_through(session, "30s")
    assert due(session) == ["2027-03-26T08:31:00Z"]


def test_of_very_much_the_last_hundred_are_caught_up_on_and_the_rest_is_told():
    session = begun(catch_up="all")
    sleep_through(session, "9d")
    assert len(due(session)) == CAUGHT_UP_MAX
    assert due(session)[-1] == "2027-04-04T08:00:00Z"
    assert session.replies == [
        (
            "skipped what was due from 2027-03-26T09:00:00+00:00 on and before 2027-03-31T05:00:00+00:00: "
            "catch-up is all, of which 100 are at most"
        )
    ]


def test_paused_it_runs_nothing_and_resumed_it_goes_on_from_then():
    session = begun(catch_up="all")
    session.signal("schedule", {"do": "pause"})
    session.skip("3h")
    assert due(session) == []
    assert session.attributes["paused"] is True
    assert "next" not in session.attributes
    session.signal("schedule", {"do": "resume"})
    session.skip("30m")
    assert due(session) == ["2027-03-26T12:00:00Z"]


def test_triggered_it_runs_at_once_and_each_time():
    session = begun()
    for _ in range(2):
        session.signal("schedule", {"do": "trigger"})
    assert due(session) == ["2027-03-26T08:30:00Z, triggered"] * 2
    assert len({run.run_id for run in runs(session)}) == 2
    session.skip("30m")
    assert due(session)[2:] == ["2027-03-26T09:00:00Z"]


def test_what_it_is_not_told_rightly_is_answered_and_changes_nothing():
    session = begun()
    session.signal("schedule", {"do": "stop"})
    assert session.replies[0].endswith("send pause, resume or trigger")
    session.skip("30m")
    assert len(runs(session)) == 1


def test_a_named_session_is_asked_and_skipped_while_it_is_busy():
    session = begun(session="desk-1")
    session.skip("30m")
    session.signal("schedule", {"do": "trigger"})
    assert [(run.run_id, run.where_open) for run in runs(session)] == [
        ("desk-1", "skip"),
        ("desk-1", "queue"),
    ]
    assert [one.name for one in runs(session)[0].attributes] == ["scheduled_by"]


def test_what_a_named_session_is_to_catch_up_on_queues():
    session = begun(session="desk-1", catch_up="all")
    sleep_through(session, "3h")
    assert {run.where_open for run in runs(session)} == {"queue"}


def test_after_its_end_it_is_over():
    session = begun(until="2027-03-26T10:30:00Z")
    session.skip("5h")
    assert due(session) == ["2027-03-26T09:00:00Z", "2027-03-26T10:00:00Z"]
    assert session.outcome == {"runs": 2}


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"cron": "0 9 * *"}, "cron '0 9 * *' has 4 fields"),
        ({"timezone": "Mars/Olympus"}, "time zone 'Mars/Olympus' is not known"),
        ({"name": "a b"}, "name 'a b': use letters"),
        ({"workflow": ""}, "workflow '': use 1 to 200"),
        ({"workflow": "wakeful.schedule"}, "that of schedules themselves"),
        ({"session": "a/b"}, "session id 'a/b' is not allowed"),
        ({"catch_up": "some"}, "catch_up: Input should be 'none', 'last' or 'all'"),
        ({"overlap": "skip"}, "overlap 'skip' is for a named session"),
        ({"until": "2020-01-01T00:00:00Z"}, "never due before 2020-01-01"),
        ({"every": "day"}, "every: Extra inputs"),
    ],
)
def test_what_cannot_be_a_schedule_ends_and_says_why(given, told):
    session = begun(**given)
    assert told in session.outcome["refused"]
    assert runs(session) == []


@pytest.mark.parametrize("step", range(4, 9))
def test_a_crash_at_any_step_of_firing_runs_it_once(step):
    session = rehearse(schedule, starts_at=START)
    session.crash_at(step)
    session.send(HOURLY)
    session.skip("2h")
    assert session.crashes
    assert due(session) == ["2027-03-26T09:00:00Z", "2027-03-26T10:00:00Z"]
