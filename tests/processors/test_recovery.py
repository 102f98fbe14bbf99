"""What a processor does not have, or has wrong, it finds again in the log; what the log has lost breaks one session."""

from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import pytest

from tests.processors.desk import KEY
from tests.processors.loops import Cluster, play
from wakeful.commands.models import SendMessage
from wakeful.events import records as r
from wakeful.events.codec import SNAPSHOTS
from wakeful.events.log.protocol import Place
from wakeful.events.payloads import json_payload
from wakeful.processors import outputs as outputs_module


@pytest.mark.case("U23")
def test_without_stores_snapshots_and_the_events_after_them_give_the_same_sessions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outputs_module, "MARK_EVERY_EVENTS", 5)
    cluster = Cluster(folder=tmp_path)
    cluster.start()
    for number in range(6):
        cluster.open(f"s{number}", last=number % 2 == 0)
        cluster.run(20)
        cluster.answer(cents=50)
        cluster.run(20)
        if number < 4:
            cluster.answer()
            cluster.run(20)
    kept = {
        f"s{n}": cluster.loops[0]._partitions[0].session(f"acme/s{n}".encode()) for n in range(6)
    }
    marks = [
        found
        for x in cluster.log.dump(cluster.topics.snapshots)
        if isinstance(found := SNAPSHOTS.decode(x.value, None), r.PartitionMark)
    ]
    assert marks, "marks were written"
    assert marks[-1].low_offset > 0
    cluster.kill()
    for file in tmp_path.iterdir():
        file.unlink()
    cluster.start()
    cluster.run(30)
    for name, session in kept.items():
        again = cluster.loops[0]._partitions[0].session(f"acme/{name}".encode())
        assert (again.head, again.state) == (session.head, session.state)
        assert [e.body for e in again.journal] == [e.body for e in session.journal]


def test_a_damaged_store_is_dropped_and_rebuilt(tmp_path: Path) -> None:
    cluster = Cluster(folder=tmp_path)
    cluster.start()
    cluster.open()
    cluster.run()
    cluster.kill()
    for file in tmp_path.iterdir():
        file.write_bytes(b"not a database" * 100)
    cluster.start()
    cluster.run()
    cluster.answer()
    cluster.run()
    assert cluster.facts()[-1] == "SessionWaiting"


def test_a_second_processor_takes_partitions_over_without_a_gap() -> None:
    cluster = Cluster(partitions=3)
    cluster.start(0)
    for number in range(12):
        cluster.open(f"s{number}", last=True)
    cluster.run(20)
    cluster.start(1)
    for _ in range(4):
        cluster.run(60)
        cluster.answer(cents=50)
    cluster.run(60)
    for number in range(12):
        assert cluster.facts(f"s{number}")[-1] == "SessionCompleted"
        assert cluster.facts(f"s{number}").count("ActivityRequested") == 2
    owners = set(cluster.log.group_owners("desk.processors").values())
    assert len(owners) == 2


def test_lost_group_offsets_are_found_again_from_the_events() -> None:
    cluster = Cluster()
    cluster.start()
    cluster.open()
    cluster.run()
    before = cluster.facts()
    cluster.kill()
    cluster.log._coordinator.group("desk.processors").committed.clear()
    cluster.start()
    cluster.run()
    assert cluster.facts() == before
    cluster.answer()
    cluster.run()
    assert cluster.facts()[-1] == "SessionWaiting"


def test_an_event_of_an_unknown_type_holds_its_session_and_nobody_else() -> None:
    cluster = Cluster()
    cluster.start()
    cluster.open("s1")
    cluster.open("s2")
    cluster.run()
    records = [x for x in cluster.log.dump(cluster.topics.events) if x.key == b"acme/s1"]
    newest = records[-1]
    cluster.kill()
    entries = cluster.log._broker.partition(Place(cluster.topics.events, 0)).entries
    for index, (record, *rest) in enumerate(entries):
        if record is not None and record.offset == newest.offset:
            headers = [
                (k, b"\x07" * 8 if k == "wakeful_fingerprint" else v) for k, v in record.headers
            ]
            entries[index] = (type(record)(**{**_fields(record), "headers": headers}), *rest)
    cluster.start()
    cluster.run()
    cluster.send(SendMessage(json_payload({"text": "hello?"}, KEY)), "s1")
    cluster.answer()
    cluster.run()
    assert cluster.facts("s2")[-1] == "SessionWaiting"
    held = [x for x in cluster.outcomes() if x.kind == "held"]
    assert [x.session_id for x in held] == ["s1"]
    assert "deploy a version" in (held[0].detail or "")


def _fields(record: object) -> dict[str, object]:
    return {name: getattr(record, name) for name in type(record).__slots__}  # type: ignore[attr-defined]


def test_an_event_that_is_gone_from_the_log_breaks_its_session_and_nobody_else(
    tmp_path: Path,
) -> None:
    cluster = Cluster(folder=tmp_path)
    cluster.start()
    cluster.open("s1")
    cluster.open("s2")
    cluster.run()
    cluster.kill()
    for file in tmp_path.iterdir():
        file.unlink()
    entries = cluster.log._broker.partition(Place(cluster.topics.events, 0)).entries
    for index, (record, *rest) in enumerate(entries):
        if record is not None and record.key == b"acme/s1":
            entries[index] = (None, *rest)
            break
    cluster.start()
    cluster.run()
    cluster.send(SendMessage(json_payload({"text": "hello?"}, KEY)), "s1")
    cluster.answer()
    cluster.run()
    assert cluster.log.group_offsets("desk.processors")[Place(cluster.topics.commands, 0)] == 7
    held = [x for x in cluster.outcomes() if x.kind == "held"]
    assert [x.session_id for x in held] == ["s1"]


def test_a_snapshot_of_another_format_is_no_more_than_a_missing_one(tmp_path: Path) -> None:
    cluster = Cluster(folder=tmp_path)
    cluster.start()
    play(cluster, cluster.run)
    told = cluster.facts()
    cluster.kill()
    for file in tmp_path.iterdir():
        file.unlink()
    record = [x for x in cluster.log.dump(cluster.topics.snapshots) if x.value is not None][-1]
    stored = SNAPSHOTS.decode(record.value, None)
    assert isinstance(stored, r.Snapshot)
    foreign = replace(
        stored, state=b"\0\0\0\0 other", state_hash=sha256(b"\0\0\0\0 other").digest()
    )
    cluster.producer.produce(
        record.topic, key=record.key, value=SNAPSHOTS.encode(foreign).value, headers=record.headers
    )
    cluster.producer.flush(1_000)
    cluster.start()
    cluster.run()
    session = cluster.loops[0]._partitions[0].session(b"acme/s1")
    assert session.broken is None
    assert session.head.seq == len(told)
