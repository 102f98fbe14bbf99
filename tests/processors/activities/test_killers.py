"""Attempts that run at two deaths of their worker are suspects: one at a time from then on, and at last not at all."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from wakeful.processors.activities import killers
from wakeful.processors.activities.hung import Attempts
from wakeful.processors.activities.killers import SUSPECT_DEATHS, NoKillers, NotedKillers, noted
from wakeful.processors.activities.waiting import Waiting


class Named:
    """As much of a job as is asked for here."""

    once, taken_at = False, 0.0

    def __init__(self, command_id: str) -> None:
        self.command_id = command_id


def job(name: str) -> Any:
    return Named(name)


@pytest.fixture
def worker(tmp_path: Path) -> Callable[[], NotedKillers]:
    """Starts the worker of this name; the one before has died."""
    alive: list[NotedKillers] = []

    def start() -> NotedKillers:
        for before in alive:
            before.close()
        alive[:] = [NotedKillers(tmp_path / "note")]
        return alive[0]

    return start


def test_what_ran_at_each_death_is_counted_and_what_ended_is_not(worker) -> None:
    for deaths in range(4):
        now = worker()
        assert [now.deaths(job(name)) for name in ("killer", "quick", "new")] == [deaths, 0, 0]
        for name in ("killer", "quick"):
            now.begins(job(name))
        now.ends(job("quick"))


def test_a_suspect_that_has_not_come_back_dies_of_no_other_death(worker) -> None:
    worker().begins(job("killer"))
    for _ in range(3):
        assert worker().deaths(job("killer")) == 1


def test_an_end_is_the_end_of_the_suspicion(worker) -> None:
    worker().begins(job("innocent"))
    now = worker()
    now.begins(job("innocent"))
    now.ends(job("innocent"))
    now.ends(job("innocent"))
    assert (now.deaths(job("innocent")), worker().deaths(job("innocent"))) == (0, 0)


def test_after_one_death_nobody_waits_for_another(worker) -> None:
    before = worker()
    for name in ("a", "b"):
        before.begins(job(name))
    now = worker()
    for name in ("a", "b"):
        assert not now.holds_back(job(name))
        now.begins(job(name))


def test_suspects_start_one_at_a_time_and_hold_up_nobody_else(worker) -> None:
    for _ in range(SUSPECT_DEATHS):
        before = worker()
        for name in ("a", "b"):
            before.begins(job(name))
    now = worker()
    attempts, waiting = Attempts(now), Waiting(lambda _job: False, now.holds_back)
    jobs = {name: job(name) for name in ("a", "b", "new")}
    waiting.add([*jobs.values()], now=0.0)

    def start() -> Any:
        found = waiting.next(thread_is_free=True)
        if found is not None:
            attempts.begin(found)
        return found

    assert [start(), start(), start()] == [jobs["a"], jobs["new"], None]
    assert attempts.claim(jobs["a"])
    assert not attempts.claim(jobs["a"])
    assert start() is jobs["b"]


def test_a_worker_that_is_alive_keeps_its_note_to_itself(worker, tmp_path: Path) -> None:
    worker().begins(job("a"))
    second = noted(tmp_path / "note")
    assert isinstance(second, NoKillers)
    assert second.deaths(job("a")) == 0


def test_more_than_can_be_noted_run_all_the_same_and_old_suspects_make_room(
    worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(killers, "SLOTS", 2)
    before = worker()
    for name in ("a", "b", "c"):
        before.begins(job(name))
    before.ends(job("c"))
    now = worker()
    assert [now.deaths(job(name)) for name in ("a", "b", "c")] == [1, 1, 0]
    now.begins(job("b"))
    now.begins(job("new"))
    after = worker()
    assert [after.deaths(job(name)) for name in ("a", "b", "new")] == [0, 2, 1]


def test_a_file_of_another_size_is_taken_over(tmp_path: Path) -> None:
    (tmp_path / "note").write_bytes(b"x" * 7)
    NotedKillers(tmp_path / "note").close()
