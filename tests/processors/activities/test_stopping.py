"""An attempt that nobody waits for is stopped where it runs, and its task is settled without a word."""

import asyncio
import threading
from functools import partial

import pytest

import wakeful
from wakeful.commands.models import CompleteActivity, FailActivity
from wakeful.processors.activities.attempt import fenced, unwanted
from wakeful.processors.activities.contracts import Read, Write
from wakeful.processors.activities.definitions import activity
from wakeful.processors.activities.hung import Attempt
from wakeful.processors.activities.jobs import Job
from wakeful.processors.activities.performing import perform, perform_sync
from wakeful.processors.activities.runner import Runner
from wakeful.processors.activities.running import Running
from wakeful.processors.app import gather

from .conftest import DEADLINE_S, DIGEST_KEY, until


class Stubborn:
    """Activities that are cancelled, and what became of them."""

    def __init__(self):
        made = self.made = []
        go_on = self.go_on = threading.Event()

        @activity(contract=Read())
        async def waits(n: int) -> int:
            made.append(("began", n))
            try:
                await asyncio.Event().wait()
            except Exception:
                made.append(("swallowed", n))
            finally:
                made.append(("ended", n))
            return n

        @activity(contract=Read())
        def beats(n: int) -> int:
            made.append(("began", n))
            while not go_on.wait(0.002):
                try:
                    wakeful.heartbeat()
                except Exception:
                    made.append(("swallowed", n))
                except wakeful.AttemptCancelled:
                    made.append(("ended", n))
                    raise
            return n

        @activity(contract=Read())
        def asks(n: int) -> int:
            made.append(("began", n))
            while not wakeful.cancelled():
                go_on.wait(0.002)
            made.append(("ended", n))
            return n

        @activity(contract=Read())
        async def insists(n: int) -> int:
            made.append(("began", n))
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                made.append(("ended", n))
            return n

        self.app = gather([waits, beats, asks, insists])

    def has(self, what, n):
        return (what, n) in self.made


@pytest.fixture
def stubborn():
    made = Stubborn()
    yield made
    made.go_on.set()


def committed(bench):
    return sum(bench.log.group_offsets(f"{bench.topics.namespace}.workers.default").values())


@pytest.mark.case("U20")
@pytest.mark.parametrize("name", ["waits", "beats"])
def test_a_cancelled_attempt_stops_in_its_body_and_its_task_is_settled(
    guarded, run, stubborn, name
):
    running = run(stubborn.app)
    task = guarded.task(name, {"n": 1})
    guarded.put(task)
    until(lambda: stubborn.has("began", 1), "it runs")
    guarded.over(task)
    until(lambda: stubborn.has("ended", 1), "it stops")
    until(lambda: committed(guarded) == 1, "its offset is committed")
    assert guarded.results() == []
    assert not stubborn.has("swallowed", 1)
    assert (running.stop(), running.lane.core.running) == (None, 0)


@pytest.mark.case("U20")
@pytest.mark.parametrize("name", ["asks", "insists"])
def test_a_body_that_ends_in_spite_of_it_is_reported(guarded, run, stubborn, name):
    run(stubborn.app)
    task = guarded.task(name, {"n": 1})
    guarded.put(task)
    until(lambda: stubborn.has("began", 1), "it runs")
    guarded.over(task)
    until(lambda: guarded.results(), "its result, which will be recorded as late")
    assert isinstance(guarded.results()[0].body, CompleteActivity)
    until(lambda: committed(guarded) == 1, "its offset is committed")


@pytest.mark.parametrize(
    ("begun", "fresh", "said"),
    [
        (True, True, "stopped"),
        (True, False, "stopped"),
        (False, False, "stopped"),
        (False, True, "not_wanted"),
    ],
)
def test_of_a_write_that_nobody_waits_for_it_is_said_how_far_it_came(guarded, begun, fresh, said):
    job = Job(guarded.task("pay", {}, contract="write_once"), "id", fresh=fresh, begun=begun)
    body = unwanted(job, "w1")
    assert (body.failure.kind if isinstance(body, FailActivity) else body.reason) == said
    read = Job(guarded.task("pay", {}), "id", fresh=fresh, begun=begun)
    assert unwanted(read, "w1") is None


def test_other_attempts_go_on(guarded, run, stubborn):
    run(stubborn.app)
    first, second = (guarded.task("beats", {"n": 1}, attempt=n) for n in (1, 2))
    guarded.put(second)
    until(lambda: stubborn.has("began", 1), "it runs")
    guarded.over(first)
    waiting = guarded.task("waits", {"n": 3}, "s3")
    guarded.put(waiting)
    until(lambda: stubborn.has("began", 3), "the other runs")
    guarded.over(waiting)
    until(lambda: stubborn.has("ended", 3), "what was said later has been heard")
    stubborn.go_on.set()
    until(lambda: guarded.results(), "the result of the one that goes on")
    assert guarded.results()[0].body.attempt == 2


def test_a_job_that_waits_for_its_turn_is_dropped(guarded, run, stubborn):
    running = run(stubborn.app, concurrency=1)
    first, second = (guarded.task("beats", {"n": n}, f"s{n}") for n in (1, 2))
    guarded.put(first, partition=0)
    until(lambda: stubborn.has("began", 1), "the first runs")
    guarded.put(second, partition=1)
    until(lambda: running.lane.core.running == 2, "the second waits")
    guarded.over(second)
    until(lambda: committed(guarded) == 1, "the second is settled")
    guarded.over(first)
    until(lambda: committed(guarded) == 2, "the first, too")
    assert not stubborn.has("began", 2)
    assert guarded.results() == []


def test_a_task_that_was_over_before_its_worker_came_is_not_begun(guarded, run, stubborn):
    """Given a task in the queue and its cancellation in the log, when a worker starts, then it runs only the other."""
    over, other = (guarded.task("beats", {"n": n}, f"s{n}") for n in (1, 2))
    guarded.put(over, other, partition=0)
    guarded.over(over)
    stubborn.go_on.set()
    running = run(stubborn.app)
    until(lambda: committed(guarded) == 2, "both are settled")
    assert not stubborn.has("began", 1)
    assert stubborn.has("began", 2)
    assert running.stop() is None


def test_a_task_that_comes_after_the_word_is_dropped(guarded, run, stubborn):
    running = run(stubborn.app)
    task = guarded.task("beats", {"n": 1})
    until(lambda: running.worker._superseded._reader, "it reads")
    guarded.over(task)
    until(lambda: "acme/s1/1/1#1" in running.worker._superseded, "it has read")
    guarded.put(task)
    until(lambda: committed(guarded) == 1, "it is settled")
    assert stubborn.made == []


def test_one_reader_stops_attempts_of_all_queues(guarded, run):
    began, ended = [], []

    def wait(n):
        began.append(n)
        try:
            while True:
                wakeful.heartbeat()
                threading.Event().wait(0.002)
        finally:
            ended.append(n)

    @activity(contract=Read())
    def here(n: int) -> None:
        wait(n)

    @activity(contract=Read(), queue="other")
    def there(n: int) -> None:
        wait(n)

    run(gather([here, there]))
    tasks = [
        guarded.task("here", {"n": 1}, "s1"),
        guarded.task("there", {"n": 2}, "s2", queue="other"),
    ]
    guarded.put(*tasks)
    until(lambda: len(began) == 2, "both run")
    for task in tasks:
        guarded.over(task)
    until(lambda: sorted(ended) == [1, 2], "both are stopped")


def test_a_heartbeat_and_its_progress_reach_the_session(guarded, run):
    @activity(contract=Read())
    async def counts() -> None:
        wakeful.heartbeat({"page": 1})
        wakeful.heartbeat({"page": 2})
        raise LookupError

    run(gather([counts]))
    guarded.put(guarded.task("counts", {}, heartbeat_ms=30_000, on_behalf_of="ann"))
    until(lambda: guarded.results(), "its failure")
    first, last = guarded.beats()
    assert (first.body.progress, last.body.progress.inline) == (None, b'{"page":2}')
    header = last.header
    assert (header.command_id, header.actor) == ("acme/s1/1/1#1/beat/2", "worker:w1")
    assert (header.channel, header.on_behalf_of) == ("worker", "ann")
    assert [type(c.body).__name__ for c in guarded.commands()][-1] == "FailActivity"


def test_no_clock_runs_while_an_attempt_waits_for_its_turn(guarded, run, stubborn):
    running = run(stubborn.app, concurrency=1)
    first, second = (guarded.task("beats", {"n": n}, f"s{n}", heartbeat_ms=60_000) for n in (1, 2))
    guarded.put(first, partition=0)
    until(lambda: stubborn.has("began", 1), "the first runs")
    guarded.put(second, partition=1)
    until(lambda: running.lane.core.running == 2, "the second waits")
    assert [beat.header.session_id for beat in guarded.beats()] == ["s1"]
    stubborn.go_on.set()
    until(lambda: len(guarded.results()) == 2, "both results")
    assert [beat.header.session_id for beat in guarded.beats()] == ["s1", "s2"]


def test_progress_of_an_attempt_that_hangs_is_told_before_its_end(guarded, run, stubborn):
    told = []

    @activity(contract=Read())
    def hangs() -> None:
        wakeful.heartbeat(1)
        wakeful.heartbeat(2)
        stubborn.go_on.wait(DEADLINE_S)
        try:
            wakeful.heartbeat(3)
        except wakeful.AttemptCancelled:
            told.append("left")

    running = run(gather([hangs]))
    guarded.put(guarded.task("hangs", {}, start_to_close_ms=300))
    until(lambda: running.ended, "the end")
    stubborn.go_on.set()
    until(lambda: told, "it is told that nobody hears it")
    running.stop()
    assert [b.body.progress.inline for b in guarded.beats()] == [b"1", b"2"]
    assert type(guarded.commands()[-1].body).__name__ == "FailActivity"


@pytest.fixture
def silent(bench):
    """Runs a body whose beats never arrive, and asks whether it is to be fenced when it says so."""
    now = [100.0]

    def go(function, *, sync):
        tool = activity(contract=Read(), name="tool")(function)
        runner = Runner({"tool": tool}, worker_id="w1", digest_key=DIGEST_KEY)
        job = Job(bench.task("tool", {}, heartbeat_ms=30_000), "acme/s1/1/1#1", fresh=True)
        running = Running(runner, send=lambda _beat: None, monotonic=lambda: now[0])

        def fence():
            now[0] += 31
            running.look()

        go.fence, begun = fence, partial(running.begins, job)
        call = runner.prepare(job.task)
        if sync:
            return running.attend_sync(Attempt(job), lambda: begun() or perform_sync(runner, call))
        return asyncio.run(running.attend(Attempt(job), lambda: begun() or perform(runner, call)))

    return go


def test_a_fenced_attempt_is_cancelled_and_says_that_it_timed_out(silent):
    async def waits() -> int:
        silent.fence()
        await asyncio.Event().wait()

    def blocks() -> int:
        silent.fence()
        wakeful.heartbeat()

    for function, sync in ((waits, False), (blocks, True)):
        failure = silent(function, sync=sync).failure
        assert (failure.kind, failure.type) == ("timed_out", "heartbeat")
        assert "were not acknowledged for 30000 ms" in failure.message


def test_a_fenced_attempt_that_is_looked_up_leaves_open_whether_it_was_done(bench):
    runner = Runner({}, worker_id="w1", digest_key=DIGEST_KEY)
    body = fenced(runner, bench.task("tool", {}, contract="write_lookup", heartbeat_ms=30_000))
    assert body.failure.kind == "look_up_failed"
    assert "not acknowledged for 30000 ms" in body.failure.message


@pytest.mark.parametrize("sync", [False, True])
def test_an_attempt_that_looks_first_is_stopped_in_its_call(guarded, run, sync):
    made, go_on = [], threading.Event()

    def find(*, key: str) -> int | None:
        made.append("looked")
        return None

    def blocks() -> int:
        made.append("began")
        while not go_on.wait(0.002):
            try:
                wakeful.heartbeat()
            finally:
                made.append("beat")

    async def waits() -> int:
        made.append("began")
        await asyncio.Event().wait()

    body = blocks if sync else waits
    tool = activity(contract=Write(lookup=find, settle="1ms"), name="tool")(body)
    task = guarded.task("tool", {}, contract="write_lookup", settle_ms=1)
    guarded.put(task)
    running = run(gather([tool]))
    until(lambda: "began" in made, "its call, after its look-up")
    guarded.over(task)
    until(lambda: committed(guarded) == 1, "its offset is committed")
    assert made[:2] == ["looked", "began"]
    assert running.stop() is None
    (said,) = guarded.results()
    assert said.body.failure.kind == "stopped"


def test_half_a_result_of_a_fenced_attempt_is_not_taken_for_a_whole_one(silent):
    def blocks() -> int:
        silent.fence()
        return 1 if wakeful.cancelled() else 2

    assert silent(blocks, sync=True).failure.type == "heartbeat"


def test_a_whole_result_of_one_that_did_not_notice_is(silent):
    def blocks() -> int:
        silent.fence()
        return 2

    assert silent(blocks, sync=True).result.inline == b"2"
