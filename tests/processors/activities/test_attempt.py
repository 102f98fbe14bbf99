"""The rule of each contract, one attempt at a time: what is asked for, in which order, and what is said in the end."""

import pytest

from wakeful.commands.models import CompleteActivity, FailActivity, ReturnActivity
from wakeful.events import contracts as words
from wakeful.processors.activities.attempt import LookUp, Run, Say, Wait, hung, let_go, steps_of
from wakeful.processors.activities.contracts import NothingDone, Read, Retry, Write
from wakeful.processors.activities.definitions import activity
from wakeful.processors.activities.runner import Runner
from wakeful.processors.activities.telling import DETAIL_MAX, MESSAGE_MAX, hang_in

from .conftest import DIGEST_KEY, played


class CardDeclined(NothingDone):
    pass


class Limit(Exception):
    pass


class Bank:
    """Does what it is told, loses its answers on demand, and can be asked what it has done."""

    def __init__(self):
        self.paid, self.asked, self.fails, self.silent = {}, [], [], None

    def pay(self, key, cents):
        fault = self.fails.pop(0) if self.fails else None
        if isinstance(fault, NothingDone | Limit):
            raise fault
        self.paid.setdefault(key, []).append(cents)
        if fault is not None:
            raise fault
        return f"receipt {key}"

    def find(self, key, cents):
        self.asked.append((key, cents))
        if self.silent is not None:
            raise self.silent
        return f"receipt {key}" if key in self.paid else None


def tools(bank):
    """The same write under each contract, async, and the one with a look-up sync as well."""

    async def find(key: str, cents: int) -> str | None:
        return bank.find(key, cents)

    def find_sync(cents: int, *, key: str) -> str | None:
        return bank.find(key, cents)

    @activity(contract=Write(idempotent=True))
    async def take_back(cents: int, done_key: str) -> None: ...

    async def pay(cents: int, *, key: str) -> str:
        return bank.pay(key, cents)

    def pay_sync(cents: int, *, key: str) -> str:
        return bank.pay(key, cents)

    retry = Retry(attempts=3, never=("Limit",))
    contracts = {
        words.READ: Read(),
        words.IDEMPOTENT: Write(idempotent=True),
        words.LOOKUP: Write(lookup=find, settle="30s"),
        words.UNDO: Write(undo=take_back),
        words.AT_MOST_ONCE: Write(),
    }
    made = {w: activity(contract=c, name=w, retry=retry)(pay) for w, c in contracts.items()}
    sync = Write(lookup=find_sync, settle="30s")
    return {**made, "sync": activity(contract=sync, name="sync", retry=retry)(pay_sync)}


class Attempt:
    """One attempt of one of them: `steps` are the kinds it took, `body` is what it said."""

    def __init__(self, bench, bank, name, *, fresh=True, waited_ms=0, over=(), **task):
        loaded = tools(bank)
        contract = "write_lookup" if name == "sync" else name
        self.task = bench.task(name, {"cents": 5}, contract=contract, **task)
        self.runner = Runner(loaded, worker_id="w1", digest_key=DIGEST_KEY)
        over = list(over)
        steps = steps_of(
            self.runner,
            self.task,
            fresh=fresh,
            waited_ms=waited_ms,
            is_over=lambda: over.pop(0) if over else False,
        )
        self.steps, step = [], next(steps)
        while not isinstance(step, Say):
            self.steps.append(step.ms if isinstance(step, Wait) else type(step))
            step = steps.send(None if isinstance(step, Wait) else played(step))
        self.body = step.body

    @property
    def failure(self):
        assert isinstance(self.body, FailActivity)
        return self.body.failure


@pytest.fixture
def bank():
    return Bank()


KEY = "acme/s1/1/1"
LOOKED_UP = pytest.mark.parametrize("name", ["write_lookup", "sync"])
UNDER = pytest.mark.parametrize(
    "name", ["read", "write_idempotent", "write_lookup", "write_undo", "write_once"]
)


@UNDER
def test_a_fresh_attempt_runs_at_once_under_every_contract(bench, bank, name):
    attempt = Attempt(bench, bank, name)
    assert attempt.steps == [Run]
    assert isinstance(attempt.body, CompleteActivity)
    assert not attempt.body.recovered


@pytest.mark.parametrize("name", ["read", "write_idempotent"])
def test_what_may_be_repeated_runs_again_with_the_same_key(bench, bank, name):
    Attempt(bench, bank, name)
    assert Attempt(bench, bank, name, fresh=False).steps == [Run]
    assert bank.paid == {KEY: [5, 5]}


@pytest.mark.case("U15")
@pytest.mark.case("L37")
@LOOKED_UP
def test_a_repeat_looks_first_and_takes_what_it_finds_for_the_result(bench, bank, name):
    Attempt(bench, bank, name)
    again = Attempt(bench, bank, name, fresh=False)
    assert again.steps == [30_000, LookUp]
    assert isinstance(again.body, CompleteActivity)
    assert again.body.recovered
    assert again.body.result.inline == f'"receipt {KEY}"'.encode()
    assert (bank.paid, bank.asked) == ({KEY: [5]}, [(KEY, 5)])


@LOOKED_UP
def test_a_repeat_that_finds_nothing_runs(bench, bank, name):
    again = Attempt(bench, bank, name, fresh=False)
    assert again.steps == [30_000, LookUp, Run]
    assert isinstance(again.body, CompleteActivity)
    assert not again.body.recovered


def test_the_wait_before_a_look_up_counts_from_when_the_task_was_taken(bench, bank):
    assert Attempt(bench, bank, words.LOOKUP, fresh=False, waited_ms=20_000).steps[0] == 10_000
    assert Attempt(bench, bank, words.LOOKUP, fresh=False, waited_ms=30_000).steps[0] is LookUp


def test_the_recorded_wait_counts_and_not_that_of_the_loaded_code(bench, bank):
    assert Attempt(bench, bank, words.LOOKUP, fresh=False, settle_ms=70).steps[0] == 70


@pytest.mark.case("U15")
@LOOKED_UP
@pytest.mark.parametrize("fault", [ConnectionError("cut"), SystemError(), ValueError("what?")])
def test_a_call_that_raised_is_looked_up_after_the_wait(bench, bank, name, fault):
    bank.fails = [fault]
    attempt = Attempt(bench, bank, name, waited_ms=50_000)
    assert attempt.steps == [Run, 30_000, LookUp]
    assert isinstance(attempt.body, CompleteActivity)
    assert attempt.body.recovered
    assert bank.paid == {KEY: [5]}


def test_a_call_that_timed_out_is_looked_up_and_else_told_as_it_is(bench, bank):
    runner = Runner(tools(bank), worker_id="w1", digest_key=DIGEST_KEY)
    task = bench.task("write_lookup", {"cents": 5}, contract="write_lookup")
    steps = steps_of(runner, task, fresh=True, waited_ms=0, is_over=lambda: False)
    assert isinstance(next(steps), Run)
    timed_out = runner.timed_out(task)
    assert steps.send(timed_out) == Wait(30_000)
    look_up = steps.send(None)
    assert isinstance(look_up, LookUp)
    assert steps.send(played(look_up)) == Say(timed_out)


@LOOKED_UP
@pytest.mark.parametrize("fault", [NothingDone("closed"), CardDeclined("no"), Limit("too much")])
def test_a_call_that_failed_for_certain_is_not_looked_up(bench, bank, name, fault):
    bank.fails = [fault]
    attempt = Attempt(bench, bank, name)
    assert attempt.steps == [Run]
    assert attempt.failure.kind == ("raised" if isinstance(fault, Limit) else "nothing_done")
    assert attempt.failure.type.rpartition(".")[2] == type(fault).__name__


@UNDER
def test_a_tool_that_did_nothing_says_so_under_every_contract(bench, bank, name):
    bank.fails = [NothingDone("refused")]
    attempt = Attempt(bench, bank, name)
    assert (attempt.failure.kind, attempt.failure.message) == ("nothing_done", "refused")


@pytest.mark.parametrize("name", ["write_undo", "write_once"])
def test_what_is_called_once_tells_its_failure_as_it_is(bench, bank, name):
    bank.fails = [ConnectionError("cut")]
    attempt = Attempt(bench, bank, name)
    assert (attempt.steps, attempt.failure.kind) == ([Run], "raised")


@LOOKED_UP
def test_a_look_up_that_raises_says_so_and_nothing_runs(bench, bank, name):
    bank.silent = ConnectionError("no route")
    attempt = Attempt(bench, bank, name, fresh=False)
    assert attempt.steps == [30_000, LookUp]
    assert (attempt.failure.kind, attempt.failure.type) == ("look_up_failed", "ConnectionError")
    assert "no route" in attempt.failure.message
    assert bank.paid == {}


@LOOKED_UP
def test_a_look_up_that_raises_after_a_call_that_raised_tells_both(bench, bank, name):
    bank.fails, bank.silent = [ValueError("the first" + "x" * 1_500)], LookupError("the second")
    attempt = Attempt(bench, bank, name)
    assert attempt.steps == [Run, 30_000, LookUp]
    failure = attempt.failure
    assert (failure.kind, failure.type) == ("look_up_failed", "LookupError")
    for told in (failure.message, failure.detail):
        assert "the first" in told
        assert "the second" in told
    assert len(failure.message) <= MESSAGE_MAX
    assert len(failure.detail.encode()) <= DETAIL_MAX


def test_a_look_up_asks_to_come_back_as_a_call_does(bench, bank):
    bank.silent = ConnectionError()
    bank.silent.retry_after_ms = 7_000
    assert Attempt(bench, bank, words.LOOKUP, fresh=False).failure.retry_after_ms == 7_000


def test_a_look_up_whose_result_is_none_of_the_activitys_has_failed(bench, bank):
    bank.find = lambda key, cents: 7
    attempt = Attempt(bench, bank, words.LOOKUP, fresh=False)
    assert attempt.failure.kind == "look_up_failed"
    assert "unserialisable_result" in attempt.failure.message


@pytest.mark.parametrize("name", ["write_lookup", "write_undo", "write_once"])
def test_nothing_begins_once_its_time_is_over(bench, bank, name):
    attempt = Attempt(bench, bank, name, over=[True])
    assert (attempt.steps, attempt.body, bank.paid) == ([], None, {})


def test_a_repeat_whose_time_ends_while_it_looks_does_not_run(bench, bank):
    attempt = Attempt(bench, bank, words.LOOKUP, fresh=False, over=[False, True])
    assert (attempt.steps, attempt.body, bank.paid) == ([30_000, LookUp], None, {})


def test_a_repeat_that_other_code_began_is_unknown_where_this_code_cannot_look(bench, bank):
    for name in ("nobody_knows", "read"):
        runner = Runner(tools(bank), worker_id="w1", digest_key=DIGEST_KEY)
        task = bench.task(name, {"cents": 5}, contract="write_lookup")
        steps = steps_of(runner, task, fresh=False, waited_ms=0, is_over=lambda: False)
        said = next(steps)
        assert isinstance(said, Say)
        assert said.body.failure.kind == "look_up_failed"
    assert bank.paid == {}


def test_an_unknown_activity_says_that_and_nothing_ran(bench, bank):
    attempt = Attempt(bench, bank, "write_once", queue="other")
    assert isinstance(attempt.body, CompleteActivity)
    runner = Runner({}, worker_id="w1", digest_key=DIGEST_KEY)
    steps = steps_of(runner, attempt.task, fresh=True, waited_ms=0, is_over=lambda: False)
    said = next(steps)
    assert isinstance(said, Say)
    assert said.body.failure.kind == "unknown_activity"


def test_a_hung_call_that_can_be_looked_up_is_unknown_and_any_other_has_timed_out(bench, bank):
    kinds = {}
    for name in tools(bank):
        attempt = Attempt(bench, bank, name)
        said = hung(attempt.runner, attempt.task, hang_in(None), fresh=True, begun=True)
        kinds[name] = said.failure.kind
    assert {n for n, kind in kinds.items() if kind == "look_up_failed"} == {"write_lookup", "sync"}
    assert {kind for n, kind in kinds.items() if kind != "look_up_failed"} == {"timed_out"}


@UNDER
def test_what_a_worker_says_of_an_attempt_it_lets_go(bench, name):
    task = bench.task("pay", {}, contract=name)
    said = [let_go(task, begun=begun, worker="w1") for begun in (False, True)]
    if name not in words.ONCE:
        assert said == [None, None]
        return
    assert said[0] == ReturnActivity("1.1", 1, "worker_stops", "w1")
    assert isinstance(said[1], FailActivity)
    assert said[1].failure.kind == "cut_off"
