"""The loop loses nothing and doubles nothing, wherever it stops; one bad record or session stops nobody else."""

from pathlib import Path

import pytest

from tests.processors.desk import KEY
from tests.processors.loops import Cluster, play
from wakeful.commands.models import FireTimer, OpenSession, SendMessage
from wakeful.events.log.memory_faults import Fate, NoFaults
from wakeful.events.payloads import json_payload
from wakeful.processors.loop import GATHER_MS, LoopFailed

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


def test_a_record_that_is_copied_to_another_partition_opens_no_second_session_there() -> None:
    cluster = Cluster(partitions=2)
    cluster.start()
    cluster.open("s1", last=True)
    cluster.run()
    cluster.answer()
    cluster.run()
    story, tasks = cluster.facts(), len(cluster.tasks())
    asked = [one for one in cluster.log.dump(cluster.topics.commands) if one.key == b"acme/s1"]
    assert len(asked) > 2
    (own,) = {one.partition for one in asked}
    for one in asked:
        cluster.producer.produce(
            cluster.topics.commands,
            key=one.key,
            value=one.value,
            headers=one.headers,
            partition=1 - own,
        )
    cluster.producer.flush(1_000)
    cluster.run()
    assert (cluster.facts(), len(cluster.tasks())) == (story, tasks)
    assert {letter.reason for letter in cluster.dead()} == {"wrong_partition"}
    assert {one.partition for one in cluster.log.dump(cluster.topics.outcomes)} <= {own}


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


def test_only_a_busy_loop_pauses_to_gather_commands() -> None:
    pauses: list[int] = []
    cluster = Cluster()
    cluster.start()
    cluster.loops[0]._pause = pauses.append
    cluster.open()
    cluster.run()
    assert pauses == []
    for number in range(6):
        cluster.open(f"b{number}")
    cluster.run()
    assert pauses == [GATHER_MS]
