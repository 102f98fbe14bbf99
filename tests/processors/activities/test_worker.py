"""The worker as it runs: its own thread and event loop, on the log in memory."""

import asyncio
import sys
import threading

import pytest

from wakeful.events.log.memory_faults import Fate, NoFaults
from wakeful.events.log.protocol import LogFault
from wakeful.processors.activities import worker as worker_module
from wakeful.processors.activities.contracts import Read
from wakeful.processors.activities.definitions import activity
from wakeful.processors.activities.worker import Worker, lets_go, run_through_exits
from wakeful.processors.app import App, gather

from .conftest import DEADLINE_S, until


def slow_tasks(bench, count):
    return [bench.task("slow", {"n": n}, f"s{n}") for n in range(count)]


def test_tasks_become_results_and_offsets(guarded, run):
    running = run()
    guarded.put(*[guarded.task("find_order", {"order_id": f"A{n}"}, f"s{n}") for n in range(50)])
    until(lambda: len(guarded.results()) == 50, "50 results")
    group = f"{guarded.topics.namespace}.workers.default"
    until(lambda: sum(guarded.log.group_offsets(group).values()) == 50, "50 committed")
    assert running.stop() is None


def test_no_more_run_at_once_than_the_concurrency(guarded, run):
    running = run(concurrency=3)
    guarded.put(*slow_tasks(guarded, 20))
    until(lambda: running.lane.core.running == 6, "as many again wait at hand")
    until(lambda: len(guarded.desk.calls.of("slow")) == 3, "three run")
    guarded.desk.calls.go_on.set()
    until(lambda: len(guarded.results()) == 20, "all results")


def test_a_full_worker_pauses_and_goes_on(guarded, run):
    running = run(concurrency=1)
    guarded.put(*slow_tasks(guarded, 10))
    until(lambda: running.lane.core.running == 2, "it is full")
    until(lambda: running.lane.core._group._inner._paused, "the partitions are paused")
    guarded.desk.calls.go_on.set()
    until(lambda: len(guarded.results()) == 10, "all results")


def test_stopping_lets_running_activities_finish_and_leaves_the_rest(guarded, run):
    running = run(concurrency=2)
    guarded.put(*slow_tasks(guarded, 8))
    until(lambda: len(guarded.desk.calls.of("slow")) == 2, "two run")
    running.worker.stop()
    guarded.desk.calls.go_on.set()
    assert running.stop() is None
    assert len(guarded.results()) == 2
    run(worker_id="w2")
    until(lambda: len(guarded.results()) == 8, "the next worker does the rest")
    assert sorted(guarded.desk.calls.of("slow")) == list(range(8))


def test_what_outlives_the_drain_is_cut_and_run_again_elsewhere(guarded, run):
    running = run(drain_ms=30)
    guarded.put(*slow_tasks(guarded, 1))
    until(lambda: guarded.desk.calls.of("slow"), "it runs")
    assert running.stop() is None
    assert guarded.results() == []
    guarded.desk.calls.go_on.set()
    run(worker_id="w2")
    until(lambda: len(guarded.results()) == 1, "its result")
    assert guarded.desk.calls.of("slow") == [0, 0]


def test_a_leaving_partition_is_drained_before_it_is_let_go(guarded, run, monkeypatch):
    first = run(concurrency=50)
    guarded.put(*slow_tasks(guarded, 20))
    until(lambda: len(guarded.desk.calls.of("slow")) == 20, "all run at the first")
    core, left = first.lane.core, []
    draining, drop = core._draining, core.offsets.drop

    def note_draining(places):
        guarded.desk.calls.go_on.set()
        draining(places)

    def note_drop(places):
        left.append(core.unsettled_in(places))
        drop(places)

    monkeypatch.setattr(core, "_draining", note_draining)
    monkeypatch.setattr(core.offsets, "drop", note_drop)
    run(worker_id="w2")
    until(lambda: left, "partitions leave the first")
    assert left[0] == 0
    until(lambda: len({c.header.session_id for c in guarded.results()}) == 20, "all results")
    assert first.alive


def test_an_activity_that_exits_the_process_is_a_failure_and_the_worker_lives(guarded, run):
    @activity(contract=Read())
    async def quits() -> None:
        sys.exit(3)

    running = run(gather([quits]))
    guarded.put(guarded.task("quits", {}))
    until(lambda: guarded.results(), "its failure")
    assert guarded.results()[0].body.failure.type == "SystemExit"
    assert running.alive


def test_a_task_of_an_activity_that_exits_the_process_leaves_the_loop_going():
    told = []

    async def quits() -> None:
        sys.exit(3)

    async def work() -> None:
        for _ in range(2):
            try:
                await asyncio.gather(quits())
            except SystemExit as error:
                told.append(error.code)

    with asyncio.Runner() as runner:
        run_through_exits(runner.get_loop(), work())
    assert told == [3, 3]


def test_a_blocked_event_loop_is_told_in_the_log(guarded, run, monkeypatch):
    told = []
    monkeypatch.setattr("wakeful.processors.activities.lane.BLOCKED_MS", 50)
    monkeypatch.setattr("wakeful.processors.activities.lane.SILENT_MS", 50)
    monkeypatch.setattr(
        "wakeful.processors.activities.lane.logger.warning",
        lambda what, **more: told.append((what, more)),
    )
    released = threading.Event()

    @activity(contract=Read())
    async def blocks() -> None:
        released.wait(DEADLINE_S)

    run(gather([blocks]))
    guarded.put(guarded.task("blocks", {}))
    until(lambda: told, "a warning")
    released.set()
    what, more = told[0]
    assert "declare it with 'def'" in what
    assert more["activity"] == "blocks"


def test_a_log_that_never_answers_ends_the_worker_with_its_fault(guarded, run):
    class Refusing(NoFaults):
        def on_committed(self, group):
            return Fate.FAILED

    guarded.log._broker.faults = Refusing()
    running = run()
    until(lambda: not running.alive, "the worker ends")
    assert isinstance(running.error, LogFault)


def test_an_app_without_activities_makes_no_worker(guarded):
    with pytest.raises(ValueError, match="app declares no activities, so a worker has no queue"):
        Worker(guarded.log, guarded.topics, App(), worker_id="w", digest_key=b"k", now_ms=lambda: 0)


@pytest.mark.parametrize("options", [{"concurrency": 0}, {"sync_concurrency": 0}, {"drain_ms": -1}])
def test_bounds_are_checked_when_the_worker_is_made(guarded, options):
    with pytest.raises(ValueError, match=next(iter(options))):
        Worker(
            guarded.log,
            guarded.topics,
            guarded.desk.app,
            worker_id="w",
            digest_key=b"k",
            now_ms=lambda: 0,
            **options,
        )


@pytest.mark.parametrize("clings", [False, True])
def test_what_clings_when_the_worker_is_over_does_not_keep_its_process(clings: bool) -> None:
    """`asyncio.Runner.close` would wait for it for ever."""
    cancelled: list[str] = []
    clinging = [True]

    async def body() -> None:
        while clinging:
            try:
                await asyncio.sleep(3_600)
            except asyncio.CancelledError:
                cancelled.append("once")

    loop = asyncio.new_event_loop()
    task = loop.create_task(body())
    loop.run_until_complete(asyncio.sleep(0))
    if not clings:
        clinging.clear()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(worker_module, "CLOSE_S", 0.05)
        assert lets_go(loop) is not clings
    assert cancelled == ["once"]
    clinging.clear()
    assert lets_go(loop)
    assert task.done()
    loop.close()
