"""The same kind of stories about contracts, signs of life, signals and stretches."""

from collections.abc import Callable

import pytest

from tests.simulation.story import Story
from wakeful.commands import models as m
from wakeful.deploy.simulation.planting import plant
from wakeful.events import records as r
from wakeful.events.failures import HEARTBEAT
from wakeful.events.payloads import json_payload
from wakeful.processors.activities.attempt import Run
from wakeful.processors.activities.jobs import Job
from wakeful.processors.simulation import worker as simulated
from wakeful.processors.simulation.actors import DIGEST_KEY
from wakeful.processors.simulation.downstream import Bank
from wakeful.processors.simulation.worker import WorkerActor

WORKER_POINTS = ("w.leased", "w.begun", "w.dispatched", "w.waits", "w.looked_up", "w.responded")


def signal(name: str, data: object = "now") -> m.SendSignal:
    return m.SendSignal(name, json_payload(data, DIGEST_KEY))


def bank(story: Story) -> Bank:
    return story.world.downstream.bank


def charged(story: Story) -> list[int]:
    return [len(charges) for charges in bank(story).charges.values() if charges]


@pytest.mark.case("U15")
def test_a_charge_whose_answer_is_lost_is_looked_up_and_not_made_again() -> None:
    story = Story()
    story.open("charge:l")
    story.wait(2_000)
    assert charged(story) == [1]
    assert story.last(r.ActivityCompleted).recovered
    assert story.replies() == ['{"text":"charge 1"}']
    story.finish()


@pytest.mark.case("U15")
@pytest.mark.case("L37")
@pytest.mark.parametrize("mood", ["k", "l", "d", "f"])
@pytest.mark.parametrize("point", WORKER_POINTS)
def test_a_charge_is_made_once_wherever_its_worker_dies(point: str, mood: str) -> None:
    story = Story()
    story.kill_at(story.worker("payments"), point)
    story.open(f"charge:{mood}")
    for _ in range(18):
        story.wait(500)
    assert charged(story) == [1]
    assert len(story.all(r.ActivityCompleted)) == 1
    story.finish()


@pytest.mark.case("U15")
def test_a_worker_that_was_stopped_for_longer_than_its_session_does_not_charge_again() -> None:
    story = Story(workers=2)
    story.open("pay:30")
    story.wait(3_000)
    story.send(m.SendMessage(json_payload({"text": "charge:k"}, DIGEST_KEY)))
    workers = [w for w in story.world.workers if w.queue == "payments"]
    for _ in range(60):
        story.processor.step()
    for _ in range(20):
        for worker in workers:
            worker.step()
            if worker._waiting and not worker.sleeps:
                worker.freeze(5_000)  # between the task and the call
    assert sum(worker.sleeps for worker in workers) == 1
    story.wait(3_000)
    story.wait(5_000)
    assert charged(story) == [1]
    assert len(story.all(r.ActivityRequested)) == 2
    story.finish()


@pytest.mark.case("U15")
def test_a_worker_that_was_stopped_between_its_look_and_its_call_looks_again() -> None:
    story = Story(workers=2)
    story.open("pay:30")
    story.wait(3_000)
    story.send(m.SendMessage(json_payload({"text": "charge:k"}, DIGEST_KEY)))
    workers = [w for w in story.world.workers if w.queue == "payments"]
    for _ in range(60):
        story.processor.step()
    while not (taken := [worker for worker in workers if worker._waiting]):
        for worker in workers:
            worker.step()
    taken[0].kill(after_ms=10)
    for _ in range(400):
        story.world.advance(25)
        for worker in workers:
            worker.step()
        if found_nothing := [worker for worker in workers if calls_next(worker)]:
            break
    found_nothing[0].freeze(5_000)
    story.wait(3_000)
    assert charged(story) == [1], "by the other one"
    story.wait(3_000)
    story.wait(3_000)
    assert charged(story) == [1]
    story.finish()


def calls_next(worker: WorkerActor) -> bool:
    """Whether it has made sure, and is about to call."""
    return any(isinstance(r.step, Run) and not r.job.begun for r in worker._running)


@pytest.mark.case("U15")
@pytest.mark.parametrize("point", ["w.leased", "w.begun"])
def test_a_wire_that_is_lost_with_its_worker_is_uncertain_and_a_person_ends_it(point: str) -> None:
    story = Story()
    story.kill_at(story.worker("payments"), point)
    story.open("wire:k")
    story.wait(5_100)
    assert story.last(r.ActivityUncertain).activity_id == "1.1"
    assert bank(story).calls == {}
    for _ in range(2):
        story.send(m.ResolveActivity("1.1", "failed", None, "it is not in the books"))
    story.run()
    assert story.replies() == ['{"text":"not_done"}']
    assert [c.reason for c in story.all(r.CommandRefused)] == ["already_settled"]
    story.finish()


@pytest.mark.case("L37")
@pytest.mark.parametrize("point", WORKER_POINTS)
def test_five_transfers_under_kills_are_each_done_once_or_undone(point: str) -> None:
    story = Story()
    story.open("say:hello")
    for _ in range(5):
        story.kill_at(story.worker("payments"), point)
        story.say("transfer:l")
        story.wait(8_000)
    assert len(story.all(r.ActivityUncertain)) == 5
    assert len(bank(story).taken_back) == 5
    assert all(times == 1 for times in bank(story).calls.values())
    assert story.replies()[1:] == ['{"text":"undone"}'] * 5
    story.finish()


@pytest.mark.case("U9")
def test_a_signal_before_its_wait_is_delivered_when_somebody_waits() -> None:
    story = Story()
    story.open("say:hello")
    story.send(signal("nobody-asks-for-this"))
    story.send(signal("go", "first"))
    story.send(signal("go", "second"))
    story.say("await:go")
    assert story.replies()[-1] == '{"text":"first"}'
    story.say("await:go await:go")
    assert story.replies()[-1] == '{"text":"second"}'
    story.send(signal("go", "third"))
    story.run()
    assert story.replies()[-1] == '{"text":"third"}'
    assert len(story.all(r.SignalReceived)) == 4
    assert len(story.all(r.SignalDelivered)) == 3
    story.finish()


@pytest.mark.case("U17")
@pytest.mark.case("L32")
def test_a_worker_that_falls_silent_loses_its_attempt_and_holds_up_nobody() -> None:
    story = Story()
    story.open("crunch:silent")
    story.open("think:a", session="s2")
    assert len(story.replies(session="s2")) == 1
    story.wait(1_100)
    story.wait(200)
    assert story.last(r.ActivityRetryScheduled).failure.type == HEARTBEAT
    assert [retried.attempt for retried in story.all(r.ActivityRetried)] == [2]
    story.say("say:still here", session="s2")
    story.finish()


@pytest.mark.case("U19")
def test_an_attempt_that_queues_for_longer_than_its_heartbeat_is_not_silent() -> None:
    story = Story()
    story.down(story.worker("default"))
    story.open("crunch:steady")
    story.wait(6_000)
    assert story.all(r.ActivityRetryScheduled) == []
    story.up(story.worker("default"))
    story.run()
    for _ in range(10):
        story.wait(300)
    assert [done.attempt for done in story.all(r.ActivityCompleted)] == [1]
    story.finish()


@pytest.mark.case("U19")
def test_a_second_attempt_that_hangs_is_ended_by_its_own_silence() -> None:
    story = Story()
    story.open("crunch:silent")
    story.wait(1_100)
    for _ in range(3):
        story.wait(100)
    since_ms = story.world.clock.ms
    first = story.all(r.ActivityRetryScheduled)
    story.wait(1_100)
    story.wait(100)
    silences = story.all(r.ActivityRetryScheduled)
    assert [each.attempt for each in first] == [2]
    assert [each.attempt for each in silences] == [2, 3]
    assert silences[1].due_ms > since_ms
    story.finish()


@pytest.mark.case("U20")
def test_a_cancelled_attempt_stops_at_its_worker_and_leaves_no_result() -> None:
    story = Story()
    story.open("crunch:steady")
    story.send(m.CancelSession("enough"))
    story.run()
    story.wait(3_000)
    assert story.world.counts["attempts stopped"] == 1
    assert story.last(r.SessionCancelled).uncertain == ("1.1",)
    assert story.all(r.ActivityCompleted) + story.all(r.LateResultRecorded) == []
    story.finish()


@pytest.mark.case("U6")
@pytest.mark.case("L35")
def test_fifty_starts_under_one_id_are_one_session_and_one_turn() -> None:
    story = Story()
    start = m.StartTurn("cron", "noon", json_payload({"text": "charge:k"}, DIGEST_KEY))
    for _ in range(50):
        story.send(m.OpenSession("player"), command_id="open")
        story.send(start, command_id="noon")
    story.run()
    story.wait(1_000)
    assert len(story.all(r.SessionOpened)) == len(story.all(r.TurnStarted)) == 1
    assert charged(story) == [1]
    story.finish()


@pytest.mark.case("L29")
def test_signals_and_results_at_once_replay_as_they_ran() -> None:
    logs = []
    for always_replay in (False, True):
        story = Story(always_replay=always_replay)
        story.open("crunch:half signal:go both await:stop")
        for name in ("stop", "go", "go", "stop"):
            story.send(signal(name))
            story.wait(300)
        for _ in range(8):
            story.wait(500)
        story.decide("approve")
        logs.append([(e.envelope.seq, e.envelope.at_ms, e.body) for e in story.events()])
        story.finish()
    assert logs[0] == logs[1]
    assert story.all(r.NondeterminismFound) == []


@pytest.mark.case("U11")
def test_a_turn_of_many_stretches_grows_by_the_same_each_time() -> None:
    story = Story()
    story.open("again:60")
    for _ in range(60):
        story.wait(100)
    continued = [e for e in story.events() if isinstance(e.body, r.TurnContinued)]
    assert len(continued) == 60
    sizes = [
        len(record.value or b"")
        for record in story.world.log.dump(story.world.topics.events)
        if len(record.value or b"") > 0
    ]
    half = len(sizes) // 2
    assert sum(sizes[half:]) < 1.1 * sum(sizes[:half])
    story.finish()


def test_what_may_run_once_and_has_not_begun_is_given_back_by_a_worker_that_stops() -> None:
    story = Story()
    story.open("pay:30")
    worker = story.worker("payments")
    story.send(m.SendMessage(json_payload({"text": "wire:k"}, DIGEST_KEY)))
    for _ in range(60):
        story.processor.step()
    while not worker._waiting:
        worker.step()
    worker.stop()
    for _ in range(12):
        story.wait(500)
    assert len(story.all(r.ActivityReturned)) == 1
    assert [done.attempt for done in story.all(r.ActivityCompleted)] == [1, 2]
    assert charged(story) == [1]
    story.finish()


@pytest.mark.parametrize(
    "story",
    [
        test_a_worker_that_was_stopped_for_longer_than_its_session_does_not_charge_again,
        test_a_worker_that_was_stopped_between_its_look_and_its_call_looks_again,
    ],
)
def test_the_stories_of_the_stopped_worker_die_where_it_calls_as_if_nothing_had_happened(
    story: Callable[[], None],
) -> None:
    blind = plant(
        (WorkerActor, "_is_stale", lambda _self, _job: False),
        (Job, "is_lost", property(lambda _self: False)),
    )
    with blind(), pytest.raises(AssertionError):
        story()


def test_a_worker_that_does_not_make_sure_just_before_its_call_charges_twice() -> None:
    unsure = plant((simulated, "make_sure", lambda *_, **__: None))
    with unsure(), pytest.raises(AssertionError, match=r"\[2\] == \[1\]"):
        test_a_worker_that_was_stopped_between_its_look_and_its_call_looks_again()
