"""A worker whose key is gone: it sends nothing unsigned, takes nothing, loses nothing, and goes on with the next key."""

import pytest
from structlog.testing import capture_logs
from tests.commands.keys import Ring, key
from tests.processors.activities.conftest import until

from wakeful.commands.identity import Signed
from wakeful.commands.keyring import REVOKED, Keyring
from wakeful.commands.signatures import KEY_HEADER

OLD, NEXT = key("old", "worker"), key("next", "worker")
GONE = key("old", "worker", status=REVOKED)


@pytest.fixture
def ring():
    return Ring(OLD)


@pytest.fixture
def signing(hands, ring):
    """Makes workers that sign with the ring."""
    return lambda name="w1": hands(name, identity=Signed(ring, "memory"))


def order(bench, n, **over):
    return bench.task("find_order", {"order_id": f"A{n}"}, f"s{n}", **over)


def kids(bench):
    records = bench.log.dump(bench.topics.commands)
    return [dict(record.headers).get(KEY_HEADER) for record in records]


def committed(bench):
    return sum(bench.log.group_offsets(f"{bench.topics.namespace}.workers.default").values())


def test_a_result_without_a_key_waits_uncommitted_and_is_signed_by_the_next_key(
    bench, signing, ring
):
    bench.put(order(bench, 1))
    hand = signing()
    (job,) = hand.take()
    ring.keys = Keyring((GONE,))
    hand.run(job)
    hand.work()
    assert (kids(bench), committed(bench)) == ([], 0)
    ring.keys = Keyring((GONE, NEXT))
    hand.work()
    assert (kids(bench), committed(bench)) == ([b"next"], 1)
    assert bench.desk.calls.of("find_order") == ["A1"]


def test_a_mute_worker_takes_no_task_and_takes_all_once_there_is_a_key(bench, signing, ring):
    hand = signing()
    hand.take()
    ring.keys = Keyring((GONE,))
    bench.put(order(bench, 1), order(bench, 2))
    assert hand.work() == hand.work() == []
    assert bench.desk.calls.of("find_order") == []
    ring.keys = Keyring((NEXT,))
    hand.work()
    assert sorted(bench.desk.calls.of("find_order")) == ["A1", "A2"]
    assert kids(bench) == [b"next", b"next"]


def test_what_was_fetched_without_a_key_is_looked_up_when_it_is_taken(bench, signing, hands, ring):
    bench.put(order(bench, 1))
    first = hands("w1", identity=Signed(Ring(OLD), "memory"))
    first.run(first.take()[0])
    first.die()
    ring.keys = Keyring()
    second = signing("w2")
    assert second.take() == second.take() == []
    ring.keys = Keyring((OLD,))
    assert second.work() == []
    assert bench.desk.calls.of("find_order") == ["A1"]
    assert committed(bench) == 1


def test_it_is_told_once_with_the_next_step_and_once_when_it_is_over(bench, signing, ring):
    bench.put(order(bench, 1))
    hand = signing()
    (job,) = hand.take()
    ring.keys = Keyring((GONE,))
    with capture_logs() as told:
        hand.run(job)
        for _ in range(3):
            hand.work()
    (said,) = [line for line in told if line["log_level"] == "error"]
    assert "wakeful keys new --role worker" in said["event"]
    ring.keys = Keyring((NEXT,))
    with capture_logs() as told:
        hand.work()
        hand.work()
    assert [line["event"] for line in told if "key" in line["event"]] == [
        "a key signs results again: work goes on"
    ]


def test_a_worker_that_dies_with_a_result_leaves_its_task_to_the_next(bench, signing, ring):
    bench.put(order(bench, 1))
    first = signing()
    (job,) = first.take()
    ring.keys = Keyring((GONE,))
    first.run(job)
    first.work()
    first.die()
    ring.keys = Keyring((NEXT,))
    second = signing("w2")
    until(lambda: second.work() or kids(bench), "the next worker has it")
    assert (kids(bench), committed(bench)) == ([b"next"], 1)


def test_one_whose_partitions_others_have_by_now_is_not_told_by_both(bench, signing, ring):
    bench.put(order(bench, 1))
    hand = signing()
    (job,) = hand.take()
    ring.keys = Keyring((GONE,))
    hand.run(job)
    hand.core.lost(list(hand.core.offsets.places))
    ring.keys = Keyring((NEXT,))
    hand.core.settle()
    assert (kids(bench), hand.core.unsettled) == ([], 0)


def test_a_tenant_without_a_key_holds_up_no_other(bench, signing, ring):
    ring.keys = Keyring((key("acme", "worker", tenants=frozenset({"acme"})),))
    other = order(bench, 2, tenant="beta", idempotency_key="beta/s2/1/1")
    bench.put(other, partition=0)
    bench.put(order(bench, 1), partition=1)
    hand = signing()
    hand.work()
    assert (kids(bench), committed(bench)) == ([b"acme"], 1)
    ring.keys = Keyring((*ring.keys.keys, NEXT))
    hand.work()
    assert (sorted(kids(bench)), committed(bench)) == ([b"acme", b"next"], 2)


def test_a_running_worker_stops_taking_and_goes_on(guarded, run, ring):
    running = run(concurrency=1, identity=Signed(ring, "memory"))
    guarded.put(guarded.task("slow", {"n": 1}, "s1"))
    until(lambda: guarded.desk.calls.of("slow"), "it runs")
    ring.keys = Keyring((GONE,))
    guarded.desk.calls.go_on.set()
    until(lambda: running.lane.core.unsaid.results == 1, "its result waits")
    until(lambda: running.lane.core._group._inner._paused, "the partitions are paused")
    guarded.put(guarded.task("slow", {"n": 2}, "s2"))
    assert guarded.results() == []
    ring.keys = Keyring((NEXT,))
    until(lambda: len(guarded.results()) == 2, "both are told")
    assert kids(guarded) == [b"next", b"next"]


def test_a_worker_that_stops_without_a_key_does_not_wait_for_one(guarded, run, ring):
    running = run(concurrency=1, drain_ms=3_600_000, identity=Signed(ring, "memory"))
    guarded.put(guarded.task("slow", {"n": 1}, "s1"))
    until(lambda: guarded.desk.calls.of("slow"), "it runs")
    ring.keys = Keyring((GONE,))
    guarded.desk.calls.go_on.set()
    until(lambda: running.lane.core.unsaid.results == 1, "its result waits")
    assert running.stop() is None
    assert (guarded.results(), committed(guarded)) == ([], 0)
