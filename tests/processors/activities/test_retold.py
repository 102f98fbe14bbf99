"""A result under a key that is revoked before its processor reads it: said again under the next key, and only then."""

from dataclasses import replace

import pytest
from tests.commands.keys import Ring, key

from wakeful.commands.check import Refusal
from wakeful.commands.identity import Signed
from wakeful.commands.keyring import RETIRED, REVOKED, Keyring
from wakeful.commands.signatures import KEY_HEADER
from wakeful.commands.wire import read_command
from wakeful.processors.activities import retold
from wakeful.processors.activities.retold import AGAIN_MS, KEPT_MS

OLD, NEXT = key("old", "worker"), key("next", "worker")
GONE = key("old", "worker", status=REVOKED)


@pytest.fixture
def ring():
    return Ring(OLD)


@pytest.fixture
def hand(hands, ring):
    return hands("w1", identity=Signed(ring, "memory"))


@pytest.fixture
def said(bench, hand):
    """Makes the worker carry out a task of each of these sessions; their results are acknowledged and committed."""

    def said(*numbers, **over):
        bench.put(
            *(bench.task("find_order", {"order_id": f"A{n}"}, f"s{n}", **over) for n in numbers)
        )
        assert len(hand.work()) == len(numbers)

    return said


def records(bench):
    return bench.log.dump(bench.topics.commands)


def kids(bench):
    return [dict(record.headers).get(KEY_HEADER, b"").decode() for record in records(bench)]


def judged(bench, ring):
    """What a processor makes of each record."""
    identity = Signed(ring, "memory")
    return [
        found.reason if isinstance(found, Refusal) else found.kid
        for record in records(bench)
        for found in [identity.check(*read_command(record.value, record.headers), record)]
    ]


def test_a_result_whose_key_is_revoked_is_said_again_under_the_next(bench, hand, ring, said):
    said(1, 2)
    ring.keys = Keyring((GONE, NEXT))
    hand.work()
    assert judged(bench, ring) == ["revoked_key"] * 2 + ["next"] * 2
    values = [record.value for record in records(bench)]
    assert sorted(values[:2]) == sorted(values[2:])
    assert hand.core.unsettled == hand.core.sending == 0


def test_nothing_is_called_again_and_nothing_is_said_a_third_time(bench, hand, ring, said):
    said(1)
    ring.keys = Keyring((GONE, NEXT))
    for _ in range(5):
        hand.work()
    assert kids(bench) == ["old", "next"]
    assert bench.desk.calls.of("find_order") == ["A1"]


def test_what_is_said_again_is_said_once_more_when_that_key_goes_too(bench, hand, ring, said):
    said(1)
    third = key("third", "worker")
    ring.keys = Keyring((GONE, NEXT))
    hand.work()
    ring.keys = Keyring((GONE, replace(NEXT, status=REVOKED), third))
    hand.work()
    assert kids(bench) == ["old", "next", "third"]


@pytest.mark.parametrize(
    "keys",
    [(OLD, NEXT), (replace(OLD, status=RETIRED), NEXT)],
    ids=["a newer key is there", "it is retired"],
)
def test_a_key_that_is_believed_has_nothing_said_again(bench, hand, ring, said, keys):
    said(1)
    ring.keys = Keyring(keys)
    hand.work()
    assert kids(bench) == ["old"]


@pytest.mark.parametrize("gone", [(), (GONE,)], ids=["the key is removed", "it is revoked"])
def test_it_waits_for_a_key_and_is_said_then(bench, hand, ring, said, gone):
    said(1)
    ring.keys = Keyring(gone)
    bench.clock.ms += 10 * KEPT_MS
    hand.work()
    assert kids(bench) == ["old"]
    ring.keys = Keyring((*gone, NEXT))
    hand.work()
    assert kids(bench) == ["old", "next"]


def test_a_result_whose_key_ends_on_the_way_is_said_again(bench, hand, ring, said):
    ring.keys = Keyring((replace(OLD, not_after_ms=bench.clock.ms + 10),))
    said(1)
    ring.keys = Keyring((*ring.keys.keys, NEXT))
    bench.clock.ms += 11
    hand.work()
    assert kids(bench) == ["old", "next"]


def test_another_tenants_results_wait_for_their_own_key(bench, hand, ring, said):
    said(1, tenant="acme")
    said(2, tenant="umbra")
    ring.keys = Keyring((GONE, key("umbra", "worker", tenants=frozenset({"umbra"}))))
    hand.work()
    bench.clock.ms += AGAIN_MS
    hand.work()
    assert sorted(kids(bench)) == ["old", "old", "umbra"]
    ring.keys = Keyring((*ring.keys.keys, NEXT))
    bench.clock.ms += AGAIN_MS
    hand.work()
    assert sorted(kids(bench)) == ["next", "old", "old", "umbra"]


def test_old_results_are_forgotten(bench, hand, ring, said):
    said(1)
    bench.clock.ms += KEPT_MS + 1
    hand.work()
    said(2)
    ring.keys = Keyring((GONE, NEXT))
    hand.work()
    assert kids(bench) == ["old", "old", "next"]


def test_what_is_kept_is_bounded(bench, hand, ring, said, monkeypatch):
    said(1)
    size = len(records(bench)[0].value)
    monkeypatch.setattr(retold, "KEPT_BYTES_MAX", 3 * size)
    said(2, 3, 4, 5)
    ring.keys = Keyring((GONE, NEXT))
    hand.work()
    assert sorted(kids(bench)) == ["next"] * 3 + ["old"] * 5
