"""The loop loses nothing and doubles nothing, wherever it stops; one bad record or session stops nobody else."""

from collections.abc import Callable
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import pytest

from tests.processors.desk import KEY
from tests.processors.loops import Cluster
from wakeful.commands.models import FireTimer, OpenSession, SendMessage
from wakeful.events import records as r
from wakeful.events.codec import SNAPSHOTS
from wakeful.events.log.memory_faults import Fate, NoFaults
from wakeful.events.log.protocol import Place
from wakeful.events.payloads import json_payload
from wakeful.processors import outputs as outputs_module
from wakeful.processors.loop import LoopFailed

WHOLE_STORY = [
    "SessionOpened",
    "MessageReceived",
    "TurnStarted",
    "ActivityRequested",
    "ActivityCompleted",
    "ApprovalRequested",
    "SessionWaiting",
    "ApprovalGranted",
    "ActivityRequested",
    "ActivityCompleted",
    "ReplySent",
    "SessionCompleted",
]


def play(cluster: Cluster, run: Callable[[], None]) -> None:
    """The refund story from first message to completion."""
    cluster.open(last=True)
    run()
    for _ in range(2):
        cluster.answer()
        run()
        if "ApprovalRequested" in cluster.facts() and "ApprovalGranted" not in cluster.facts():
            cluster.approve()
            run()


POINTS = [
    "p.polled",
    "p.begun",
    "p.offsets_sent",
    "p.produced",
    "p.commit_sent",
    "p.committed",
    "p.stored",
]


@pytest.mark.parametrize("keeps_store", [True, False], ids=["store-kept", "store-lost"])
@pytest.mark.parametrize("point", POINTS)
def test_a_kill_at_any_point_loses_nothing_and_doubles_nothing(
    point: str, keeps_store: bool, tmp_path: Path
) -> None:
    cluster = Cluster(folder=tmp_path)
    cluster.start()

    def run() -> None:
        try:
            cluster.step_to(point, most=30)
        except AssertionError:
            return  # nothing was left to do
        cluster.kill()
        if not keeps_store:
            for file in tmp_path.iterdir():
                file.unlink()
        cluster.start()
        cluster.run(30)

    cluster.run(10)
    play(cluster, run)
    cluster.run(30)
    assert cluster.facts() == WHOLE_STORY
    assert len(cluster.tasks()) == 2


@pytest.mark.parametrize("fate", [Fate.LOST_ANSWER, Fate.FAILED], ids=["applied", "not-applied"])
def test_a_commit_without_an_answer_is_settled_from_the_log(fate: Fate) -> None:
    class EveryOther(NoFaults):
        calls = 0

        def on_commit(self, transactional_id: str) -> Fate:
            self.calls += 1
            return fate if self.calls % 2 else Fate.OK

    cluster = Cluster(faults=EveryOther())
    cluster.start()
    play(cluster, cluster.run)
    cluster.run()
    assert cluster.facts() == WHOLE_STORY


def test_faults_in_a_row_end_the_loop() -> None:
    class Never(NoFaults):
        def on_commit(self, transactional_id: str) -> Fate:
            return Fate.FAILED

    cluster = Cluster(faults=Never())
    cluster.start()
    cluster.open()
    with pytest.raises(LoopFailed, match="4 faults in a row"):
        cluster.run(200)


@pytest.mark.parametrize("batch_records", [1, 2, 64])
def test_the_size_of_batches_changes_no_event(batch_records: int) -> None:
    def story(size: int) -> list[str]:
        cluster = Cluster()
        cluster.start(batch_records=size, always_replay=size == 2)
        for number in range(5):
            cluster.open(f"s{number}", last=True)
        for _ in range(4):
            cluster.run(300)
            cluster.answer()
        return [
            f"{e.envelope.session_id} {type(e.body).__name__}"
            for n in range(5)
            for e in cluster.events(f"s{n}")
        ]

    assert story(batch_records) == story(64)


@pytest.mark.case("U25")
def test_what_cannot_be_read_is_a_dead_letter_and_the_next_record_counts() -> None:
    cluster = Cluster()
    cluster.start()
    good = Cluster()
    good.send(OpenSession("desk"))
    [record] = good.log.dump(good.topics.commands)
    value, headers = record.value or b"", list(record.headers)
    fingerprint = [("wakeful_fingerprint", b"\x01" * 8)]
    cluster.raw(b"acme/s1", b"garbage")
    cluster.raw(
        b"acme/s1", value, [h for h in headers if h[0] != "wakeful_fingerprint"] + fingerprint
    )
    cluster.raw(b"acme/s1", value + b"\x00", headers)
    cluster.raw(b"acme/s1", value[:-3], headers)
    cluster.raw(b"acme/s2", value, headers)
    cluster.raw(None, None)
    cluster.raw(b"acme/s1", b"\x02" * 5_000, headers)
    cluster.raw(b"acme/s1", value, headers)
    cluster.run()
    reasons = [letter.reason for letter in cluster.dead()]
    assert reasons[:2] == ["bad_frame", "unknown_fingerprint"]
    assert reasons[2:5] == ["trailing_bytes", "truncated", "key_mismatch"]
    assert len(reasons) == 7
    assert [letter.offset for letter in cluster.dead()] == list(range(7))
    assert cluster.facts() == ["SessionOpened"]


def test_a_message_for_an_unknown_session_is_an_outcome_and_a_dead_letter() -> None:
    cluster = Cluster()
    cluster.start()
    cluster.send(SendMessage(json_payload({"text": "hi"}, KEY)), "nobody")
    cluster.run()
    [outcome] = cluster.outcomes()
    assert (outcome.kind, outcome.reason, outcome.session_id, outcome.seq) == (
        "refused",
        "unknown_session",
        "nobody",
        None,
    )
    assert [letter.reason for letter in cluster.dead()] == ["unknown_session"]
    assert cluster.events() == []


def test_a_sleeping_session_is_woken_by_its_owner_once_it_is_due() -> None:
    cluster = Cluster()
    cluster.start()
    cluster.open(workflow="sleeper")
    cluster.run()
    assert cluster.facts()[-1] == "SessionWaiting"
    cluster.clock.ms += 11 * 60_000
    cluster.run()
    assert cluster.facts()[-3:] == ["TimerFired", "ReplySent", "TurnCompleted"]


def test_an_owner_whose_clock_is_ahead_wakes_nobody_early() -> None:
    cluster = Cluster()
    cluster.start()
    cluster.open(workflow="sleeper")
    cluster.run()
    cluster.clock.skew_ms = 3_600_000
    cluster.run(100)
    assert "TimerFired" not in cluster.facts()
    assert cluster.log.dump(cluster.topics.commands)[2:], (
        "the early wake-ups were sent, and led to nothing"
    )
    cluster.clock.ms += 11 * 60_000
    cluster.run(100)
    assert cluster.facts().count("TimerFired") == 1


def test_a_foreign_wake_up_fires_nothing_early() -> None:
    cluster = Cluster()
    cluster.start()
    cluster.open(workflow="sleeper")
    cluster.run()
    cluster.send(FireTimer("1.1", 0))
    cluster.run()
    assert "TimerFired" not in cluster.facts()


@pytest.mark.case("U14")
def test_results_and_grants_that_came_in_time_win_although_everybody_was_down() -> None:
    cluster = Cluster()
    cluster.start()
    cluster.open()
    cluster.run()
    cluster.answer()
    cluster.run()
    cluster.kill()
    cluster.approve()
    cluster.clock.ms += 48 * 3_600_000
    cluster.start()
    cluster.run()
    assert "ApprovalExpired" not in cluster.facts()
    assert "ApprovalGranted" in cluster.facts()


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


def test_every_record_that_stays_names_its_batch_and_how_many_there_are() -> None:
    cluster = Cluster()
    cluster.start()
    play(cluster, cluster.run)
    counts: dict[bytes, list[int]] = {}
    topics = cluster.topics
    for topic in (topics.events, topics.outcomes, topics.activities("default")):
        for record in cluster.log.dump(topic):
            headers = dict(record.headers)
            counts.setdefault(headers["wakeful_batch"], []).append(
                int(headers["wakeful_batch_count"])
            )
    assert counts
    assert all(len(found) == found[0] for found in counts.values())
    snapshots = cluster.log.dump(topics.snapshots)  # compaction removes them, so nobody counts them
    assert snapshots
    assert not any("wakeful_batch" in dict(record.headers) for record in snapshots)


def test_a_snapshot_of_another_format_is_no_more_than_a_missing_one(tmp_path: Path) -> None:
    cluster = Cluster(folder=tmp_path)
    cluster.start()
    play(cluster, cluster.run)
    told = cluster.facts()
    cluster.kill()
    for file in tmp_path.iterdir():
        file.unlink()
    record = cluster.log.dump(cluster.topics.snapshots)[-1]
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
