"""A partition that is assigned and delivers nothing is found out, and nothing else is taken for one."""

from __future__ import annotations

from time import monotonic
from typing import Any

import pytest
from structlog.testing import capture_logs

from tests.processors.desk import KEY
from tests.processors.loops import Cluster
from wakeful.commands.models import Command, CommandHeader, SendMessage
from wakeful.commands.wire import encode_command
from wakeful.events.headers import record_headers
from wakeful.events.keys import session_key
from wakeful.events.log.kafka import KafkaLog
from wakeful.events.log.protocol import Fatal, Isolation, LogFault, Place
from wakeful.events.payloads import json_payload
from wakeful.events.topics import Topics
from wakeful.processors import stalls as module
from wakeful.processors.stalls import SILENT_MS, Stalls

PLACE = Place("desk.commands.v1", 0)


class Swallowing:
    """A log whose groups fetch nothing while they are told so; what comes below is not lost, as in a stuck client."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self.swallows = False
        self.sought = 0
        self.heals_at_seek = True
        self.asked = self.read = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def group(self, *args: Any, **more: Any) -> Any:
        return _Group(self._inner.group(*args, **more), self)

    def ends(self, places: Any, isolation: Any) -> Any:
        self.asked += 1
        return self._inner.ends(places, isolation)

    def reader(self, *args: Any) -> Any:
        self.read += 1
        return self._inner.reader(*args)


class _Group:
    def __init__(self, inner: Any, log: Swallowing) -> None:
        self._inner, self._log = inner, log

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def poll(self, records_max: int, timeout_ms: int) -> Any:
        if self._log.swallows:
            self._inner.heartbeat()
            return []
        return self._inner.poll(records_max, timeout_ms)

    def seek(self, place: Place, offset: int) -> None:
        self._log.sought += 1
        if self._log.heals_at_seek:
            self._log.swallows = False
        self._inner.seek(place, offset)


@pytest.fixture
def cluster() -> Cluster:
    """With a session that waits for its order, and everything read."""
    made = Cluster()
    made.log = Swallowing(made.log)
    made.start()
    made.open()
    made.run()
    made.log.sought = made.log.asked = made.log.read = 0
    return made


def wait(cluster: Cluster, silences: int = 1) -> None:
    for _ in range(10 * silences):
        cluster.clock.ms += SILENT_MS // 10  # a member's session is shorter than all of it
        for _ in range(3):
            cluster.step()


def message(number: int) -> tuple[bytes, bytes, Any]:
    body = SendMessage(json_payload({"text": "more"}, KEY))
    id_ = f"x{number}"
    encoded = encode_command(
        Command(CommandHeader("acme", "s1", id_, 1_800_000_000_000, "ann", None, "t", None), body)
    )
    return session_key("acme", "s1"), encoded.value, record_headers(encoded, id_)


def test_a_partition_that_delivers_nothing_is_restored_by_the_loops_one_way_back(
    cluster: Cluster,
) -> None:
    """Given a stuck fetch and a command behind it, when it was silent twice, then the loop recovers and decides it."""
    cluster.log.swallows = True
    cluster.send(SendMessage(json_payload({"text": "more"}, KEY)), command_id="m2")
    with capture_logs() as told:
        wait(cluster, 4)
    assert cluster.facts()[-1] == "MessageReceived"
    assert [line["event"] for line in told if line["log_level"] == "error"] == [
        "a partition is stalled"
    ]
    assert cluster.log.sought == 1


def test_one_that_stalls_at_the_same_record_again_ends_the_process(cluster: Cluster) -> None:
    cluster.log.swallows, cluster.log.heals_at_seek = True, False
    cluster.send(SendMessage(json_payload({"text": "more"}, KEY)), command_id="m2")
    with pytest.raises(Fatal, match="did not deliver it, again: a fresh process is needed"):
        wait(cluster, 10)
    assert cluster.log.sought == 1


def test_silence_with_nothing_to_read_is_none(cluster: Cluster) -> None:
    wait(cluster, 5)
    assert cluster.log.asked > 0
    assert (cluster.log.read, cluster.log.sought) == (0, 0)


def test_markers_and_what_was_aborted_are_nothing_to_read_and_looked_at_once(
    cluster: Cluster,
) -> None:
    for number, commits in enumerate((False, False, True)):
        producer = cluster.log.transactional("redrive")
        producer.start()
        producer.begin()
        if not commits:
            key, value, headers = message(number)
            producer.produce(PLACE.topic, key=key, value=value, headers=headers, partition=0)
            producer.abandon()
        else:
            producer.commit()
    wait(cluster, 6)
    assert cluster.log.ends([PLACE], module.Isolation.COMMITTED)[PLACE][1] > (
        cluster.loops[0]._partitions[0].next_offset
    )
    assert (cluster.log.read, cluster.log.sought) == (1, 0)


def test_an_open_transaction_that_holds_the_rest_up_is_no_stall(cluster: Cluster) -> None:
    cluster.log._inner._broker._timeout_ms = 1 << 40
    producer = cluster.log.transactional("redrive")
    producer.start()
    producer.begin()
    key, value, headers = message(1)
    producer.produce(PLACE.topic, key=key, value=value, headers=headers, partition=0)
    cluster.send(SendMessage(json_payload({"text": "behind it"}, KEY)), command_id="m2")
    wait(cluster, 6)
    assert (cluster.log.read, cluster.log.sought) == (0, 0)
    producer.commit()
    wait(cluster)
    assert cluster.facts().count("MessageReceived") == 3


def test_a_log_that_cannot_be_asked_is_no_stall_either(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    def down(*_: object) -> None:
        raise LogFault("no answer")

    monkeypatch.setattr(cluster.log, "ends", down)
    cluster.log.swallows = True
    cluster.send(SendMessage(json_payload({"text": "more"}, KEY)), command_id="m2")
    wait(cluster, 6)
    assert cluster.log.sought == 0


def test_a_second_reader_that_hears_nothing_proves_nothing(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LOOKS_MAX", 0)
    cluster.log.swallows = True
    cluster.send(SendMessage(json_payload({"text": "more"}, KEY)), command_id="m2")
    wait(cluster, 6)
    assert (cluster.log.read > 1, cluster.log.sought) == (True, 0)


def test_a_broker_tells_markers_from_records_and_an_open_transaction_from_both(
    kafka: str, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        module, "LOOKS_MAX", 150
    )  # a busy machine's reader may hear nothing for a second
    spec = Topics(namespace).specs([], 1)[0]
    place, now = Place(spec.name, 0), iter(range(0, 1_000_000, SILENT_MS))
    with KafkaLog(kafka, client_id="stalls") as log:
        log.create_topics([spec])
        producer = log.transactional(f"{namespace}.redrive")
        producer.start()
        producer.begin()
        producer.produce(spec.name, key=b"k", value=b"aborted", partition=0)
        producer.abandon()
        stalls = Stalls(log)
        for _ in range(3):
            stalls.look({place: 0}, next(now))
        again = log.transactional(f"{namespace}.redrive")
        again.start()
        again.begin()
        again.produce(spec.name, key=b"k", value=b"open", partition=0)
        for _ in range(2):
            stalls.look({place: 0}, next(now))
        again.commit()
        wait_for_markers(log, place)
        stalls.look({place: 0}, next(now))
        with pytest.raises(LogFault, match=r"has a record at offset \d+ and did not deliver it"):
            stalls.look({place: 0}, next(now))
        again.abandon()
        log.delete_topics([spec.name])


def wait_for_markers(log: KafkaLog, place: Place) -> None:
    """A commit is answered when it is decided; its markers come a moment later."""
    limit = monotonic() + 30
    while log.ends([place], Isolation.COMMITTED) != log.ends([place], Isolation.UNCOMMITTED):
        assert monotonic() < limit, "no markers after 30 s"
