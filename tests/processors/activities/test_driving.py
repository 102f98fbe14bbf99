"""A worker that stood still between taking a task and calling its function: what it may still call, and what it does first."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from wakeful.commands.models import CompleteActivity, ReturnActivity
from wakeful.processors.activities.contracts import Read, Write
from wakeful.processors.activities.definitions import activity
from wakeful.processors.activities.driving import Driver
from wakeful.processors.activities.hearing import Hearing
from wakeful.processors.activities.hung import Attempts
from wakeful.processors.activities.jobs import Job
from wakeful.processors.activities.runner import Runner, Said
from wakeful.processors.activities.running import Running
from wakeful.processors.activities.standing import Outdated, Unsure
from wakeful.processors.activities.waiting import Waiting
from wakeful.processors.app import gather

from .conftest import DIGEST_KEY

LOG_MS = 1_000_000
DEADLINE_MS = LOG_MS + 30_000
FROZEN_S = 10.0
LONG_FROZEN_S = 40.0
SYNC = pytest.mark.parametrize("sync", [False, True], ids=["async", "sync"])


class Worker:
    """One worker's driver with its intake and its clock moved by hand, and tools that write down when they are called.

    `at_look` happens inside of each look-up, in the order given: that is the last moment before the call.
    """

    def __init__(self, bench: Any) -> None:
        self.bench, self.now, self.told, self.rests = bench, 100.0, [], 0
        self.lost: set[Job] = set()
        self.at_look: list[Callable[[], object]] = []
        self.at_rest: list[Callable[[], object]] = []
        self.found: str | None = None
        self.stands: list[type[Exception] | None] = []
        self.hearing = Hearing(self.clock)
        self.runner = Runner(self.app().activities, worker_id="w1", digest_key=DIGEST_KEY)
        self.attempts = Attempts()

    def clock(self) -> float:
        return self.now

    def app(self) -> Any:
        def note(what: str) -> str:
            self.told.append(what)
            return what

        def find(key: str) -> str | None:
            note("look")
            assert len(self.told) < 100, "it looks for ever"
            if self.at_look:
                self.at_look.pop(0)()
            return self.found

        async def find_async(key: str) -> str | None:
            return find(key)

        async def call(*, key: str) -> str:
            return note("call")

        def call_sync(*, key: str) -> str:
            return note("call")

        contracts = [
            ("read", Read(), Read()),
            ("write_idempotent", Write(idempotent=True), Write(idempotent=True)),
            ("write_lookup", Write(lookup=find_async), Write(lookup=find)),
            ("write_once", Write(), Write()),
        ]
        loaded: list[Any] = []
        for name, contract, of_sync in contracts:
            loaded.append(activity(contract=contract, name=name)(call))
            loaded.append(activity(contract=of_sync, name=f"{name}_sync")(call_sync))
        return gather(loaded)

    def frozen(self, seconds: float) -> None:
        """The process stands still: its clock goes on, and nothing else."""
        self.now += seconds

    def polls(self, times: int = 3) -> None:
        """Its intake hears of its group again."""
        for _ in range(times):
            self.hearing.hear()
            self.now += 0.1

    def take(
        self, contract: str, *, sync: bool, settle_ms: int = 0, start_by_ms: int | None = None
    ) -> Job:
        """A fresh task, as the intake takes it."""
        name = f"{contract}_sync" if sync else contract
        more = {"deadline_ms": DEADLINE_MS, "settle_ms": settle_ms, "start_by_ms": start_by_ms}
        task = self.bench.task(name, {}, contract=contract, **more)
        job = Job(task, "acme/s1/1/1#1", fresh=True, log_ms=LOG_MS)
        self.hearing.hear()
        self.hearing.hear([job])
        return job

    def accept(self, job: Job) -> Job:
        """The event loop hears of it."""
        Waiting(lambda _job: False).add([job], self.now)
        return job

    def taken(self, contract: str, *, sync: bool = False, settle_ms: int = 0) -> Job:
        return self.accept(self.take(contract, sync=sync, settle_ms=settle_ms))

    def drive(self, job: Job) -> Said | None:
        """Goes through the attempt as its lane does, where its rests are over at once."""
        return asyncio.run(self._drive(job))

    async def _drive(self, job: Job) -> Said | None:
        self.attempt = self.attempts.begin(job)
        in_one_thread = not job.may_rest and self.runner.is_sync(job.task.name)
        driver = Driver(
            self.runner,
            self.attempts,
            Running(self.runner, send=lambda _beat: None, monotonic=self.clock),
            monotonic=self.clock,
            hit=self.told.append,
            is_over=self.lost.__contains__,
            is_stale=self.hearing.is_stale,
            check=self._check,
            in_thread=lambda call: threading.Thread(target=call).start(),
            is_stopping=self._rested,
        )
        if in_one_thread:
            return await asyncio.to_thread(driver.drive_sync, self.attempt)
        return await driver.drive(self.attempt)

    def _check(self, _job: Job) -> None:
        if self.stands and (told := self.stands.pop(0)) is not None:
            raise told

    def _rested(self) -> bool:
        """Asked by each rest, as soon as it has begun: in these stories it ends at once."""
        self.rests += 1
        assert self.rests < 100, "it rests for ever"
        if self.at_rest:
            self.at_rest.pop(0)()
        rest = self.attempt.rest
        assert isinstance(rest, asyncio.Future)
        if not rest.done():
            rest.set_result(None)
        return False

    @property
    def steps(self) -> list[str]:
        return [step for step in self.told if step in ("look", "call")]


@pytest.fixture
def worker(bench: Any) -> Worker:
    return Worker(bench)


@SYNC
def test_a_worker_that_never_stood_still_calls_at_once(worker: Worker, sync: bool) -> None:
    assert isinstance(worker.drive(worker.taken("write_lookup", sync=sync)), CompleteActivity)
    assert (worker.steps, worker.rests) == (["call"], 0)


@SYNC
@pytest.mark.parametrize("heard", [False, True], ids=["before it polls", "after it has polled"])
def test_one_that_stood_still_before_it_began_looks_first(
    worker: Worker, sync: bool, heard: bool
) -> None:
    job = worker.taken("write_lookup", sync=sync)
    worker.frozen(FROZEN_S)
    if heard:
        worker.polls()
    worker.at_rest = [worker.polls]
    assert isinstance(worker.drive(job), CompleteActivity)
    assert worker.steps == ["look", "call"]
    assert worker.rests > 0, "it has to hear whether it has the task before it looks"


@SYNC
def test_one_that_stood_still_before_it_began_takes_what_it_finds(
    worker: Worker, sync: bool
) -> None:
    job = worker.taken("write_lookup", sync=sync)
    worker.frozen(FROZEN_S)
    worker.at_rest = [worker.polls]
    worker.found = "receipt"
    body = worker.drive(job)
    assert isinstance(body, CompleteActivity)
    assert body.recovered
    assert worker.steps == ["look"]


@SYNC
@pytest.mark.parametrize("heard", [False, True], ids=["before it polls", "after it has polled"])
def test_one_that_stood_still_between_its_look_and_its_call_looks_again(
    worker: Worker, sync: bool, heard: bool
) -> None:
    job = worker.taken("write_lookup", sync=sync)
    job.fresh = False

    def stops() -> None:
        worker.frozen(FROZEN_S)
        if heard:
            worker.polls(1)

    worker.at_look = [stops]
    worker.at_rest = [worker.polls]
    assert isinstance(worker.drive(job), CompleteActivity)
    assert worker.steps == ["look", "look", "call"]


@SYNC
def test_what_another_did_while_it_stood_still_is_found_by_the_second_look(
    worker: Worker, sync: bool
) -> None:
    job = worker.taken("write_lookup", sync=sync)
    job.fresh = False

    def stops() -> None:
        worker.frozen(FROZEN_S)

    def hears() -> None:
        worker.polls()
        worker.found = "receipt"

    worker.at_look, worker.at_rest = [stops], [hears]
    body = worker.drive(job)
    assert isinstance(body, CompleteActivity)
    assert body.recovered
    assert worker.steps == ["look", "look"]


def test_it_looks_as_late_as_if_it_had_only_just_taken_the_task(worker: Worker) -> None:
    """Whoever had it meanwhile may have called just now."""
    rests = []
    for settle_ms in (0, 5_000):
        job = worker.taken("write_lookup", settle_ms=settle_ms)
        worker.frozen(FROZEN_S)
        worker.at_rest = [worker.polls]
        worker.drive(job)
        rests.append(worker.rests)
    assert rests[1] == 2 * rests[0] + 1


@SYNC
def test_what_it_hears_to_have_lost_it_neither_looks_up_nor_calls(
    worker: Worker, sync: bool
) -> None:
    job = worker.taken("write_lookup", sync=sync)
    worker.frozen(FROZEN_S)

    def hears() -> None:
        worker.polls()
        worker.lost.add(job)

    worker.at_rest = [hears]
    assert worker.drive(job) is None
    assert worker.steps == []


@SYNC
def test_one_that_hears_nothing_for_long_does_not_look_again_and_again(
    worker: Worker, sync: bool
) -> None:
    """As in a long drain, with a look-up that sees a call at once."""
    job = worker.taken("write_lookup", sync=sync)
    job.fresh = False
    silent = partial(worker.frozen, 0.2)
    worker.at_look = [partial(worker.frozen, 2.0)]
    worker.at_rest = [silent] * 50 + [worker.polls]
    assert isinstance(worker.drive(job), CompleteActivity)
    assert worker.steps == ["look", "look", "call"]
    assert worker.rests > 50


@SYNC
@pytest.mark.parametrize("contract", ["read", "write_idempotent"])
def test_what_may_be_called_twice_is_called_however_long_it_stood_still(
    worker: Worker, contract: str, sync: bool
) -> None:
    job = worker.taken(contract, sync=sync)
    worker.frozen(LONG_FROZEN_S)
    assert isinstance(worker.drive(job), CompleteActivity)
    assert (worker.steps, worker.rests) == (["call"], 0)


@SYNC
def test_what_may_run_once_is_called_while_its_deadline_is_to_come(
    worker: Worker, sync: bool
) -> None:
    job = worker.taken("write_once", sync=sync)
    worker.frozen(FROZEN_S)
    assert isinstance(worker.drive(job), CompleteActivity)
    assert worker.steps == ["call"]


@SYNC
def test_what_may_run_once_is_not_called_when_its_deadline_is_over_by_the_workers_clock(
    worker: Worker, sync: bool
) -> None:
    job = worker.taken("write_once", sync=sync)
    worker.frozen(LONG_FROZEN_S)
    assert worker.drive(job) is None
    assert worker.steps == []
    assert not job.begun


@SYNC
def test_nor_when_it_stood_still_before_its_event_loop_heard_of_the_task(
    worker: Worker, sync: bool
) -> None:
    job = worker.take("write_once", sync=sync)
    worker.frozen(LONG_FROZEN_S)
    assert worker.drive(worker.accept(job)) is None
    assert worker.steps == []


@SYNC
def test_nor_when_the_log_says_so_after_all(worker: Worker, sync: bool) -> None:
    """The rule has asked before, and asks no more: only the last moment counts."""
    job = worker.taken("write_once", sync=sync)
    asked: list[Job] = []

    class Late(set[Job]):
        def __contains__(self, job: object) -> bool:
            asked.append(job)  # type: ignore[arg-type]
            return len(asked) > 1

    worker.lost = Late()
    assert worker.drive(job) is None
    assert worker.steps == []


def test_a_look_up_waits_from_when_the_task_may_start_and_not_from_when_it_was_taken(
    worker: Worker,
) -> None:
    """Another worker's call may have been under way in between, and a lease have told of it."""
    job = worker.take("write_lookup", sync=False)
    worker.frozen(1.0)
    assert worker.accept(job).taken_at == worker.now


def aging(worker: Worker, contract: str, *, sync: bool) -> Job:
    """A task whose authority is asked about."""
    return worker.accept(worker.take(contract, sync=sync, start_by_ms=DEADLINE_MS))


@SYNC
def test_while_nobody_knows_whether_it_may_begin_it_rests(worker: Worker, sync: bool) -> None:
    worker.stands = [Unsure, Unsure, None]
    assert isinstance(worker.drive(aging(worker, "write_once", sync=sync)), CompleteActivity)
    assert (worker.steps, worker.rests) == (["call"], 2)


@SYNC
def test_what_must_not_begin_any_more_is_given_back_unrun(worker: Worker, sync: bool) -> None:
    worker.stands = [Unsure, Outdated]
    job = aging(worker, "write_once", sync=sync)
    assert worker.drive(job) == ReturnActivity("1.1", 1, "authority_stale", "w1")
    assert worker.steps == []
    assert not job.begun


@SYNC
def test_what_others_have_by_now_is_not_given_back_in_their_place(
    worker: Worker, sync: bool
) -> None:
    """The worker may have lost it unheard, and hears of it before it says anything."""
    job = aging(worker, "write_idempotent", sync=sync)
    worker.stands = [Outdated]
    worker.frozen(FROZEN_S)

    def hears() -> None:
        worker.polls()
        worker.lost.add(job)

    worker.at_rest = [hears]
    assert worker.drive(job) is None
    assert worker.steps == []


@SYNC
def test_what_may_have_been_called_is_looked_up_before_it_is_given_back(
    worker: Worker, sync: bool
) -> None:
    job = aging(worker, "write_lookup", sync=sync)
    job.fresh = False
    worker.stands = [Outdated]
    assert isinstance(worker.drive(job), ReturnActivity)
    assert worker.steps == ["look"]
