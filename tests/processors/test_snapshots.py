"""A session that waits in the middle of a turn lies whole in the snapshots topic; what does not fit there is no loss."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.processors.loops import Cluster
from tests.processors.rig import Rig
from wakeful.commands.models import DecideApproval
from wakeful.events import records as r
from wakeful.events.codec import SNAPSHOTS, decode_snapshot
from wakeful.events.headers import record_headers
from wakeful.events.keys import chunk_key, session_of
from wakeful.events.log.protocol import Place
from wakeful.processors import outputs as outputs_module
from wakeful.processors import snapshots
from wakeful.processors.outputs import Output
from wakeful.processors.partition import Partition
from wakeful.processors.session import Session

KEY = b"acme/s1"


def parked(tmp_path: Path, *, others: int = 3) -> Cluster:
    """s1 waits for an approval since long; others came and went after it; a mark has been written since."""
    cluster = Cluster(folder=tmp_path)
    cluster.start()
    cluster.open()
    cluster.run(20)
    cluster.answer()
    cluster.run(20)
    assert cluster.facts()[-1] == "SessionWaiting"
    for number in range(others):
        cluster.open(f"other{number}", last=True)
        for _ in range(3):
            cluster.run(20)
            cluster.answer(cents=50)
    cluster.run(20)
    return cluster


def lose_stores(cluster: Cluster, tmp_path: Path) -> Session:
    """The processor dies, and its files are gone; the session as it was."""
    session = cluster.loops[0]._partitions[0].session(KEY)
    cluster.kill()
    for file in tmp_path.iterdir():
        file.unlink()
    return session


def recovered(cluster: Cluster) -> Partition:
    cluster.start()
    cluster.run(30)
    return cluster.loops[0]._partitions[0]


def same(one: Session, other: Session) -> bool:
    return (one.head, one.state, one.journal) == (other.head, other.state, other.journal)


def in_topic(cluster: Cluster) -> dict[bytes, r.Snapshot | r.JournalChunk | r.PartitionMark | None]:
    """What compaction would leave."""
    return {
        x.key or b"": None if x.value is None else decode_snapshot(x.value, x.headers)
        for x in cluster.log.dump(cluster.topics.snapshots)
    }


@pytest.fixture
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outputs_module, "MARK_EVERY_EVENTS", 5)


def events_read(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Where recoveries begin to read events."""
    read: list[int] = []
    fold = Partition._fold_events

    def noted(self: Partition, position: int, end: int, *, last_resort: bool) -> object:
        read.append(position)
        return fold(self, position, end, last_resort=last_resort)

    monkeypatch.setattr(Partition, "_fold_events", noted)
    return read


@pytest.mark.usefixtures("often")
def test_a_parked_session_does_not_pin_the_events_and_is_recovered_without_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = parked(tmp_path)
    partition = cluster.loops[0]._partitions[0]
    place = Place(cluster.topics.events, 0)
    last = [x.offset for x in cluster.log.dump(place.topic) if x.key == KEY][-1]
    assert partition.low_offset() > last
    before = lose_stores(cluster, tmp_path)
    read = events_read(cluster, monkeypatch)
    again = recovered(cluster)
    assert read[0] > last, "its events are not read"
    assert same(again.session(KEY), before)
    assert again.session(KEY).parts == before.parts
    assert again.low_offset() > last
    cluster.approve()
    cluster.run()
    cluster.answer()
    cluster.run()
    assert cluster.facts()[-1] == "TurnCompleted"


def test_at_rest_the_chunks_are_deleted(tmp_path: Path) -> None:
    cluster = parked(tmp_path, others=0)
    chunk = in_topic(cluster)[b"acme/s1#1"]
    assert isinstance(chunk, r.JournalChunk)
    assert (chunk.base_seq, chunk.chunk, len(chunk.events)) == (0, 1, len(cluster.facts()))
    cluster.approve(decision="reject")
    cluster.run()
    assert cluster.facts()[-1] == "TurnCompleted"
    kept = in_topic(cluster)
    assert kept[b"acme/s1#1"] is None
    snapshot = kept[KEY]
    assert isinstance(snapshot, r.Snapshot)
    assert snapshot.seq == len(cluster.facts())


def test_a_chunk_holds_what_came_after_the_one_before(tmp_path: Path) -> None:
    cluster = Cluster(folder=tmp_path)
    cluster.start()
    cluster.open(workflow="sleeper")
    cluster.run()
    first = cluster.facts()
    cluster.send(DecideApproval("1.9-x", b"x", "approve", ""), actor="sue")
    cluster.run()
    assert cluster.facts()[-1] == "CommandRefused"
    chunks = [x for key, x in in_topic(cluster).items() if b"#" in key]
    assert [len(c.events) for c in chunks if isinstance(c, r.JournalChunk)] == [len(first), 1]
    before = lose_stores(cluster, tmp_path)
    assert same(recovered(cluster).session(KEY), before)


def spoil(cluster: Cluster, how: str) -> None:
    """Damages what the topic holds of s1, as the topic's newest record."""
    place = Place(cluster.topics.snapshots, 0)
    entries = cluster.log._broker.partition(place).entries
    for at, (record, *rest) in enumerate(entries):
        if record is None or session_of(record.key) != KEY or record.value is None:
            continue
        found = decode_snapshot(record.value, record.headers)
        if not isinstance(found, r.JournalChunk):
            continue
        broken = {
            "cut": replace(found, events=found.events[1:]),
            "forged": replace(
                found, events=(replace(found.events[0], body=b"x"), *found.events[1:])
            ),
            "unknown": None,
        }[how]
        encoded = SNAPSHOTS.encode(broken or found)
        headers = record_headers(encoded, "x") if broken else ()
        value = encoded.value if broken else b"\0\0\0\0\0nonsense"
        changed = {name: getattr(record, name) for name in type(record).__slots__}
        changed.update(value=value, headers=headers)
        entries[at] = (type(record)(**changed), *rest)


@pytest.mark.usefixtures("often")
@pytest.mark.parametrize("how", ["cut", "forged", "unknown"])
def test_a_chunk_that_does_not_fit_is_supplied_by_the_events(
    how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = parked(tmp_path)
    before = lose_stores(cluster, tmp_path)
    spoil(cluster, how)
    read = events_read(cluster, monkeypatch)
    assert same(recovered(cluster).session(KEY), before)
    assert read == [0], "all events, once; the snapshots that fit are kept"


@pytest.mark.usefixtures("often")
def test_a_snapshot_of_another_version_is_no_reason_to_miss_its_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = parked(tmp_path)
    cluster.approve(decision="reject")
    cluster.run()
    for number in range(3):
        cluster.open(f"later{number}")
        cluster.run(20)
    before = lose_stores(cluster, tmp_path)
    monkeypatch.setattr(snapshots, "STATE_VERSION", 99)
    again = recovered(cluster)
    assert same(again.session(KEY), before)


def stretched(rig: Rig) -> list[Output]:
    """Two stretches of five, and three steps into the next; everything that went out."""
    out = outputs = rig.open(steps=40, stretch=5, parks=1)
    for _ in range(13):
        outputs = rig.give(rig.answers(outputs))
        out = [*out, *outputs]
    return out


def feed(
    rig: Rig, out: list[Output], wanted: Callable[[Output], bool] = lambda _: True
) -> Partition:
    """Another owner's partition, restored from what went out into these topics."""
    log = rig.log
    specs = rig.topics.specs(("default",), 1)
    log.create_topics(specs)
    producer = log.producer()
    for o in out:
        if o.topic in (rig.topics.events, rig.topics.snapshots) and wanted(o):
            producer.produce(o.topic, key=o.key, value=o.value, headers=o.headers, partition=0)
    producer.flush(1_000)
    partition = Partition(0, rig.topics, log, "other", None)
    steps = partition.restore(Offsets())  # type: ignore[arg-type]
    for _ in steps:
        pass
    return partition


class Offsets:
    """A group without commits."""

    def committed(self, places: list[Place]) -> dict[Place, None]:
        return dict.fromkeys(places)


def test_a_stretch_is_recovered_from_its_start_whoever_does_it() -> None:
    rig = Rig()
    out = stretched(rig)
    live = rig.session()
    begun = live.journal[0]
    assert isinstance(begun.body, r.TurnContinued)
    assert live.base_seq == begun.envelope.seq
    assert same(feed(rig, out).session(KEY), live)
    rig.partition.forget()
    loaded = rig.session()
    assert same(loaded, live)
    assert loaded.base == live.base
    assert loaded.parts == live.parts
    assert same(feed(Rig(), out, lambda o: o.topic == rig.topics.events).session(KEY), live)


@pytest.mark.parametrize("half", [b"acme/s1", b"acme/s1#1"], ids=["chunk alone", "snapshot alone"])
def test_half_of_a_stretchs_snapshot_is_no_more_than_none(half: bytes) -> None:
    rig = Rig()
    out = stretched(rig)
    again = feed(rig, out, lambda o: o.key != half or o.topic == rig.topics.events)
    assert same(again.session(KEY), rig.session())


def test_a_stretch_that_begins_pins_no_event_before_it() -> None:
    rig = Rig()
    outputs = rig.open(steps=40, stretch=5)
    lows = []
    for _ in range(30):
        outputs = rig.give(rig.answers(outputs))
        lows.append(rig.partition.low_offset())
    position = rig.partition.store.position or 0
    assert lows == sorted(lows)
    assert position - lows[-1] < 5 * 3


def test_chunks_are_of_a_bounded_size_and_a_larger_event_is_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(snapshots, "CHUNK_BYTES", 900)
    rig = Rig()
    out = outputs = rig.open(steps=20, parks=1)
    while outputs := rig.give(rig.answers(outputs)):
        out = [*out, *outputs]
        if rig.session().state.approvals:
            break
    chunks = [
        found
        for o in out
        if o.topic == rig.topics.snapshots and o.value is not None
        if isinstance(found := decode_snapshot(o.value, o.headers), r.JournalChunk)
    ]
    assert [c.chunk for c in chunks] == [*range(1, len(chunks) + 1)]
    assert len(chunks) > 5
    for chunk in chunks:
        size = sum(len(e.body) + len(e.fingerprint) for e in chunk.events)
        assert size <= 900 or len(chunk.events) == 1
    assert sum(len(c.events) for c in chunks) == rig.session().head.seq
    assert same(feed(rig, out).session(KEY), rig.session())


def test_where_there_is_no_room_for_chunks_the_events_are_pinned_as_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(snapshots, "CHUNKS_MAX", 3)
    monkeypatch.setattr(snapshots, "CHUNK_BYTES", 1)
    rig = Rig()
    outputs = rig.open(steps=3, parks=1)
    for _ in range(3):
        outputs = rig.give(rig.answers(outputs))
    assert rig.session().state.approvals
    assert not any(b"#" in (o.key or b"") for o in outputs if o.topic == rig.topics.snapshots)
    assert rig.partition.low_offset() == 0


def test_keys_of_chunks_belong_to_their_session() -> None:
    assert chunk_key(KEY, 7) == b"acme/s1#7"
    assert session_of(b"acme/s1#7") == session_of(KEY) == KEY
    assert session_of(b"@3") is session_of(None) is session_of(b"a/b/c") is None
