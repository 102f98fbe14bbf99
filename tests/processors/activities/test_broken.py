"""What ends a worker from inside is a fault of that attempt: told, counted as a death, and never an orderly end."""

import asyncio

import pytest

from wakeful.events.log.protocol import Fatal
from wakeful.processors.activities.contracts import Read
from wakeful.processors.activities.definitions import activity
from wakeful.processors.activities.hung import Attempts, Broken, fault_of
from wakeful.processors.activities.killers import DEATHS_MAX, NotedKillers
from wakeful.processors.app import gather

from .conftest import until


class Named:
    """As much of a job as is asked for here."""

    def __init__(self, command_id):
        self.command_id = command_id


@pytest.fixture
def killers(tmp_path):
    """Those of the next worker of the same name; the one before has died."""
    alive = []

    def start():
        for before in alive:
            before.close()
        alive[:] = [NotedKillers(tmp_path / "note")]
        return alive[0]

    return start


@pytest.mark.parametrize("error", [SystemExit(), KeyboardInterrupt("by itself")])
def test_what_ends_a_worker_from_inside_is_a_death_of_that_attempt_alone(
    guarded, run, killers, error
):
    calls, ends = guarded.desk.calls, []

    @activity(contract=Read())
    def breaks(n: int) -> int:
        calls.made.append(("breaks", n))
        return n

    @activity(contract=Read(), queue="other")
    async def elsewhere(n: int) -> int:
        while not calls.go_on.is_set():  # noqa: ASYNC110 set by the test's thread
            await asyncio.sleep(0.001)
        return n

    def hit(point):
        if point == "w.responded":
            raise error

    app = gather([breaks, elsewhere])
    guarded.put(guarded.task("breaks", {"n": 1}, "s1"))
    guarded.put(guarded.task("elsewhere", {"n": 2}, "s2", queue="other"))
    for _ in range(DEATHS_MAX):
        running = run(app, killers=killers(), hit=hit, drain_ms=0)
        until(lambda running=running: not running.alive, "its end")
        ends.append(running.error)
    assert [type(end) for end in ends] == [Broken] * DEATHS_MAX
    assert type(error).__name__ in str(ends[0])
    calls.go_on.set()
    run(app, killers=killers())
    until(lambda: len(guarded.results()) == 2, "what is said of them")
    said = {c.header.session_id: c.body for c in guarded.results()}
    assert said["s1"].failure.kind == "cut_off"
    assert not hasattr(said["s2"], "failure")
    assert calls.of("breaks") == [1] * DEATHS_MAX


def test_a_log_that_is_down_is_no_death_of_the_attempt_that_meets_it(killers):
    attempts, job = Attempts(killers()), Named("acme/s1/1/1#1")
    attempts.begin(job)
    assert attempts.breaks(job, Fatal("another worker has its place"))
    assert not attempts.breaks(job, SystemExit())
    assert killers().deaths(job) == 0


def test_an_error_stays_what_it_is_and_an_exit_becomes_a_fault():
    error = ValueError("ours")
    assert fault_of(error) is error
    assert "ended from inside, by SystemExit: 0" in fault_of(SystemExit(0)).message
