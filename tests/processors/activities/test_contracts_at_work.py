"""The contracts on the worker as it runs: waits, look-ups in loop and threads, and what a stopping worker gives back."""

import asyncio
import threading

import pytest

from wakeful.commands.models import CompleteActivity, FailActivity, ReturnActivity
from wakeful.processors.activities.contracts import Write
from wakeful.processors.activities.definitions import activity
from wakeful.processors.app import gather

from .conftest import DEADLINE_S, until

KEY = "acme/s1/1/1"


class Bank:
    """Payments under four names; `go_on` lets those through that wait."""

    def __init__(self):
        self.paid, self.found, self.lost_answers = [], [], 0
        self.go_on, self.deaf = threading.Event(), threading.Event()
        self._lock = threading.Lock()

    def pay(self, key):
        with self._lock:
            self.paid.append(key)
            self.lost_answers -= 1
            if self.lost_answers >= 0:
                raise ConnectionError("no answer")
        return f"receipt {key}"

    def find(self, key):
        self.found.append((key, threading.current_thread().name))
        return f"receipt {key}" if key in self.paid else None

    def app(self, settle="0s"):
        async def find(key: str) -> str | None:
            return self.find(key)

        def find_sync(key: str) -> str | None:
            return self.find(key)

        @activity(contract=Write(lookup=find, settle=settle))
        async def pay(*, key: str) -> str:
            return self.pay(key)

        @activity(contract=Write(lookup=find_sync, settle=settle))
        def pay_sync(*, key: str) -> str:
            return self.pay(key)

        @activity(contract=Write(lookup=find_sync, settle=settle))
        async def pay_mixed(*, key: str) -> str:
            return self.pay(key)

        @activity(contract=Write(lookup=find_sync, settle=settle))
        def pay_deaf(*, key: str) -> str:
            self.paid.append(key)
            self.deaf.wait(DEADLINE_S)
            return key

        @activity(contract=Write())
        async def wire(*, key: str) -> str:
            self.paid.append(key)
            while not self.go_on.is_set():  # noqa: ASYNC110 set by the test's thread
                await asyncio.sleep(0.001)
            return key

        @activity(contract=Write())
        def wire_sync(*, key: str) -> str:
            self.paid.append(key)
            self.go_on.wait(DEADLINE_S)
            return key

        return gather([pay, pay_sync, pay_mixed, pay_deaf, wire, wire_sync])


@pytest.fixture
def bank():
    made = Bank()
    yield made
    made.go_on.set()
    made.deaf.set()


def tasks(bench, name, count=1, **over):
    contract = "write_once" if name.startswith("wire") else "write_lookup"
    return [bench.task(name, {}, f"s{n + 1}", contract=contract, **over) for n in range(count)]


def bodies(bench, kind):
    return [c.body for c in bench.results() if isinstance(c.body, kind)]


LOOKED_UP = pytest.mark.parametrize("name", ["pay", "pay_sync", "pay_mixed"])
ONCE = pytest.mark.parametrize("name", ["wire", "wire_sync"])


@pytest.mark.case("U15")
@LOOKED_UP
def test_a_lost_answer_is_found_by_the_look_up(guarded, run, bank, name):
    bank.lost_answers = 1
    running = run(bank.app())
    guarded.put(*tasks(guarded, name))
    until(lambda: guarded.results(), "its result")
    (body,) = bodies(guarded, CompleteActivity)
    assert body.recovered
    assert bank.paid == [KEY]
    in_thread = bank.found[0][1].startswith("activity-")
    assert in_thread is (name != "pay")
    assert running.stop() is None


@LOOKED_UP
def test_a_repeat_looks_first_and_then_runs(guarded, run, bank, name):
    run(bank.app())
    guarded.put(*tasks(guarded, name, 20, attempt=2))
    until(lambda: len(guarded.results()) == 20, "all results")
    assert (len(bank.found), len(bank.paid)) == (20, 20)
    assert not any(body.recovered for body in bodies(guarded, CompleteActivity))


def test_look_ups_wait_for_a_thread_where_there_are_few(guarded, run, bank):
    running = run(bank.app(), sync_concurrency=1, concurrency=10)
    guarded.put(*tasks(guarded, "pay_sync", 30, attempt=2))
    until(lambda: len(guarded.results()) == 30, "all results")
    assert {thread for _, thread in bank.found} == {"activity-default-1"}
    assert running.stop() is None


@LOOKED_UP
def test_stopping_ends_the_wait_and_gives_the_task_back(guarded, run, bank, name):
    running = run(bank.app(settle="1h"), drain_ms=30_000)
    guarded.put(*tasks(guarded, name, attempt=2))
    until(lambda: resting(running), "it waits")
    assert running.stop() is None
    assert (bank.paid, bank.found, guarded.results()) == ([], [], [])
    run(bank.app(), worker_id="w2")
    until(lambda: guarded.results(), "another worker does it")
    assert (bank.paid, len(bank.found)) == ([KEY], 1)


@pytest.mark.case("L37")
@LOOKED_UP
def test_stopped_between_a_lost_answer_and_its_look_up_the_next_worker_finds_it(
    guarded, run, bank, name
):
    bank.lost_answers = 1
    running = run(bank.app(settle="1h"), drain_ms=30_000)
    guarded.put(*tasks(guarded, name, settle_ms=3_600_000))
    until(lambda: resting(running), "it waits")
    assert running.stop() is None
    guarded.put(*tasks(guarded, name, attempt=2, settle_ms=0))
    run(bank.app(), worker_id="w2")
    until(lambda: guarded.results(), "another worker finds it")
    assert bodies(guarded, CompleteActivity)[0].recovered
    assert bank.paid == [KEY]


def test_a_partition_that_leaves_ends_the_waits_of_its_tasks(guarded, run, bank):
    first = run(bank.app(settle="1h"), drain_ms=30_000)
    guarded.put(*tasks(guarded, "pay", 40, attempt=2))
    until(lambda: resting(first) == 40, "all wait")
    run(bank.app(), worker_id="w2")
    until(lambda: resting(first) < 40, "some are given back at once")
    assert first.alive


def resting(running):
    opened = list(running.lane._attempts._open.values())
    return sum(attempt.rest is not None for attempt in opened)


@ONCE
def test_stopping_gives_back_aloud_what_has_not_begun_and_lets_the_rest_finish(
    guarded, run, bank, name
):
    running = run(bank.app(), concurrency=1, sync_concurrency=1)
    guarded.put(*tasks(guarded, name, 6), partition=0)
    until(lambda: bank.paid and running.lane.core.unbegun_once == 1, "one runs, one is next")
    running.worker.stop()
    until(lambda: bodies(guarded, ReturnActivity), "the next is given back")
    bank.go_on.set()
    assert running.stop() is None
    assert len(bodies(guarded, ReturnActivity)) == 1
    assert len(bodies(guarded, CompleteActivity)) == len(bank.paid) == 1
    run(bank.app(), worker_id="w2")
    until(lambda: len(guarded.results()) == 6, "another worker does those that nobody had taken")
    assert len(set(bank.paid)) == len(bank.paid) == 5


@pytest.mark.case("U15")
@ONCE
def test_cut_off_by_a_stop_nobody_knows_and_nobody_runs_it_again(guarded, run, bank, name):
    running = run(bank.app(), drain_ms=30)
    guarded.put(*tasks(guarded, name))
    until(lambda: bank.paid, "it runs")
    assert running.stop() is None
    (body,) = bodies(guarded, FailActivity)
    assert body.failure.kind == "cut_off"
    bank.go_on.set()
    run(bank.app(), worker_id="w2")
    guarded.put(*tasks(guarded, "pay", activity_id="1.2", idempotency_key="acme/s1/1/2"))
    until(lambda: bodies(guarded, CompleteActivity), "what comes behind it")
    assert bank.paid == [KEY, "acme/s1/1/2"]


@ONCE
def test_many_run_at_once_and_each_once(guarded, run, bank, name):
    running = run(bank.app(), concurrency=20, sync_concurrency=4)
    guarded.put(*tasks(guarded, name, 60))
    most = 20 if name == "wire" else 4
    until(lambda: len(bank.paid) == most, "as many as can run")
    until(lambda: running.lane.core.unbegun_once == 1, "and one for the next free place")
    bank.go_on.set()
    until(lambda: len(guarded.results()) == 60, "all")
    assert len(set(bank.paid)) == len(bank.paid) == 60


def test_a_flood_of_others_does_not_keep_them_waiting_for_ever(guarded, run, bank):
    app = bank.app()
    app.activities.update(guarded.desk.app.activities)
    run(app, concurrency=2)
    guarded.put(*[guarded.task("slow", {"n": n}, f"slow{n}") for n in range(50)], partition=0)
    until(lambda: len(guarded.desk.calls.of("slow")) == 2, "the worker is full")
    guarded.put(*tasks(guarded, "wire"))
    guarded.desk.calls.go_on.set()
    until(lambda: bank.paid, "it has its turn")


def test_a_hung_call_that_can_be_looked_up_is_reported_as_unknown(guarded, run, bank):
    running = run(bank.app(), drain_ms=50)
    guarded.put(*tasks(guarded, "pay_deaf", start_to_close_ms=50))
    until(lambda: running.ended, "the process ends")
    (body,) = bodies(guarded, FailActivity)
    assert body.failure.kind == "look_up_failed"
    assert "cannot be stopped" in body.failure.message
