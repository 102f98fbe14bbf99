"""Tasks that must not run twice: committed before they are handed out, run by nobody else, given back aloud."""

import pytest

from wakeful.commands.models import CompleteActivity, FailActivity, ReturnActivity
from wakeful.events.headers import dead_letter_in
from wakeful.events.log.memory_faults import Fate, NoFaults
from wakeful.events.log.protocol import LogFault, Place
from wakeful.processors.activities.contracts import NothingDone, Write
from wakeful.processors.activities.core import LATE_MS
from wakeful.processors.activities.definitions import activity
from wakeful.processors.activities.once import FAULTS_MAX
from wakeful.processors.app import gather


@pytest.fixture
def paid():
    return []


@pytest.fixture
def app(paid):
    @activity(contract=Write())
    async def wire(n: int, *, key: str) -> str:
        paid.append(n)
        if n < 0:
            raise NothingDone("no such account")
        return key

    return gather([wire], name="once")


@pytest.fixture
def worker(hands, app):
    """Makes workers that know the activity: `worker("w2")`."""
    return lambda worker_id="w1": hands(worker_id, app=app)


def wires(bench, *numbers, **over):
    fields = {"contract": "write_once", "deadline_ms": bench.clock.ms + 3_600_000, **over}
    return [bench.task("wire", {"n": n}, f"s{n}", **fields) for n in numbers]


def committed(bench):
    group = f"{bench.topics.namespace}.workers.default"
    return sum(bench.log.group_offsets(group).values())


def put_strange(bench, n, *, partition=0):
    """A record in the topic of what must not run twice that is no task."""
    topic = bench.topics.activities("default", once=True)
    producer = bench.log.producer()
    producer.produce(topic, key=b"k%d" % n, value=b"no task %d" % n, partition=partition)
    producer.flush(10_000)


def letters(bench):
    return [(x.key, x.value) for x in bench.log.dump(bench.topics.dead_letters)]


class Losing(NoFaults):
    """No letter reaches the log."""

    def on_deliver(self, topic):
        return Fate.FAILED if "dead-letters" in topic else Fate.OK


class Refusing(NoFaults):
    """Refuses commits; the answer alone may be lost, so that the broker has them all the same."""

    def __init__(self, fate=Fate.FAILED):
        self.fate = fate

    def on_commit_offsets(self, group):
        return self.fate


def test_it_is_committed_when_it_is_handed_out_and_runs_once(bench, worker, paid):
    bench.put(*wires(bench, 1, 2, 3))
    hand = worker()
    jobs = hand.take()
    assert (len(jobs), committed(bench), paid) == (3, 3, [])
    assert all(job.once and job.fresh for job in jobs)
    for job in jobs:
        hand.run(job)
    hand.core.settle()
    assert sorted(paid) == [1, 2, 3]
    assert all(isinstance(c.body, CompleteActivity) for c in bench.results())


@pytest.mark.case("U15")
@pytest.mark.case("L37")
def test_killed_between_commit_and_body_it_is_never_run(bench, worker, paid):
    bench.put(*wires(bench, 1))
    first = worker("w1")
    assert len(first.take()) == 1
    first.die()
    second = worker("w2")
    for _ in range(5):
        assert second.work() == []
    assert (paid, bench.results()) == ([], [])


@pytest.mark.case("U6")
@pytest.mark.parametrize("fate", [Fate.FAILED, Fate.LOST_ANSWER])
def test_without_a_commit_nothing_is_run_and_it_runs_once_when_there_is_one(
    bench, worker, paid, fate
):
    bench.put(*wires(bench, 1, 2))
    hand = worker()
    bench.log._broker.faults = Refusing(fate)
    for _ in range(5):
        assert hand.work() == []
    assert (paid, hand.core.waiting_once) == ([], 2)
    bench.log._broker.faults = NoFaults()
    hand.work()
    assert sorted(paid) == [1, 2]
    assert hand.work() == []


@pytest.mark.case("U6")
def test_a_worker_that_lost_its_membership_before_the_commit_does_not_run_it(bench, worker, paid):
    bench.put(*wires(bench, 1), partition=0)
    first, second = worker("w1"), worker("w2")
    for _ in range(4):
        first.core.poll(100, 0, once_max=0)
    assert first.core.waiting_once == 1
    bench.clock.ms += 60_000
    bench.log.expire()  # frozen for longer than its session lasts
    for _ in range(4):
        second.work()
    assert paid == [1]
    for _ in range(4):
        assert first.work() == []
    assert paid == [1]
    assert len(bench.results()) == 1


def test_a_commit_that_is_refused_for_ever_ends_the_worker(bench, worker, paid):
    bench.put(*wires(bench, 1))
    hand = worker()
    bench.log._broker.faults = Refusing()
    hand.take()
    while hand.core._once._faults < FAULTS_MAX:
        hand.core.poll(100, 0)
    with pytest.raises(LogFault):
        hand.core.poll(100, 0)
    assert paid == []


def test_no_more_are_taken_than_can_start(bench, worker, paid):
    bench.put(*wires(bench, *range(10)), partition=0)
    hand = worker()
    hand.take(1)
    jobs = hand.core.poll(100, 0, once_max=2)
    taken = hand.core.running
    assert len(jobs) == 2
    assert committed(bench) == taken
    assert hand.core.waiting_once == 10 - taken
    assert hand.core.poll(100, 0, once_max=0) == []
    hand.die()
    second = worker("w2")
    while second.work():
        pass
    assert sorted(paid) == list(range(taken, 10))  # those that nobody had taken


def test_its_result_is_not_looked_for_in_the_log(bench, worker):
    bench.put(*wires(bench, 1, 2))
    hand = worker()
    assert len(hand.work()) == 2
    assert hand.core._settled.scans == 0


@pytest.mark.parametrize(("past_ms", "runs"), [(-1, True), (0, False), (1, False)])
def test_it_is_not_begun_at_or_after_its_deadline(bench, worker, paid, past_ms, runs):
    bench.put(*wires(bench, 1, deadline_ms=bench.clock.ms - past_ms))
    hand = worker()
    hand.work()
    assert paid == ([1] if runs else [])
    assert hand.core.counts.expired == (0 if runs else 1)
    assert hand.core.unsettled == 0


def test_it_is_not_begun_long_after_its_deadline_though_the_log_stands_still(bench, worker, paid):
    bench.put(*wires(bench, 1, deadline_ms=bench.clock.ms + 10))
    hand = worker()
    (job,) = hand.take()
    bench.clock.ms += LATE_MS + 10
    hand.run(job)
    assert paid == []


def test_taken_and_not_begun_it_is_given_back_aloud(bench, worker, paid):
    bench.put(*wires(bench, 1))
    hand = worker()
    (job,) = hand.take()
    hand.core.give_back(job)
    hand.core.settle()
    assert [c.body for c in bench.results()] == [ReturnActivity("1.1", 1, "worker_stops", "w1")]
    bench.put(*wires(bench, 1, attempt=2))
    hand.work()
    assert paid == [1]


def test_begun_and_cut_off_it_says_that_nobody_knows(bench, worker):
    bench.put(*wires(bench, 1))
    hand = worker()
    (job,) = hand.take()
    job.begun = True
    hand.core.give_back(job)
    hand.core.settle()
    (command,) = bench.results()
    assert isinstance(command.body, FailActivity)
    assert command.body.failure.kind == "cut_off"


def test_nothing_done_is_a_failure_for_certain(bench, worker):
    bench.put(*wires(bench, -1))
    worker().work()
    assert bench.results()[0].body.failure.kind == "nothing_done"


@pytest.mark.parametrize(("contract", "once"), [("write_once", False), ("read", True)])
def test_a_task_of_the_other_kind_goes_to_the_dead_letters(bench, worker, paid, contract, once):
    bench.put(*wires(bench, 1, contract=contract), once=once)
    hand = worker()
    assert hand.work() == []
    (letter,) = bench.log.dump(bench.topics.dead_letters)
    assert dead_letter_in(letter.headers).reason == "wrong_topic"
    assert (paid, committed(bench)) == ([], 1)


def test_what_is_no_task_is_committed_only_once_its_letter_is_acknowledged(bench, worker, paid):
    """Given such a record between tasks, when its worker dies before the letter, then the next one writes it."""
    bench.put(*wires(bench, 1), partition=0)
    put_strange(bench, 1)
    bench.put(*wires(bench, 2), partition=0)
    first = worker("w1")
    bench.log._broker.faults = Losing()
    for _ in range(4):
        for job in first.core.poll(100, 0):
            first.run(job)
    assert (paid, committed(bench), letters(bench)) == ([1], 1, [])
    assert first.core.waiting_once == 2  # what lies behind it waits as well
    first.die()
    bench.log._broker.faults = NoFaults()
    second = worker("w2")
    for _ in range(6):
        second.work()
    assert letters(bench) == [(b"k1", b"no task 1")]
    assert (sorted(paid), committed(bench), second.core.waiting_once) == ([1, 2], 3, 0)


def test_what_is_no_task_holds_up_no_other_partition(bench, worker, paid):
    put_strange(bench, 1, partition=0)
    bench.put(*wires(bench, 1, 2), partition=1)
    hand = worker()
    bench.log._broker.faults = Losing()
    for _ in range(4):
        for job in hand.core.poll(100, 0, once_max=1):
            hand.run(job)
    assert (sorted(paid), hand.core.waiting_once) == ([1, 2], 1)
    hand.core.lost([Place(bench.topics.activities("default", once=True), 0)])
    assert hand.core.waiting_once == 0


def test_strangers_of_any_number_take_no_room_of_tasks(bench, worker, paid):
    for n in range(5):
        put_strange(bench, n)
    bench.put(*wires(bench, 1), partition=0)
    hand = worker()
    for _ in range(4):
        for job in hand.core.poll(100, 0, once_max=1):
            hand.run(job)
    assert (paid, committed(bench), len(letters(bench))) == ([1], 6, 5)
    for _ in range(3):
        hand.work()
    assert (paid, len(letters(bench))) == ([1], 5)


def test_both_kinds_of_a_queue_are_served_by_one_worker(bench, hands, app, paid):
    app.activities.update(bench.desk.app.activities)
    bench.put(*wires(bench, 1), bench.task("find_order", {"order_id": "A"}, "s2"))
    hand = hands(app=app)
    for _ in range(3):
        hand.work()
    assert (paid, bench.desk.calls.of("find_order")) == ([1], ["A"])
    assert committed(bench) == 2


def test_what_was_fetched_and_not_taken_goes_with_its_partition(bench, worker, paid):
    bench.put(*wires(bench, 1), partition=0)
    hand = worker()
    for _ in range(4):
        hand.core.poll(100, 0, once_max=0)
    hand.core.lost([Place(bench.topics.activities("default", once=True), 0)])
    assert hand.core.waiting_once == 0
    assert hand.core.poll(100, 0) == []
    assert paid == []
