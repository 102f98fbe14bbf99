"""A worker that was silent for longer than a session is not sure of what it had taken before."""

from __future__ import annotations

from wakeful.events.payloads import json_payload
from wakeful.events.records import ActivityTask
from wakeful.processors.activities.hearing import Hearing
from wakeful.processors.activities.jobs import Job


class Clock:
    """Seconds that pass when told."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def job() -> Job:
    arguments = json_payload({}, b"a tenant's digest key")
    task = ActivityTask(
        *("acme", "s1", "1.1", 1, "pay", "default", "write_lookup", arguments, "acme/s1/1/1"),
        *(1_000, 10_000, 3, "ann", None),
    )
    return Job(task, "acme/s1/1/1#1", fresh=True)


def heard() -> tuple[Clock, Hearing, Job]:
    clock = Clock()
    hearing, taken = Hearing(clock), job()
    hearing.hear()
    hearing.hear([taken])
    return clock, hearing, taken


def test_a_worker_that_is_heard_of_is_sure() -> None:
    clock, hearing, taken = heard()
    for _ in range(10):
        clock.now += 1.0
        hearing.hear()
    assert not hearing.is_stale(taken)


def test_a_silence_that_lasts_is_seen_before_the_intake_wakes() -> None:
    clock, hearing, taken = heard()
    clock.now += 2.0
    assert hearing.is_stale(taken)


def test_a_silence_that_is_over_is_still_seen_and_once_for_each_job() -> None:
    clock, hearing, taken = heard()
    clock.now += 2.0
    hearing.hear()
    assert hearing.is_stale(taken)
    assert not hearing.is_stale(taken)


def test_what_was_fetched_before_a_silence_and_taken_after_it_is_not_sure_either() -> None:
    clock, hearing, _ = heard()
    clock.now += 2.0
    late = job()
    hearing.hear([late])
    assert hearing.is_stale(late)


def test_what_is_taken_after_a_silence_is_sure() -> None:
    clock, hearing, _ = heard()
    clock.now += 2.0
    hearing.hear()
    later = job()
    hearing.hear([later])
    assert not hearing.is_stale(later)
