"""Results of one turn of the event loop leave together, in order, each once, and never wait for a loop that is blocked."""

import asyncio
import threading
from types import SimpleNamespace

import pytest

from wakeful.processors.activities.bursts import RESULTS_MAX, Burst
from wakeful.processors.activities.contracts import Read
from wakeful.processors.activities.definitions import activity
from wakeful.processors.app import gather

from .conftest import DEADLINE_S, until


def job(name, *, once=False):
    return SimpleNamespace(command_id=name, once=once)


class Sent:
    """What was handed in, and what was said to be broken."""

    def __init__(self, refused=()):
        self.names, self.broken, self.refused = [], [], refused
        self.burst = Burst(
            self.hand_in, lambda job, error: self.broken.append((job.command_id, error))
        )

    def hand_in(self, job, body):
        if job.command_id in self.refused:
            raise SystemExit(job.command_id)
        self.names.append((job.command_id, body))


@pytest.fixture
def sent():
    return Sent()


def in_a_turn(burst, jobs, seen=lambda: None):
    """Adds them in one turn of a loop, looks, and lets the next turn come."""

    async def main():
        for one in jobs:
            burst.add(asyncio.get_running_loop(), one, f"of {one.command_id}")
        found = seen()
        await asyncio.sleep(0)
        return found

    return asyncio.run(main())


def test_results_of_one_turn_leave_in_order_when_it_is_over(sent):
    before = in_a_turn(sent.burst, [job("a"), job("b"), job("c")], lambda: list(sent.names))
    assert before == []
    assert sent.names == [("a", "of a"), ("b", "of b"), ("c", "of c")]


def test_a_result_of_what_must_not_run_twice_leaves_at_once(sent):
    before = in_a_turn(sent.burst, [job("a"), job("b", once=True)], lambda: list(sent.names))
    assert before == [("b", "of b")]
    assert sent.names == [("b", "of b"), ("a", "of a")]


def test_many_do_not_wait_for_the_end_of_the_turn(sent):
    jobs = [job(str(n)) for n in range(RESULTS_MAX + 1)]
    before = in_a_turn(sent.burst, jobs, lambda: len(sent.names))
    assert before == RESULTS_MAX
    assert [name for name, _ in sent.names] == [str(n) for n in range(RESULTS_MAX + 1)]


def test_one_that_cannot_be_said_is_told_and_keeps_no_other_back():
    sent = Sent(refused=["b"])
    in_a_turn(sent.burst, [job("a"), job("b"), job("c")])
    assert [name for name, _ in sent.names] == ["a", "c"]
    [(name, error)] = sent.broken
    assert (name, type(error)) == ("b", SystemExit)


def test_several_threads_send_each_result_once(sent):
    loop = SimpleNamespace(call_soon=lambda _call: None)
    going = threading.Event()

    def send():
        while not going.is_set():
            sent.burst.send()

    threads = [threading.Thread(target=send) for _ in range(3)]
    for thread in threads:
        thread.start()
    names = [str(n) for n in range(2_000)]
    for name in names:
        sent.burst.add(loop, job(name), None)
    going.set()
    for thread in threads:
        thread.join(DEADLINE_S)
    sent.burst.send()
    assert sorted(name for name, _ in sent.names) == sorted(names)


def test_a_result_does_not_wait_for_a_loop_that_the_attempt_behind_it_blocks(guarded, run):
    entered, release = threading.Event(), threading.Event()

    @activity(contract=Read())
    async def quick(n: int) -> int:
        return n

    @activity(contract=Read())
    async def blocks(n: int) -> int:
        entered.set()
        release.wait(DEADLINE_S)
        return n

    guarded.put(
        guarded.task("quick", {"n": 1}, "s1"), guarded.task("blocks", {"n": 2}, "s2"), partition=0
    )
    run(gather([quick, blocks]))
    try:
        assert entered.wait(DEADLINE_S)
        until(lambda: guarded.results(), "the result of the first")
        assert [c.header.session_id for c in guarded.results()] == ["s1"]
    finally:
        release.set()
    until(lambda: len(guarded.results()) == 2, "that of the other")
