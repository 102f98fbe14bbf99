"""What nothing can stop is reported as timed out, and ends the process: once, bounded, and only then."""

import asyncio
import contextlib
import threading
import time

import pytest

from wakeful.processors.activities import lane as lane_module
from wakeful.processors.activities import performing
from wakeful.processors.activities.contracts import Read, Write
from wakeful.processors.activities.definitions import activity
from wakeful.processors.activities.hung import (
    ATTENDED,
    EXIT_CODE,
    Attempts,
    Ending,
    Hung,
    Pulse,
)
from wakeful.processors.app import gather

from .conftest import DEADLINE_S, until


class Loop:
    """An event loop that answers when it is told to."""

    def __init__(self):
        self.asked = []

    def call_soon_threadsafe(self, answer):
        self.asked.append(answer)

    def answer(self):
        while self.asked:
            self.asked.pop()()


class Seconds:
    now = 100.0

    def __call__(self):
        return self.now


class Jumping:
    """The real clock, for whom an hour may pass in between."""

    ahead = 0

    def __call__(self):
        return time.monotonic() + self.ahead


@pytest.fixture
def seconds():
    return Seconds()


def test_a_loop_that_does_not_answer_is_silent_from_the_question_on(seconds):
    loop = Loop()
    pulse = Pulse(loop, seconds)
    assert pulse.look()
    for _ in range(5):
        seconds.now += 0.5
        assert pulse.look()
    assert pulse.silent_s == 2.5
    assert len(loop.asked) == 1
    loop.answer()
    assert pulse.silent_s == 0


def test_a_process_that_stood_still_tells_nothing_about_its_loop(seconds):
    pulse = Pulse(Loop(), seconds)
    pulse.look()
    seconds.now += 3_600
    assert not pulse.look()
    assert pulse.silent_s == 0
    seconds.now += 0.5
    assert not pulse.look(), "nor to the next one who looks"
    assert pulse.silent_s == 0.5
    seconds.now += 0.6
    assert pulse.look()


@pytest.mark.parametrize("inside", ["task", "subtask", "callback", "none", "waiting"])
def test_the_blocked_step_is_traced_to_the_job_it_belongs_to(inside):
    blocked, release, seen = threading.Event(), threading.Event(), []
    job = object()

    def block():
        blocked.set()
        release.wait(DEADLINE_S)

    async def attended():
        ATTENDED.set(job)
        if inside == "task":
            block()
        elif inside == "subtask":
            await asyncio.gather(asyncio.to_thread(int), asyncio.create_task(blocks()))
        else:
            asyncio.get_running_loop().call_soon(block)
            await asyncio.sleep(0)  # its turn comes after the callback's

    async def blocks():
        block()

    async def waits():
        ATTENDED.set(job)
        blocked.set()
        await asyncio.to_thread(release.wait, DEADLINE_S)

    async def main():
        pulse = Pulse(asyncio.get_running_loop(), time.monotonic)

        def look():
            blocked.wait(DEADLINE_S)
            if inside == "waiting":
                until(lambda: pulse.blocking() is None, "the step has begun to wait")
            seen.append(pulse.blocking())
            release.set()

        looking = threading.Thread(target=look)
        looking.start()
        await {"none": blocks, "waiting": waits}.get(inside, attended)()
        looking.join()

    asyncio.run(main())
    assert seen == [None if inside in ("none", "waiting") else job]


def test_an_attempt_is_claimed_once():
    attempts, job = Attempts(), object()
    attempts.begin(job)
    assert [attempts.claim(job), attempts.claim(job)] == [True, False]


def test_the_ending_begins_once_and_waits_no_longer_than_it_may():
    stops, codes, never = [], [], threading.Event()
    ending = Ending(lambda: stops.append(1), [never], limit_ms=20, end=codes.append)
    for _ in range(3):
        ending.begin()
    until(lambda: codes, "the end")
    assert (stops, codes) == ([1], [EXIT_CODE])


class Hanging:
    """An app with activities that nothing can stop before `release`."""

    def __init__(self, calls):
        self.release = release = threading.Event()

        @activity(contract=Read())
        def hangs(n: int) -> int:
            calls.made.append(("hangs", n))
            release.wait(DEADLINE_S)
            return n

        @activity(contract=Read())
        async def blocks(n: int) -> int:
            calls.made.append(("blocks", n))
            release.wait(DEADLINE_S)
            return n

        @activity(contract=Read())
        async def has_a_task_that_blocks(n: int) -> int:
            return (await asyncio.gather(blocks.function(n)))[0]

        @activity(contract=Read())
        async def clings(n: int) -> int:
            calls.made.append(("clings", n))
            while not release.is_set():
                with contextlib.suppress(asyncio.CancelledError):
                    await asyncio.sleep(0.001)
            return n

        @activity(contract=Read())
        def waits(n: int) -> int:
            calls.made.append(("waits", n))
            calls.go_on.wait(DEADLINE_S)
            return n

        @activity(contract=Read(), queue="other")
        async def elsewhere(n: int) -> int:
            calls.made.append(("elsewhere", n))
            while not calls.go_on.is_set():  # noqa: ASYNC110 set by the test's thread
                await asyncio.sleep(0.001)
            return n

        self.app = gather([hangs, blocks, has_a_task_that_blocks, clings, waits, elsewhere])


@pytest.fixture
def hanging(guarded, monkeypatch):
    monkeypatch.setattr(lane_module, "SILENT_MS", 100)
    monkeypatch.setattr(performing, "CLEAN_UP_MS", 50)
    monkeypatch.setattr(performing, "AGAIN_MS", 10)
    hanging = Hanging(guarded.desk.calls)
    yield hanging
    hanging.release.set()


def told(bench):
    """Session → what was said of it, in order."""
    found = {}
    for command in bench.results():
        kind = command.body.failure.kind if hasattr(command.body, "failure") else "completed"
        found.setdefault(command.header.session_id, []).append(kind)
    return found


def committed(bench, queue="default"):
    return sum(bench.log.group_offsets(f"{bench.topics.namespace}.workers.{queue}").values())


def test_a_hung_sync_activity_ends_the_worker_and_the_others_finish(guarded, run, hanging):
    running = run(hanging.app, drain_ms=20_000)
    guarded.put(guarded.task("waits", {"n": 1}, "s1"))
    guarded.put(guarded.task("elsewhere", {"n": 2}, "s2", queue="other"))
    until(lambda: len(guarded.desk.calls.made) == 2, "the others run")
    guarded.put(guarded.task("hangs", {"n": 3}, "s3", start_to_close_ms=50))
    until(lambda: told(guarded), "its time-out")
    assert told(guarded) == {"s3": ["timed_out"]}
    guarded.desk.calls.go_on.set()
    until(lambda: running.ended, "the end")
    assert running.ended == [EXIT_CODE]
    assert told(guarded) == {"s1": ["completed"], "s2": ["completed"], "s3": ["timed_out"]}
    assert (committed(guarded), committed(guarded, "other")) == (2, 1)
    assert isinstance(running.stop(), Hung)
    hanging.release.set()
    failure = guarded.results()[0].body.failure
    assert "hangs did not finish within 50 ms and cannot be stopped" in failure.message
    assert "release.wait(DEADLINE_S)" in failure.detail


def test_its_result_that_comes_later_is_not_heard(guarded, run, hanging):
    running = run(hanging.app)
    guarded.put(guarded.task("hangs", {"n": 1}, "s1", start_to_close_ms=50))
    until(lambda: running.ended, "the end")
    hanging.release.set()
    assert isinstance(running.stop(), Hung)
    run(hanging.app, worker_id="w2")
    guarded.put(guarded.task("hangs", {"n": 2}, "s2"))
    until(lambda: "s2" in told(guarded), "the next worker goes on")
    assert told(guarded) == {"s1": ["timed_out"], "s2": ["completed"]}
    assert guarded.desk.calls.of("hangs") == [1, 2]


def test_others_are_waited_for_with_a_bound_and_come_back(guarded, run, hanging):
    running = run(hanging.app, drain_ms=50)
    guarded.put(guarded.task("waits", {"n": 1}, "s1"))
    until(lambda: guarded.desk.calls.made, "the other runs")
    guarded.put(guarded.task("hangs", {"n": 2}, "s2", start_to_close_ms=50))
    until(lambda: running.ended, "the end")
    assert told(guarded) == {"s2": ["timed_out"]}
    guarded.desk.calls.go_on.set()
    run(hanging.app, worker_id="w2")
    until(lambda: "s1" in told(guarded), "the other, by the next worker")
    assert told(guarded) == {"s1": ["completed"], "s2": ["timed_out"]}
    assert guarded.desk.calls.of("hangs") == [2]


@pytest.mark.parametrize("name", ["blocks", "has_a_task_that_blocks"])
def test_an_async_one_that_blocks_past_its_limit_does_the_same(guarded, run, hanging, name):
    running = run(hanging.app, drain_ms=20_000)
    guarded.put(guarded.task("waits", {"n": 1}, "s1"))
    guarded.put(guarded.task("elsewhere", {"n": 2}, "s2", queue="other"))
    until(lambda: len(guarded.desk.calls.made) == 2, "the others run")
    guarded.put(guarded.task(name, {"n": 3}, "s3", start_to_close_ms=300))
    until(lambda: told(guarded), "its time-out")
    assert told(guarded) == {"s3": ["timed_out"]}
    guarded.desk.calls.go_on.set()
    until(lambda: running.ended, "the end, though the loop is still blocked")
    assert running.alive
    assert told(guarded) == {"s1": ["completed"], "s3": ["timed_out"]}, "s2 needs the loop"
    assert (committed(guarded), committed(guarded, "other")) == (2, 0)
    hanging.release.set()
    assert isinstance(running.stop(), Hung)
    assert told(guarded)["s3"] == ["timed_out"]


def test_an_async_one_that_catches_every_cancellation_does_the_same(guarded, run, hanging):
    running = run(hanging.app, drain_ms=20_000)
    guarded.put(guarded.task("waits", {"n": 1}, "s1"))
    guarded.put(guarded.task("elsewhere", {"n": 2}, "s2", queue="other"))
    until(lambda: len(guarded.desk.calls.made) == 2, "the others run")
    guarded.put(guarded.task("clings", {"n": 3}, "s3", start_to_close_ms=50))
    until(lambda: told(guarded), "its time-out")
    guarded.desk.calls.go_on.set()
    until(lambda: running.ended, "the end")
    assert running.ended == [EXIT_CODE]
    assert told(guarded) == {"s1": ["completed"], "s2": ["completed"], "s3": ["timed_out"]}
    assert (committed(guarded), committed(guarded, "other")) == (2, 1)
    hanging.release.set()
    assert isinstance(running.stop(), Hung)
    assert told(guarded)["s3"] == ["timed_out"], "what it returns is not heard"
    failure = guarded.results()[0].body.failure
    assert "it catches asyncio.CancelledError and goes on" in failure.message
    assert "await asyncio.sleep(0.001)" in failure.detail


def test_what_clings_to_an_at_most_once_call_is_timed_out_and_not_called_again(
    guarded, run, hanging
):
    calls, release = guarded.desk.calls, hanging.release

    @activity(contract=Write())
    async def pays(n: int) -> int:
        return await hanging.app.activities["clings"].function(n)

    running = run(gather([pays]))
    guarded.put(guarded.task("pays", {"n": 1}, "s1", contract="write_once", start_to_close_ms=50))
    until(lambda: running.ended, "the end")
    release.set()
    assert isinstance(running.stop(), Hung)
    run(gather([pays]), worker_id="w2")
    guarded.put(guarded.task("pays", {"n": 2}, "s2", contract="write_once"))
    until(lambda: "s2" in told(guarded), "the next worker goes on")
    assert told(guarded) == {"s1": ["timed_out"], "s2": ["completed"]}
    assert calls.of("clings") == [1, 2]


def test_a_process_that_stood_still_gives_its_calls_time_to_end(guarded, run, hanging):
    clock = Jumping()
    running = run(hanging.app, monotonic=clock)
    guarded.put(guarded.task("hangs", {"n": 1}, "s1", start_to_close_ms=60_000))
    until(lambda: guarded.desk.calls.made, "it runs")
    clock.ahead += 3_600
    looked_at = running.lane._look_at
    until(lambda: running.lane._look_at > looked_at + 3_600, "the first look after it")
    hanging.release.set()
    until(lambda: told(guarded), "its result")
    assert told(guarded) == {"s1": ["completed"]}
    assert (running.stop(), running.ended) == (None, [])


def test_one_that_blocks_within_its_limit_is_let_be(guarded, run, hanging):
    running = run(hanging.app)
    guarded.put(guarded.task("blocks", {"n": 1}, "s1", start_to_close_ms=60_000))
    pulse = running.lane
    until(lambda: guarded.desk.calls.made and pulse._pulse.silent_s > 0.3, "the loop is silent")
    hanging.release.set()
    until(lambda: told(guarded), "its result")
    assert told(guarded) == {"s1": ["completed"]}
    assert (running.stop(), running.ended) == (None, [])


def test_a_queue_that_breaks_while_the_loop_is_blocked_ends_the_process(guarded, run, hanging):
    running = run(hanging.app, drain_ms=200)
    guarded.put(guarded.task("blocks", {"n": 1}, "s1", start_to_close_ms=60_000))
    until(lambda: guarded.desk.calls.made, "it blocks")
    running.worker.stop()
    until(lambda: running.ended, "the end, which the loop could not bring about")
    assert told(guarded) == {}
    hanging.release.set()
    with contextlib.suppress(Hung):
        running.stop()
