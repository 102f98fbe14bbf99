"""Sync activities run in threads, and are in all else what async ones are."""

import asyncio
import subprocess
import sys
import threading
import warnings
from contextvars import ContextVar
from typing import Any

import pytest

from wakeful.commands.models import CompleteActivity
from wakeful.processors.activities.contracts import Read, Write
from wakeful.processors.activities.definitions import activity
from wakeful.processors.activities.performing import perform, perform_sync
from wakeful.processors.activities.runner import Runner
from wakeful.processors.activities.threads import Threads
from wakeful.processors.app import gather

from .conftest import DEADLINE_S, Order, until

SEEN: ContextVar[str] = ContextVar("seen", default="nothing")


def awaited(function):
    """The async activity with this body and these types."""

    async def same(**arguments):
        return function(**arguments)

    same.__name__ = function.__name__
    same.__annotations__ = function.__annotations__
    same.__signature__ = __import__("inspect").signature(function)
    return same


def both(bench, function, arguments=None):
    """What one attempt of it says as a sync activity, and as an async one."""
    bodies = []
    for declared in (function, awaited(function)):
        tool = activity(contract=Write(idempotent=True))(declared)
        runner = Runner({tool.name: tool}, worker_id="w1", digest_key=b"k")
        call = runner.prepare(bench.task(tool.name, arguments or {}))
        bodies.append(
            perform_sync(runner, call) if tool.is_sync else asyncio.run(perform(runner, call))
        )
    return bodies


def test_arguments_key_and_result_are_typed_as_those_of_an_async_one(bench):
    def refund(order: Order, cents: int = 1, *, key: str) -> Order:
        return Order(id=f"{type(order).__name__} {key}", cents=order.cents + cents)

    sync, same = both(bench, refund, {"order": {"id": "A", "cents": 2}})
    assert isinstance(sync, CompleteActivity)
    assert sync == same
    assert sync.result.inline == b'{"cents":3,"id":"Order acme/s1/1/1"}'


@pytest.mark.parametrize(
    "error",
    [
        LookupError("no such account"),
        SystemExit(3),
        KeyboardInterrupt("by itself"),
        asyncio.CancelledError("by itself"),
        TimeoutError("the tool's own"),
        ValueError("a\ud800b"),
    ],
)
def test_whatever_is_raised_is_told_as_of_an_async_one(bench, error):
    def pay() -> None:
        raise error

    sync, same = (body.failure for body in both(bench, pay))
    assert (sync.kind, sync.type, sync.message) == (same.kind, same.type, same.message)
    assert sync.kind == "raised"
    assert "in pay" in sync.detail


@pytest.mark.parametrize("result", [object(), b"\xff", "x" * 300_000])
def test_a_result_that_cannot_be_stored_is_told_as_of_an_async_one(bench, result):
    def read() -> Any:
        return result

    sync, same = both(bench, read)
    assert sync == same
    assert sync.failure.kind in ("unserialisable_result", "result_too_large")


def test_a_sync_function_that_gives_a_coroutine_says_what_to_write(bench):
    async def inner() -> int:
        return 1

    def read() -> Any:
        return inner()

    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        sync, _ = both(bench, read)
    assert "returned an awaitable: write 'async def'" in sync.failure.message
    assert [str(w.message) for w in told if "inner" in str(w.message)][1:] == []


def test_threads_are_made_when_needed_used_again_and_bounded():
    threads, names, gates = Threads("t", threads_max=2), [], [threading.Event() for _ in range(4)]
    done = [threading.Event() for _ in gates]

    def call(n):
        names.append(threading.current_thread().name)
        gates[n].wait(DEADLINE_S)
        done[n].set()

    threads.run(lambda: call(0))
    gates[0].set()
    until(lambda: threads._idle._value == 1, "the first is idle again")
    for n in (1, 2, 3):
        threads.run(lambda n=n: call(n))
    until(lambda: len(names) == 3, "two more run, the last waits")
    for gate in gates:
        gate.set()
    until(lambda: all(event.is_set() for event in done), "all ran")
    assert (names[0], len(names)) == ("t-1", 4)
    assert set(names) == {"t-1", "t-2"}
    threads.close()


def test_threads_need_a_bound():
    with pytest.raises(ValueError, match="threads_max is 0"):
        Threads("t", threads_max=0)


def test_a_thread_that_never_ends_does_not_keep_its_process():
    program = """
import threading
from wakeful.processors.activities.threads import Threads
Threads("t", threads_max=1).run(threading.Event().wait)
"""
    assert subprocess.run([sys.executable, "-c", program], timeout=DEADLINE_S).returncode == 0


class Mixed:
    """An app with both kinds; the sync one waits for `go_on` without the event loop."""

    def __init__(self, calls):
        self.most, self._now, self._lock = 0, 0, threading.Lock()

        @activity(contract=Read())
        def wait(n: int) -> str:
            with self._lock:
                self._now += 1
                self.most = max(self.most, self._now)
            calls.made.append(("wait", n))
            before = SEEN.get()
            SEEN.set(str(n))
            calls.go_on.wait(DEADLINE_S)
            with self._lock:
                self._now -= 1
            return f"{before} {threading.current_thread().name}"

        @activity(contract=Read())
        async def quick(n: int) -> int:
            calls.made.append(("quick", n))
            return n

        self.app = gather([wait, quick])


@pytest.fixture
def mixed(guarded):
    return Mixed(guarded.desk.calls)


def tasks(bench, name, count):
    return [bench.task(name, {"n": n}, f"{name}{n}") for n in range(count)]


def results(bench):
    return {c.header.session_id: c.body.result.inline for c in bench.results()}


def test_sync_ones_are_bounded_and_do_not_hold_up_async_ones(guarded, run, mixed):
    running = run(mixed.app, sync_concurrency=2, concurrency=5)
    guarded.put(*tasks(guarded, "wait", 6), partition=0)
    until(lambda: len(guarded.desk.calls.of("wait")) == 2, "two run")
    guarded.put(*tasks(guarded, "quick", 20), partition=0)
    until(lambda: len(results(guarded)) == 20, "all quick ones pass those that wait for a thread")
    guarded.desk.calls.go_on.set()
    until(lambda: len(results(guarded)) == 26, "all")
    assert mixed.most == 2
    assert running.stop() is None
    group = f"{guarded.topics.namespace}.workers.default"
    assert sum(guarded.log.group_offsets(group).values()) == 26


def test_the_concurrency_of_the_queue_bounds_both_kinds(guarded, run, mixed):
    running = run(mixed.app, sync_concurrency=8, concurrency=3)
    guarded.put(*tasks(guarded, "wait", 10))
    until(lambda: running.lane.core.running == 6, "as many again wait at hand")
    until(lambda: len(guarded.desk.calls.of("wait")) == 3, "three run")
    guarded.desk.calls.go_on.set()
    until(lambda: len(results(guarded)) == 10, "all")
    assert mixed.most == 3


def test_each_call_has_a_context_of_its_own(guarded, run, mixed):
    guarded.desk.calls.go_on.set()
    run(mixed.app, sync_concurrency=1)
    guarded.put(*tasks(guarded, "wait", 5))
    until(lambda: len(results(guarded)) == 5, "all")
    assert set(results(guarded).values()) == {b'"nothing activity-default-1"'}


def test_stopping_lets_sync_ones_finish(guarded, run, mixed):
    running = run(mixed.app, sync_concurrency=2)
    guarded.put(*tasks(guarded, "wait", 6))
    until(lambda: len(guarded.desk.calls.of("wait")) == 2, "two run")
    running.worker.stop()
    guarded.desk.calls.go_on.set()
    assert running.stop() is None
    assert (len(results(guarded)), running.ended) == (2, [])
    run(mixed.app, worker_id="w2")
    until(lambda: len(results(guarded)) == 6, "the next worker does the rest")
    assert len(guarded.desk.calls.of("wait")) == 6


def test_what_outlives_the_drain_is_left_behind_unheard_and_run_again(guarded, run, mixed):
    running = run(mixed.app, drain_ms=30)
    guarded.put(*tasks(guarded, "wait", 1))
    until(lambda: guarded.desk.calls.of("wait"), "it runs")
    assert running.stop() is None
    guarded.desk.calls.go_on.set()
    run(mixed.app, worker_id="w2")
    until(lambda: results(guarded), "its result")
    assert [c.body.worker for c in guarded.results()] == ["w2"]
    assert guarded.desk.calls.of("wait") == [0, 0]


def test_a_leaving_partition_waits_for_sync_ones(guarded, run, mixed, monkeypatch):
    first = run(mixed.app, sync_concurrency=20)
    guarded.put(*tasks(guarded, "wait", 20))
    until(lambda: len(guarded.desk.calls.of("wait")) == 20, "all run at the first")
    core, left = first.lane.core, []
    draining, drop = core._draining, core.offsets.drop

    def note_draining(places):
        guarded.desk.calls.go_on.set()
        draining(places)

    monkeypatch.setattr(core, "_draining", note_draining)
    monkeypatch.setattr(
        core.offsets, "drop", lambda places: (left.append(core.unsettled_in(places)), drop(places))
    )
    run(mixed.app, worker_id="w2")
    until(lambda: left, "partitions leave the first")
    assert left[0] == 0
    until(lambda: len(results(guarded)) == 20, "all results")
    assert len(guarded.desk.calls.of("wait")) == 20


def test_a_sync_one_that_exits_is_a_failure_and_the_worker_lives(guarded, run):
    @activity(contract=Read())
    def quits() -> None:
        raise SystemExit(3)

    running = run(gather([quits]))
    guarded.put(guarded.task("quits", {}))
    until(lambda: guarded.results(), "its failure")
    assert guarded.results()[0].body.failure.type == "SystemExit"
    assert running.alive


def test_what_breaks_in_the_engine_beside_a_sync_one_ends_the_worker(guarded, run, mixed):
    guarded.desk.calls.go_on.set()

    def hit(name):
        if name == "w.responded":
            raise RuntimeError("broken")

    running = run(mixed.app, hit=hit)
    guarded.put(*tasks(guarded, "wait", 1))
    until(lambda: not running.alive, "the worker ends")
    assert str(running.error) == "broken"
    assert guarded.results() == []
