"""The worker as it runs: its own thread and event loop, on the log in memory."""

import asyncio
import sys
import threading
import time

import pytest

from wakeful.events.log.memory_faults import Fate, NoFaults
from wakeful.events.log.protocol import LogFault
from wakeful.processors.activities.contracts import Read
from wakeful.processors.activities.definitions import activity
from wakeful.processors.activities.worker import Worker, run_through_exits
from wakeful.processors.app import App, gather

from .conftest import DEADLINE_S, until


class Guarded:
    """The log in memory for two threads: one call at a time, and an empty poll gives way."""

    def __init__(self, inner, lock=None):
        self._inner, self._lock = inner, lock or threading.RLock()

    def __getattr__(self, name):
        found = getattr(self._inner, name)
        if not callable(found):
            return found

        def call(*args, **kwargs):
            if name == "group":
                args = (*args[:2], Listening(args[2], self._lock))
            with self._lock:
                answer = found(*args, **kwargs)
            if name in ("group", "producer", "reader"):
                return Guarded(answer, self._lock)
            if name == "poll" and not answer:
                time.sleep(0.001)
            return answer

        return call


class Listening:
    """Lets the other thread use the log while a member that loses partitions finishes its work."""

    def __init__(self, listener, lock):
        self.assigned, self.lost, self._revoked, self._lock = (
            listener.assigned,
            listener.lost,
            listener.revoked,
            lock,
        )

    def revoked(self, places):
        self._lock.release()
        try:
            self._revoked(places)
        finally:
            self._lock.acquire()


class Running:
    """A worker in a thread of its own, stopped at the end."""

    def __init__(self, bench, app=None, **options):
        options = {
            "worker_id": "w1",
            "digest_key": b"digest key",
            "now_ms": lambda: 1_000,
            **options,
        }
        self.worker = Worker(bench.log, bench.topics, app or bench.desk.app, **options)
        self.error = None
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self):
        try:
            asyncio.run(self.worker.run())
        except BaseException as error:
            self.error = error

    @property
    def lane(self):
        return self.worker.lanes[0]

    @property
    def alive(self):
        return self._thread.is_alive()

    def stop(self):
        self.worker.stop()
        self._thread.join(DEADLINE_S)
        assert not self.alive
        return self.error


@pytest.fixture
def guarded(bench):
    bench.log = Guarded(bench.log)
    return bench


@pytest.fixture
def run(guarded):
    started = []

    def start(app=None, **options):
        started.append(Running(guarded, app, **options))
        return started[-1]

    yield start
    guarded.desk.calls.go_on.set()
    for running in started:
        running.stop()


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
    assert len(guarded.desk.calls.of("slow")) == 3
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
    monkeypatch.setattr("wakeful.processors.activities.worker.BLOCKED_MS", 50)
    monkeypatch.setattr(
        "wakeful.processors.activities.worker.logger.warning",
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
    assert "use asyncio.to_thread" in what
    assert more["running"] == ["blocks"]


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


@pytest.mark.parametrize("options", [{"concurrency": 0}, {"drain_ms": -1}])
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
