"""A call that goes on at another worker is waited for, not made twice; nothing else waits, and nothing for long."""

import pytest

from wakeful.events.log.protocol import LogFault
from wakeful.processors.activities.jobs import Job
from wakeful.processors.activities.leases import NoLeases
from wakeful.processors.activities.redelivered import Redelivered

from .conftest import until


class Shared:
    """What Redis would hold: attempt → its holder and until when."""

    def __init__(self):
        self.now, self.leases, self.asked = 100.0, {}, []

    def of(self, worker_id):
        return MemoryLeases(self, worker_id)


class MemoryLeases:
    def __init__(self, shared, worker_id):
        self._shared, self._worker_id = shared, worker_id

    def hold(self, attempts):
        until = {a: self._shared.now + ms / 1000 for a, ms in attempts.items()}
        self._shared.leases.update({a: (self._worker_id, until[a]) for a in attempts})

    def held(self, attempts):
        self._shared.asked.append(list(attempts))
        leases = {a: self._shared.leases.get(a, ("", 0.0)) for a in attempts}
        return {
            a
            for a, (holder, until) in leases.items()
            if until > self._shared.now and holder != self._worker_id
        }

    def release(self, attempts):
        for attempt in attempts:
            if self._shared.leases.get(attempt, ("",))[0] == self._worker_id:
                del self._shared.leases[attempt]


@pytest.fixture
def shared():
    return Shared()


class Second:
    """The worker that was given the partitions; `take` is what its intake does."""

    def __init__(self, hand, shared, leases=None):
        self.hand, self.core, self.shared = hand, hand.core, shared
        self.redelivered = Redelivered(
            self.core,
            leases or shared.of("w2"),
            monotonic=lambda: shared.now,
            now_ms=lambda: hand.bench.clock.ms,
            drop=self.core.expire,
        )

    def take(self):
        self.shared.now += 1
        return [job.task.session_id for job in self.redelivered.admit(self.hand.take())]


@pytest.fixture
def second(hands, shared):
    return lambda leases=None: Second(hands("w2"), shared, leases)


def put(bench, *sessions, **over):
    tasks = [bench.task("find_order", {"order_id": "A"}, s, **over) for s in sessions]
    bench.put(*tasks, partition=0)


def answer(bench, hand, session):
    """What the first worker says in the end, although the partition is gone."""
    task = bench.task("find_order", {"order_id": "A"}, session)
    job = Job(task, f"{task.idempotency_key}#1", fresh=True)
    hand.core.report(job, hand.answer(job))


def test_a_held_call_is_waited_for_and_the_others_start(bench, shared, second):
    shared.of("w1").hold({"acme/s1/1/1#1": 5_000})
    put(bench, "s1", "s2")
    worker = second()
    assert worker.take() == ["s2"]
    assert worker.take() == []


def test_its_result_that_was_recorded_meanwhile_settles_the_task(bench, hands, shared, second):
    shared.of("w1").hold({"acme/s1/1/1#1": 5_000})
    put(bench, "s1")
    worker = second()
    assert worker.take() == []
    answer(bench, hands("w1"), "s1")
    shared.of("w1").release(["acme/s1/1/1#1"])
    assert worker.take() == []
    worker.core.settle()
    worker.core.commit()
    assert sum(bench.log.group_offsets(f"{bench.topics.namespace}.workers.default").values()) == 1
    assert worker.core.unsettled == 0


def test_a_lease_that_ends_without_a_result_lets_the_call_be_made(bench, shared, second):
    shared.of("w1").hold({"acme/s1/1/1#1": 2_500})
    put(bench, "s1")
    worker = second()
    assert [worker.take() for _ in range(4)] == [[], [], ["s1"], []]


def test_a_lease_that_never_ends_is_waited_for_as_long_as_the_call_may_take(bench, shared, second):
    shared.of("w1").hold({"acme/s1/1/1#1": 10**9})
    put(bench, "s1", start_to_close_ms=3_000)
    worker = second()
    assert [worker.take() for _ in range(5)] == [[], [], [], ["s1"], []]


def test_nobody_waits_beyond_the_deadline(bench, shared, second):
    shared.of("w1").hold({"acme/s1/1/1#1": 10**9})
    put(bench, "s1", deadline_ms=bench.clock.ms + 2_000)
    worker = second()
    assert [worker.take() for _ in range(3)] == [[], [], ["s1"]]


def test_a_task_that_was_never_delivered_asks_nobody(bench, shared, second):
    worker = second()
    worker.take()
    put(bench, "s1")
    put(bench, "s2", attempt=2)
    assert worker.take() == ["s1", "s2"]
    assert shared.asked == []


def test_leases_that_vanish_cost_no_wait(bench, shared, second):
    shared.of("w1").hold({"acme/s1/1/1#1": 10**9})
    put(bench, "s1")
    worker = second()
    assert worker.take() == []
    shared.leases.clear()
    assert worker.take() == ["s1"]


def test_without_leases_everything_starts_at_once(bench, second):
    put(bench, "s1")
    assert second(NoLeases()).take() == ["s1"]
    NoLeases().hold({"a": 1})
    NoLeases().release(["a"])


def test_a_log_that_cannot_be_read_is_asked_again(bench, shared, second, monkeypatch):
    shared.of("w1").hold({"acme/s1/1/1#1": 10**9})
    put(bench, "s1")
    worker = second()
    assert worker.take() == []
    shared.leases.clear()

    def fail(_jobs):
        raise LogFault("down")

    with monkeypatch.context() as patched:
        patched.setattr(worker.core, "results_of", fail)
        assert worker.take() == []
    assert worker.take() == ["s1"]


def test_one_that_waits_is_given_back_with_its_partition(bench, shared, second):
    shared.of("w1").hold({"acme/s1/1/1#1": 10**9})
    put(bench, "s1")
    worker = second()
    worker.take()
    places = worker.core.offsets.places
    assert worker.redelivered.take_back([p for p in places if p.partition]) == []
    (job,) = worker.redelivered.take_back([p for p in places if not p.partition])
    assert job.task.session_id == "s1"
    shared.leases.clear()
    assert worker.take() == []


def test_a_call_that_outlives_its_partition_is_made_once(guarded, run, shared):
    leases = {name: shared.of(name) for name in ("w1", "w2")}
    first = run(leases=leases["w1"], drain_ms=50)
    tasks = [guarded.task("slow", {"n": n}, f"s{n}") for n in range(8)]
    guarded.put(*tasks)
    until(lambda: len(guarded.desk.calls.of("slow")) == 8, "all run at the first")
    second = run(worker_id="w2", leases=leases["w2"])
    until(lambda: shared.leases, "partitions leave, their calls go on")
    assert {holder for holder, _ in shared.leases.values()} == {"w1"}
    left = set(shared.leases)
    until(lambda: second.lane.core.counts.taken >= len(left), "the second has the tasks")
    guarded.desk.calls.go_on.set()
    until(lambda: not shared.leases, "the leases are released with the results")
    shared.now += 1
    until(lambda: second.lane.core.counts.expired == len(left), "they are found")
    assert sorted(guarded.desk.calls.of("slow")) == list(range(8))
    assert len(guarded.results()) == 8
    assert first.alive
