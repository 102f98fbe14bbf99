"""When a schedule is due: what no clock shows runs after it, what it shows twice runs once, and the last times are found."""

import itertools
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wakeful.processors.schedules.times import (
    BadTime,
    check_cron,
    last_up_to,
    moment,
    next_after,
    to_ms,
    upcoming,
    zone_of,
)

BERLIN = "Europe/Berlin"
HOUR_MS = 3_600_000


def ms(*at, zone="UTC"):
    return to_ms(datetime(*at, tzinfo=ZoneInfo(zone)).astimezone(UTC))


def shown(times):
    return [f"{moment(one):%m-%dT%H:%M}" for one in times]


def test_times_are_those_of_the_zone_in_summer_and_in_winter():
    assert shown(upcoming("0 9 * * MON-FRI", BERLIN, ms(2027, 3, 25, 12), 3)) == [
        "03-26T08:00",
        "03-29T07:00",
        "03-30T07:00",
    ]


def test_a_time_that_does_not_exist_runs_in_the_instant_after_the_gap():
    assert shown(upcoming("30 2 * * *", BERLIN, ms(2027, 3, 27, 12), 2)) == [
        "03-28T01:00",  # 03:00 in Berlin, where it is never 02:30 on that day
        "03-29T00:30",
    ]


def test_a_time_that_comes_twice_runs_once_and_first():
    first = ms(2027, 10, 31, 0, 30)
    assert upcoming("30 2 * * *", BERLIN, first - 1, 1) == [first]
    in_the_second_hour = first + HOUR_MS - 15 * 60_000
    assert shown(upcoming("30 2 * * *", BERLIN, first, 1)) == ["11-01T01:30"]
    assert shown(upcoming("30 2 * * *", BERLIN, in_the_second_hour, 1)) == ["11-01T01:30"]


def test_every_half_hour_goes_by_what_has_passed():
    for day in (ms(2027, 3, 28), ms(2027, 10, 31)):
        due = upcoming("*/30 * * * *", BERLIN, day - 1, 12)
        assert {later - one for one, later in itertools.pairwise(due)} == {HOUR_MS // 2}


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("", "0 fields"),
        ("* * * * * *", "6 fields"),
        ("@daily", "1 field,"),
        ("61 * * * *", "bad minute"),
        ("0 9 * * MON-FRIDAY", "bad day-of-week"),
        ("0 0 30 2 *", "bad day-of-month"),
        ("0,1 " * 40 + "* * * *", "128 characters"),
    ],
)
def test_what_is_no_cron_expression_is_named(given, told):
    with pytest.raises(BadTime, match="cron ") as error:
        check_cron(given)
    assert told in str(error.value)


@pytest.mark.parametrize(
    "name", ["Mars/Olympus", "", "../etc/passwd", "localtime", "Europe", "x" * 80]
)
def test_what_is_no_time_zone_is_named(name):
    with pytest.raises(BadTime, match="is not known here: write it like Europe/Berlin"):
        zone_of(name)


CRONS = st.sampled_from(
    [
        "* * * * *",
        "*/7 * * * *",
        "30 2 * * *",
        "0 1-3 * * *",
        "15,45 */2 * * *",
        "0 9 * * MON",
        "0 0 1 * *",
    ]
)
ZONES = st.sampled_from(
    ["UTC", BERLIN, "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu"]
)
MINUTES = st.integers(0, 60 * 24 * 400)


@given(CRONS, ZONES, MINUTES, st.integers(0, 60 * 50), st.integers(1, 9))
def test_the_last_times_are_those_that_come_one_after_the_other(cron, zone, start, minutes, count):
    """Whatever window they are looked for in: a time does not depend on where one begins to look."""
    first_ms = ms(2027, 1, 1) + start * 60_000
    now_ms = first_ms + minutes * 60_000
    walked, at = [], first_ms - 1
    while (due := next_after(cron, zone, at)) is not None and due <= now_ms:
        walked.append(due)
        at = due
    assert last_up_to(cron, zone, first_ms, now_ms, count) == (
        walked[-count:],
        len(walked) > count,
    )


def test_a_year_of_minutes_is_not_walked_through():
    now = datetime(2028, 1, 1, tzinfo=UTC)
    due, more = last_up_to("* * * * *", BERLIN, ms(2027, 1, 1), to_ms(now), 100)
    assert more
    assert [moment(one) for one in due] == [now - timedelta(minutes=n) for n in range(99, -1, -1)]
