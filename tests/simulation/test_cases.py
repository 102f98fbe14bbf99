"""Faults that users of other systems reported, each as a story in the whole system."""

import pytest

from tests.simulation.story import Story
from wakeful.commands import models as m
from wakeful.deploy.simulation.projecting import ProjectorActor
from wakeful.events import records as r
from wakeful.events.codec import decode_event
from wakeful.projections.memory import Trouble

PROCESSOR_POINTS = (
    "p.polled",
    "p.begun",
    "p.offsets_sent",
    "p.produced",
    "p.commit_sent",
    "p.committed",
    "p.stored",
)
WORKER_POINTS = ("w.leased", "w.dispatched", "w.responded", "w.result_sent")


@pytest.mark.case("U1")
@pytest.mark.case("L32")
def test_a_message_to_a_parked_session_runs_after_everybody_was_killed() -> None:
    story = Story()
    story.open("think:a sleep:1")
    story.down(story.processor, *story.workers.values())
    story.send(m.SendMessage(r.Payload("json", b'{"text":"say:again"}', None, b"", 20, None)))
    story.up(story.processor, *story.workers.values())
    story.wait(3_000)
    story.run()
    assert '{"text":"again"}' in story.replies()
    story.finish()


@pytest.mark.case("U2")
@pytest.mark.case("L37")
@pytest.mark.parametrize("point", PROCESSOR_POINTS)
def test_a_shown_proposal_survives_a_kill_around_it_and_the_model_is_asked_once(point: str) -> None:
    story = Story()
    story.open("say:hello")
    story.kill_at(story.processor, point)
    story.say("bargain:x")
    story.wait(5_000 if not story.all(r.ApprovalRequested) else 100)
    shown = story.last(r.ApprovalRequested)
    story.kill_at(story.processor, point)
    story.decide("approve", shown)
    story.wait(600)
    assert [a.proposal_id for a in story.all(r.ApprovalRequested)] == [shown.proposal_id]
    assert story.last(r.ApprovalGranted).digest == shown.digest
    assert story.model_calls == 1
    assert len(story.world.downstream.effects) == 1
    story.finish()


@pytest.mark.case("U15")
@pytest.mark.case("L37")
@pytest.mark.parametrize("point", WORKER_POINTS)
def test_a_payment_is_made_once_wherever_its_worker_dies(point: str) -> None:
    story = Story()
    story.kill_at(story.worker("payments"), point)
    story.open("refund:50")
    story.wait(8_000)  # past the dead worker's session, before the deadline
    assert len(story.all(r.ActivityCompleted)) == 1
    assert list(story.world.downstream.effects) == ["acme/s1/1/1"]
    story.finish()


@pytest.mark.case("U6")
@pytest.mark.case("L35")
def test_a_hundred_unrelated_events_do_not_dispatch_a_running_step_again() -> None:
    story = Story()
    story.down(story.worker("payments"))
    story.open("refund:50")
    for number in range(100):
        story.send(m.OpenSession("player"))
        if number % 10 == 0:
            story.say("say:hi")
    story.up(story.worker("payments"))
    story.wait(8_000)
    assert len(story.all(r.ActivityRequested)) == 1
    assert story.starts("payments") == 1
    assert len(story.all(r.CommandRefused)) == 100
    story.finish()


@pytest.mark.case("U9")
def test_a_decision_before_its_proposal_is_refused_aloud() -> None:
    story = Story()
    story.send(m.OpenSession("player"))
    story.send(m.DecideApproval("1.1-0123456789abcdef", b"digest", "approve", ""))
    story.say("refund:500")
    assert story.last(r.CommandRefused).reason == "unknown_proposal"
    assert story.all(r.ApprovalGranted) == []
    story.finish()


@pytest.mark.case("U10")
def test_an_approval_is_used_once_and_a_second_answer_is_told_so() -> None:
    story = Story()
    story.open("think:a refund:500")
    shown = story.last(r.ApprovalRequested)
    story.decide("approve", shown)
    story.decide("approve", shown)
    story.decide("reject", shown)
    assert [c.reason for c in story.all(r.CommandRefused)] == ["already_decided"] * 2
    assert story.model_calls == 1
    story.say("refund:500")
    again = story.last(r.ApprovalRequested)
    assert again.proposal_id != shown.proposal_id
    assert again.digest == shown.digest
    story.decide("approve", shown)
    assert story.last(r.CommandRefused).reason == "already_decided"
    assert len(story.world.downstream.effects) == 1
    story.finish()


@pytest.mark.case("U14")
@pytest.mark.case("L38")
def test_what_was_approved_is_what_runs_though_the_model_answers_otherwise_each_time() -> None:
    story = Story(always_replay=True)
    story.open("bargain:x")
    shown = story.last(r.ApprovalRequested)
    story.down(story.processor)
    story.up(story.processor)
    story.decide("approve", shown)
    ran = [a for a in story.all(r.ActivityRequested) if a.name == "refund"]
    assert [(a.digest, a.arguments.inline) for a in ran] == [(shown.digest, shown.arguments.inline)]
    story.finish()


@pytest.mark.case("U14")
def test_an_approval_that_expired_while_all_were_down_is_expired_after_the_restart() -> None:
    story = Story()
    story.open("refund:500")
    shown = story.last(r.ApprovalRequested)
    story.down(story.processor)
    story.world.advance(4_001)
    story.send(m.DecideApproval(shown.proposal_id, shown.digest, "approve", ""))
    story.up(story.processor)
    story.run()
    assert story.all(r.ApprovalGranted) == []
    assert len(story.all(r.ApprovalExpired)) == 1
    assert story.last(r.CommandRefused).reason == "already_decided"
    story.finish()


@pytest.mark.case("U14")
def test_a_grant_appended_in_time_wins_though_it_is_read_after_the_expiry() -> None:
    story = Story()
    story.open("refund:500")
    shown = story.last(r.ApprovalRequested)
    story.down(story.processor)
    story.send(m.DecideApproval(shown.proposal_id, shown.digest, "approve", ""))
    story.world.advance(60_000)
    story.up(story.processor)
    story.run()
    assert len(story.all(r.ApprovalGranted)) == 1
    assert story.all(r.ApprovalExpired) == []
    story.finish()


@pytest.mark.case("U17")
@pytest.mark.case("L32")
def test_a_worker_that_hangs_holds_up_neither_its_session_for_ever_nor_any_other() -> None:
    story = Story()
    story.open("stuck:z say:after")
    story.open("think:a say:meanwhile", session="s2")
    assert '{"text":"meanwhile"}' in story.replies(session="s2")
    story.wait(6_100)
    assert story.replies() == ['{"text":"timed_out"}', '{"text":"after"}']
    assert story.world.counts["attempts stopped"] == 1
    story.wait(3_000)
    assert story.all(r.ActivityCompleted) + story.all(r.LateResultRecorded) == []
    story.finish()


@pytest.mark.case("U19")
def test_no_activity_timer_runs_while_a_session_waits_for_a_person() -> None:
    story = Story()
    story.open("think:a refund:500")
    story.wait(3_000)
    story.decide("approve")
    assert [f.failure.kind for f in story.all(r.ActivityFailed)] == []
    assert len(story.all(r.ActivityCompleted)) == 2
    story.finish()


@pytest.mark.case("U20")
def test_a_result_after_the_cancellation_is_recorded_and_not_applied() -> None:
    story = Story()
    story.open("stuck:z")
    story.down(story.processor)
    story.send(m.CancelSession("enough"))
    story.world.advance(8_100)
    for _ in range(10):
        story.worker(
            "default"
        ).step()  # it cannot have heard of the cancellation, and reports behind it
    story.up(story.processor)
    story.run()
    assert story.last(r.SessionCancelled).uncertain == ("1.1",)
    assert story.last(r.LateResultRecorded).activity_id == "1.1"
    assert story.all(r.ActivityCompleted) == []
    story.finish()


@pytest.mark.case("L34")
def test_250_activities_all_finish_though_their_worker_dies_and_the_database_is_away(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    refused, away = 0, False

    def trouble(_projector: ProjectorActor, _call: str) -> Trouble | None:
        nonlocal refused
        refused += away
        return Trouble.LOST if away and refused <= 40 else None

    monkeypatch.setattr(ProjectorActor, "_trouble", trouble)
    story = Story()
    payments = story.worker("payments")
    names = [f"s{number}" for number in range(250)]
    story.down(payments)
    for name in names:
        story.send(m.OpenSession("player"), session=name)
        text = r.Payload("json", b'{"text":"refund:50"}', None, b"", 20, None)
        story.send(m.SendMessage(text), session=name)
    story.run()
    story.up(payments)
    story.kill_at(payments, "w.dispatched")
    away = True
    story.wait(8_000)
    story.wait(8_000)
    assert refused > 40
    assert payments.doom == ""
    events = [
        decode_event(record.value, record.headers)
        for record in story.world.log.dump(story.world.topics.events)
    ]
    ended = [e.envelope.session_id for e in events if isinstance(e.body, r.ActivityCompleted)]
    assert sorted(ended) == sorted(names)
    assert len(story.world.downstream.effects) == 250
    story.finish()


@pytest.mark.case("L36")
def test_a_bare_decision_is_refused_while_proposals_are_open() -> None:
    story = Story()
    story.open("refund:500")
    story.open("refund:600", session="s2")
    shown = story.last(r.ApprovalRequested)
    story.send(m.DecideApproval("", shown.digest, "approve", ""))
    story.send(m.DecideApproval(shown.proposal_id, shown.digest, "approve", ""), session="s2")
    story.run()
    assert story.last(r.CommandRefused).reason == "unknown_proposal"
    assert story.last(r.CommandRefused, session="s2").reason in ("unknown_proposal", "wrong_digest")
    assert story.all(r.ApprovalGranted) + story.all(r.ApprovalGranted, session="s2") == []
    story.finish()


@pytest.mark.case("L37")
def test_five_rounds_of_approval_under_kills_do_each_effect_and_each_call_once() -> None:
    story = Story()
    story.open("say:hello")
    points = (*PROCESSOR_POINTS, "p.begun", "p.committed", "p.produced")
    for number in range(5):
        story.kill_at(story.processor, points[2 * number])
        story.say("bargain:x")
        story.wait(600)
        story.kill_at(story.processor, points[2 * number + 1])
        story.decide("approve" if number % 2 == 0 else "reject")
        story.wait(600)
    assert len(story.all(r.ApprovalRequested)) == 5
    assert story.model_calls == 5
    assert len(story.world.downstream.effects) == 3
    assert all(times == 1 for times in story.world.downstream.attempts.values())
    story.finish()


def test_a_workflow_that_exits_holds_its_session_and_no_other() -> None:
    story = Story()
    story.open("exit:now")
    story.open("say:fine", session="s2")
    assert story.last(r.SessionHeld).reason == "workflow_raised"
    assert story.replies(session="s2") == ['{"text":"fine"}']
    story.finish()


@pytest.mark.parametrize("point", PROCESSOR_POINTS)
def test_a_back_off_survives_a_kill_and_each_attempt_is_made_once(point: str) -> None:
    story = Story()
    story.open("flaky:d")
    scheduled = story.last(r.ActivityRetryScheduled)
    story.kill_at(story.processor, point)
    story.wait(1_500)
    story.wait(1_500)
    assert story.all(r.ActivityRetryScheduled)[0] == scheduled
    assert [retried.attempt for retried in story.all(r.ActivityRetried)] == [2, 3]
    assert [done.attempt for done in story.all(r.ActivityCompleted)] == [3]
    assert story.starts("default") == 3
    story.finish()


def test_a_write_whose_answer_is_lost_is_made_once_over_all_its_attempts() -> None:
    story = Story()
    story.open("ship:70")
    story.wait(1_000)
    assert story.starts("payments") == 2
    assert len(story.world.downstream.effects) == 1
    assert story.replies() == ['{"text":"receipt 1 for ship 70"}']
    story.finish()


def test_no_attempt_follows_what_is_never_retried_and_none_comes_before_the_tool_asks() -> None:
    story = Story()
    story.open("flaky:n")
    assert story.all(r.ActivityRetryScheduled) == []
    story.say("flaky:l")
    story.wait(1_500)
    at_ms = {type(event.body): event.envelope.at_ms for event in story.events()}
    assert at_ms[r.ActivityRetried] - at_ms[r.ActivityRetryScheduled] >= 1_000
    assert [done.attempt for done in story.all(r.ActivityCompleted)] == [2]
    story.finish()
