"""Results under a key that is revoked since: done where the session's events say so, and not done otherwise."""

from dataclasses import replace

import pytest
from tests.commands.keys import Ring, key
from tests.events.samples import ENVELOPE, PAYLOAD

from wakeful.commands.identity import Signed
from wakeful.commands.keyring import REVOKED, Keyring
from wakeful.events import records as r
from wakeful.events.codec import encode_event
from wakeful.events.headers import record_headers
from wakeful.events.topics import Topics
from wakeful.processors.activities.settled import Settled

OLD, NEXT = key("old", "worker"), key("next", "worker")
GONE = key("old", "worker", status=REVOKED)
FAILED = r.Failure("failed", "ValueError", "no", "")


@pytest.fixture
def ring():
    return Ring(OLD)


@pytest.fixture
def left(bench, hands, ring):
    """A worker sent the result of a task, ended before it committed that, and its key is revoked; who comes after it."""
    bench.put(bench.task("find_order", {"order_id": "A1"}))
    first = hands("w1", identity=Signed(ring, "memory"))
    for job in first.take():
        first.run(job)
    first.die()
    assert len(bench.results()) == 1
    ring.keys = Keyring([GONE, NEXT])
    return hands("w2", identity=Signed(ring, "memory"))


def tell(bench, body, *, session="s1", where=b"acme/s1"):
    """As the processor of that session wrote it."""
    encoded = encode_event(r.Event(replace(ENVELOPE, session_id=session), body))
    producer = bench.log.producer()
    headers = record_headers(encoded, "1")
    producer.produce(bench.topics.events, key=where, value=encoded.value, headers=headers)
    producer.flush(10_000)
    producer.close()


def calls(bench):
    return len(bench.desk.calls.of("find_order"))


@pytest.mark.parametrize(
    "body",
    [
        r.ActivityCompleted("1.1", 1, PAYLOAD, "w1"),
        r.ActivityFailed("1.1", 1, FAILED, "w1"),
        r.ActivityUncertain("1.1", 1, FAILED, "w1"),
        r.ActivityRetryScheduled("1.1", 2, 5, FAILED, "w1"),
        r.LateResultRecorded("1.1", 1, "completed", PAYLOAD, None, "w1"),
    ],
    ids=lambda body: type(body).__name__,
)
def test_a_result_that_was_recorded_before_its_key_was_revoked_is_not_made_again(bench, left, body):
    tell(bench, body)
    left.work()
    assert (calls(bench), left.core.counts.already_settled) == (1, 1)
    assert len(bench.results()) == 1


def test_one_that_nobody_had_recorded_is_made_again(bench, left):
    left.work()
    assert calls(bench) == 2
    assert len(bench.results()) == 2


@pytest.mark.parametrize(
    ("body", "where"),
    [
        (r.ActivityCompleted("1.1", 2, PAYLOAD, "w1"), {}),
        (r.ActivityCompleted("1.2", 1, PAYLOAD, "w1"), {}),
        (r.ActivityRetryScheduled("1.1", 1, 5, FAILED, "w1"), {}),
        (r.ActivityFailed("1.1", 1, FAILED, ""), {}),
        (r.ActivityCancelled("1.1", 1, "no longer wanted"), {}),
        (r.ActivityCompleted("1.1", 1, PAYLOAD, "w1"), {"session": "s2", "where": b"acme/s2"}),
        (r.ActivityCompleted("1.1", 1, PAYLOAD, "w1"), {"session": "s2"}),
        (r.ActivityCompleted("1.1", 1, PAYLOAD, "w1"), {"where": b"acme/s2"}),
    ],
)
def test_events_of_other_attempts_sessions_and_ends_say_nothing_of_it(bench, left, body, where):
    tell(bench, body, **where)
    left.work()
    assert calls(bench) == 2


def test_events_without_a_result_settle_nothing(bench, hands, ring):
    """It is the revoked key's result that is asked about: who has none asks for no events."""
    bench.put(bench.task("find_order", {"order_id": "A1"}))
    tell(bench, r.ActivityCompleted("1.1", 1, PAYLOAD, "w1"))
    hands("w1", identity=Signed(ring, "memory")).work()
    assert calls(bench) == 1


def test_who_may_not_read_the_events_knows_of_none(bench, left):
    """It goes on, as one that is refused them by the broker does."""
    tell(bench, r.ActivityCompleted("1.1", 1, PAYLOAD, "w1"))

    class Elsewhere(Topics):
        events = "desk.there.is.none"

    elsewhere = Elsewhere(bench.topics.namespace)
    looking = [
        Settled(bench.log, topics, late_ms=0, identity=left.core._settled._identity)
        for topics in (bench.topics, elsewhere)
    ]
    asked = {"acme/s1/1/1#1"}
    assert [one.found_among(asked, 0) for one in looking] == [asked, set()]
