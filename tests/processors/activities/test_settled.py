"""Looking recorded results up: what counts as one, how much is read for it, and how much is remembered."""

import pytest
from tests.commands.keys import identity, key, signed

from wakeful.commands.models import Command, CommandHeader, CompleteActivity, SendMessage
from wakeful.commands.wire import encode_command
from wakeful.events.headers import record_headers
from wakeful.events.keys import partition_of
from wakeful.events.log.protocol import Place
from wakeful.events.payloads import json_payload
from wakeful.processors.activities import settled as settled_module
from wakeful.processors.activities.settled import Settled, result_id
from wakeful.processors.activities.spans import Span

KEY = b"digest key"
DAY_MS = 24 * 3_600_000


def orders(bench, *numbers, **over):
    return [bench.task("find_order", {"order_id": f"A{n}"}, f"s{n}", **over) for n in numbers]


def command(body=None, *, session="s1", command_id="acme/s1/1/1#1"):
    body = body or CompleteActivity("1.1", 1, json_payload(1, KEY), "w9")
    header = CommandHeader("acme", session, command_id, 0, "worker:w9", None, "worker", None)
    return encode_command(Command(header, body))


def put_command(bench, encoded, *, key=b"acme/s1", headers=None, partition=None):
    headers = record_headers(encoded, "acme/s1/1/1#1") if headers is None else headers
    bench._producer.produce(
        bench.topics.commands, key=key, value=encoded.value, headers=headers, partition=partition
    )
    bench._producer.flush(1_000)


def with_header(encoded, name, value):
    return [(n, value if n == name else v) for n, v in record_headers(encoded, "acme/s1/1/1#1")]


def only_result(bench):
    (record,) = bench.log.dump(bench.topics.commands)
    return result_id(record)


def test_a_result_is_told_by_its_bytes(bench):
    put_command(bench, command())
    assert only_result(bench) == "acme/s1/1/1#1"


def test_a_result_without_the_headers_of_ours_counts_too(bench):
    put_command(bench, command(), headers=())
    assert only_result(bench) == "acme/s1/1/1#1"


def test_headers_that_claim_a_result_over_other_bytes_settle_nothing(bench):
    other = command(SendMessage(json_payload({"text": "hi"}, KEY)))
    forged = [*record_headers(command(), "acme/s1/1/1#1")]
    put_command(bench, other, headers=forged)
    assert only_result(bench) is None


def test_a_result_of_another_session_settles_nothing_whatever_its_id(bench):
    forged = command(session="s2")
    put_command(bench, forged, key=b"acme/s1")
    assert only_result(bench) is None


def test_a_result_under_its_own_key_settles_its_own_attempt_whatever_its_id(bench):
    forged = command(CompleteActivity("1.2", 3, json_payload(1, KEY), "w9"), session="s2")
    put_command(bench, forged, key=b"acme/s2")
    assert only_result(bench) == "acme/s2/1/2#3"


@pytest.mark.parametrize("value", [None, b"", b"garbage", b"\x00\x00\x00\x00\x01abc"])
def test_bytes_that_are_no_command_settle_nothing(bench, value):
    headers = record_headers(command(), "acme/s1/1/1#1")
    bench._producer.produce(bench.topics.commands, key=b"acme/s1", value=value, headers=headers)
    bench._producer.flush(1_000)
    assert only_result(bench) is None


def test_a_stranger_cannot_make_a_worker_skip_a_task(bench, hands):
    bench.put(*orders(bench, 1))
    other = command(SendMessage(json_payload({"text": "hi"}, KEY)))
    put_command(bench, other, headers=[*record_headers(command(), "acme/s1/1/1#1")])
    put_command(bench, command(session="s2"), key=b"acme/s1")
    hands().work()
    assert bench.desk.calls.of("find_order") == ["A1"]


@pytest.mark.parametrize("away", [0, 1, 2, 3])
def test_a_result_that_was_copied_to_another_partition_settles_nothing(bench, hands, away):
    """There it is a dead letter: a worker that believed it would leave its session waiting."""
    home = partition_of(b"acme/s1", bench.log.partitions(bench.topics.commands))
    bench.put(*orders(bench, 1))
    put_command(bench, command(), partition=(home + away) % 4)
    hand = hands()
    hand.work()
    assert hand.core._settled.scans == 1
    assert hand.core.counts.already_settled == (1 if away == 0 else 0)
    assert bench.desk.calls.of("find_order") == ([] if away == 0 else ["A1"])


def test_results_that_nobody_asks_for_are_not_kept(bench, hands):
    bench.put(*orders(bench, *range(50)))
    first = hands("w1")
    first.work()
    assert len(bench.results()) == 50
    bench.put(*orders(bench, 200))
    first.take()
    first.die()
    second = hands("w2")
    second.work()
    assert second.core._settled.scanned == 50
    assert second.core._settled.known == 0
    assert bench.desk.calls.of("find_order")[-1] == "A200"


def test_a_backlog_longer_than_one_look_up_is_answered_in_a_few(bench, hands, monkeypatch):
    bench.put(*orders(bench, *range(100)))
    first = hands("w1")
    for job in first.take(200):
        first.run(job)
    first.die()
    monkeypatch.setattr(settled_module.Settled.__init__, "__kwdefaults__", {"ahead_max": 40})
    second = hands("w2")
    known = []
    for _ in range(30):
        assert second.work() == []
        known.append(second.core._settled.known)
    assert second.core.counts.already_settled == 100
    assert second.core.unsettled == 0
    assert max(known) <= 40
    assert second.core._settled.scans <= 6
    assert len(bench.desk.calls.of("find_order")) == 100


def test_after_a_long_outage_tasks_past_their_deadlines_ask_for_nothing(bench, hands):
    bench.put(*orders(bench, *range(30), deadline_ms=bench.clock.ms + 60_000))
    for n in range(40):
        put_command(bench, command(session=f"s{n}"), key=f"acme/s{n}".encode())
    bench.clock.ms += 5 * DAY_MS
    bench.put(*(task for n in range(30, 46) for task in orders(bench, n)))
    hand = hands()
    for _ in range(5):
        hand.work()
    assert hand.core.counts.expired == 30
    assert hand.core._settled.scans == 1
    assert hand.core._settled.scanned < 40
    assert len(bench.desk.calls.of("find_order")) == 16


def test_a_task_left_out_of_a_look_up_for_its_deadline_is_not_run(bench, hands):
    """Whether it has a result nobody asked: the look-up's time holds for the worker, too."""
    bench.put(*orders(bench, 1, deadline_ms=bench.clock.ms + 1_000), partition=0)
    put_command(bench, command())
    bench.clock.ms += DAY_MS
    bench.put(*orders(bench, 2), partition=0)
    hand = hands()
    (job,) = hand.take(1) or hand.take(1)
    assert job.task.session_id == "s2"
    assert hand.core.counts.expired == 1


def test_a_look_up_begins_where_retention_ends(bench, hands):
    bench.put(*orders(bench, 1, 2, 3), partition=0)
    place = Place(bench.topics.activities("default"), 0)
    bench.log.trim(place, 2)
    looking = Settled(bench.log, bench.topics, late_ms=0)
    looking.look_up({place: Span(0, 3)}, 0)
    assert looking.answers_for(place, 2)
    assert not looking.answers_for(place, 3)


def test_a_bound_that_answers_nothing_is_refused(bench):
    with pytest.raises(ValueError, match="ahead_max is 0"):
        Settled(bench.log, bench.topics, late_ms=0, ahead_max=0)


def test_a_result_that_no_known_key_vouches_for_settles_nothing(bench):
    """Else a stranger could keep a task from being done by saying that it is."""
    worker, other = key("worker", "worker"), key("other", "worker")
    gateway = key("worker", "client")
    said = Command(
        CommandHeader("acme", "s1", "acme/s1/1/1#1", 0, "worker:w9", None, "worker", None),
        CompleteActivity("1.1", 1, json_payload(1, KEY), "w9"),
    )
    asked = {"acme/s1/1/1#1"}
    for mark in (
        (),
        signed(other, said, topic=bench.topics.commands),
        signed(worker, said, topic="elsewhere"),
    ):
        put_command(bench, encode_command(said), headers=[*record_headers(command(), "r"), *mark])
    mine = Settled(bench.log, bench.topics, late_ms=0, identity=identity(worker))
    assert mine.found_among(asked, 0) == set()
    mark = signed(worker, said, topic=bench.topics.commands)
    put_command(bench, encode_command(said), headers=[*record_headers(command(), "r"), *mark])
    assert mine.found_among(asked, 0) == asked
    misused = Settled(bench.log, bench.topics, late_ms=0, identity=identity(gateway))
    assert misused.found_among(asked, 0) == set()
    believing = Settled(bench.log, bench.topics, late_ms=0)
    assert believing.found_among(asked, 0) == asked
