"""Given a session, when a command comes, then these facts and nothing more."""

from dataclasses import replace

import pytest

from tests.processors.desk import KEY, Hand, kinds
from wakeful.commands.models import (
    CancelSession,
    CompleteActivity,
    DecideApproval,
    OpenSession,
    ReleaseSession,
    SendMessage,
)
from wakeful.commands.next_valid import next_valid
from wakeful.events import records as r
from wakeful.events.codec import encode_state
from wakeful.events.limits import SNAPSHOT_MAX
from wakeful.events.payloads import json_payload
from wakeful.events.state import DEDUPE_MAX, DEDUPE_MS, SessionState, Status

HOUR_MS = 3_600_000


@pytest.fixture(params=[False, True], ids=["cached", "always-replay"])
def hand(request: pytest.FixtureRequest) -> Hand:
    return Hand(always_replay=request.param)


def test_a_message_starts_a_turn_that_asks_for_its_first_activity(hand: Hand) -> None:
    hand.give(OpenSession("desk"))
    assert kinds(hand.say("hello")) == ["MessageReceived", "TurnStarted", "ActivityRequested"]
    asked = hand.last(r.ActivityRequested)
    assert (asked.activity_id, asked.idempotency_key, asked.attempt) == ("1.1", "acme/s1/1/1", 1)
    assert asked.arguments.inline == b'{"text":"hello"}'
    assert hand.last(r.TurnStarted).versions == (
        r.Version("workflow", "desk:1"),
        r.Version("prompt", "7"),
    )


def test_an_action_below_the_rule_runs_without_asking(hand: Hand) -> None:
    hand.open()
    assert kinds(hand.result("1.1", 100)) == ["ActivityCompleted", "ActivityRequested"]
    assert hand.last(r.ActivityRequested).approval == "exempt"
    ended = hand.result("1.2", "k")
    assert kinds(ended) == ["ActivityCompleted", "ReplySent", "TurnCompleted"]
    assert ended[-1].state.inline == b'{"refunded_cents":100}'
    assert hand.session.state.status == Status.SUSPENDED


def test_an_action_above_the_rule_waits_and_runs_once_granted(hand: Hand) -> None:
    hand.open()
    assert kinds(hand.result("1.1", 500)) == [
        "ActivityCompleted",
        "ApprovalRequested",
        "SessionWaiting",
    ]
    assert hand.session.state.status == Status.WAITING
    assert kinds(hand.decide()) == ["ApprovalGranted", "ActivityRequested"]
    asked = hand.last(r.ActivityRequested)
    assert asked.digest == hand.last(r.ApprovalRequested).digest
    assert asked.proposal_id == hand.last(r.ApprovalRequested).proposal_id


def test_a_park_event_says_what_is_owed_and_what_may_come(hand: Hand) -> None:
    hand.open()
    parked = hand.result("1.1", 500)[-1]
    [owed] = parked.obligations
    assert (owed.kind, owed.name, owed.expiry) == ("approval", "refund", "expires")
    assert owed.expires_at_ms == hand.now_ms + HOUR_MS
    allowed = {entry.command: entry.allowed for entry in parked.next_valid}
    assert allowed == {
        "SendMessage": True,
        "DecideApproval": True,
        "CancelSession": True,
        "ReleaseSession": False,
        "SendSignal": True,
        "StartTurn": True,
        "ResolveActivity": False,
        "ChangeArtifact": False,
        "CompleteJob": False,
        "RecoverSession": False,
        "ResetSession": True,
        "PinSession": True,
    }


def test_the_end_of_a_turn_says_what_may_come_now_that_it_has_ended(hand: Hand) -> None:
    hand.open()
    hand.result("1.1", 500)
    hand.decide()
    hand.result("1.3", "r1")
    ended = hand.last(r.TurnCompleted)
    assert ended.next_valid == next_valid(hand.session.state)
    (back,) = [one for one in ended.next_valid if one.command == "ResetSession"]
    assert (back.allowed, back.reason) == (True, "to the end of turn 0, 1")


def test_a_rejection_goes_to_the_workflow_with_its_actor(hand: Hand) -> None:
    hand.open()
    hand.result("1.1", 500)
    out = hand.decide("reject", actor="sue")
    assert kinds(out) == ["ApprovalRejected", "ReplySent", "TurnCompleted"]
    assert out[1].message.inline == b'{"text":"rejected by sue"}'


@pytest.mark.case("U10")
def test_a_second_decision_changes_nothing_and_names_the_first(hand: Hand) -> None:
    hand.open()
    hand.result("1.1", 500)
    hand.decide(actor="sue")
    out = hand.decide("reject", actor="bob")
    assert kinds(out) == ["CommandRefused"]
    assert (out[0].check, out[0].reason) == ("ordering", "already_decided")
    assert "approved by sue" in out[0].detail


@pytest.mark.case("U14")
def test_a_decision_about_other_arguments_is_refused(hand: Hand) -> None:
    hand.open()
    hand.result("1.1", 500)
    asked = hand.last(r.ApprovalRequested)
    out = hand.give(DecideApproval(asked.proposal_id, b"\x00" * 32, "approve", ""))
    assert (out[0].check, out[0].reason) == ("freshness", "wrong_digest")
    assert hand.session.state.status == Status.WAITING


@pytest.mark.case("L36")
def test_a_decision_without_a_proposal_is_refused(hand: Hand) -> None:
    hand.open()
    hand.result("1.1", 500)
    asked = hand.last(r.ApprovalRequested)
    out = hand.give(DecideApproval("", asked.digest, "approve", ""))
    assert (out[0].check, out[0].reason) == ("freshness", "unknown_proposal")
    assert asked.proposal_id in out[0].detail


@pytest.mark.case("U14")
def test_an_approval_expires_by_the_logs_time_even_if_nobody_was_up(hand: Hand) -> None:
    hand.open()
    hand.result("1.1", 500)
    hand.now_ms += HOUR_MS
    out = hand.decide()
    assert kinds(out)[:3] == ["ApprovalExpired", "ReplySent", "TurnCompleted"]
    assert out[-1].reason == "already_decided"


def test_a_decision_appended_before_the_expiry_wins_however_late_it_is_read(hand: Hand) -> None:
    hand.open()
    hand.result("1.1", 500)
    hand.now_ms += HOUR_MS - 1
    assert kinds(hand.decide()) == ["ApprovalGranted", "ActivityRequested"]


def test_a_repeat_of_a_command_gives_no_fact(hand: Hand) -> None:
    hand.give(OpenSession("desk"), command_id="open")
    message = SendMessage(json_payload({"text": "hi"}, KEY))
    assert hand.give(message, command_id="m1")
    hand.now_ms += 1_000
    assert hand.give(message, command_id="m1", issued_ms=hand.now_ms - 1_000) == []
    assert hand.give(OpenSession("desk"), command_id="open") == []


def test_an_id_used_for_another_command_is_refused(hand: Hand) -> None:
    hand.give(OpenSession("desk"))
    hand.give(SendMessage(json_payload({"text": "hi"}, KEY)), command_id="m1")
    out = hand.give(SendMessage(json_payload({"text": "ho"}, KEY)), command_id="m1")
    assert (out[0].check, out[0].reason) == ("ordering", "command_id_reused")


def test_dedupe_is_bounded_and_what_it_forgot_is_refused_not_applied(hand: Hand) -> None:
    hand.give(OpenSession("desk"))
    message = SendMessage(json_payload({"text": "hi"}, KEY))
    first_ms = hand.now_ms
    hand.give(message, command_id="first")
    for number in range(DEDUPE_MAX + 5):
        hand.now_ms += 1
        hand.give(message, command_id=f"m{number}")
    assert len(hand.session.head.dedupe) <= DEDUPE_MAX
    out = hand.give(message, command_id="first", issued_ms=first_ms)
    assert (out[0].check, out[0].reason) == ("ordering", "too_old")


def test_a_command_older_than_the_window_is_refused(hand: Hand) -> None:
    hand.give(OpenSession("desk"))
    out = hand.give(CancelSession(""), issued_ms=hand.now_ms - DEDUPE_MS - 1)
    assert out[0].reason == "too_old"


def test_a_command_from_the_future_is_refused(hand: Hand) -> None:
    hand.give(OpenSession("desk"))
    out = hand.give(CancelSession(""), issued_ms=hand.now_ms + HOUR_MS)
    assert out[0].reason == "issued_in_future"


def test_an_expected_version_that_is_not_current_is_refused(hand: Hand) -> None:
    hand.open()
    out = hand.give(CancelSession(""), expected_seq=1)
    assert out[0].reason == "stale_state"
    assert (
        kinds(hand.give(CancelSession(""), expected_seq=hand.session.head.seq))[-1]
        == "SessionCancelled"
    )


def test_an_unknown_session_is_refused_without_a_trace(hand: Hand) -> None:
    out, refusal = hand.attempt(SendMessage(json_payload({"text": "hi"}, KEY)))
    assert out == []
    assert refusal is not None
    assert (refusal.check, refusal.reason) == ("scope", "unknown_session")


def test_an_unknown_workflow_is_refused_and_the_loaded_ones_are_named(hand: Hand) -> None:
    out, refusal = hand.attempt(OpenSession("dask"))
    assert out == []
    assert refusal is not None
    assert "desk" in refusal.detail


def test_messages_in_a_running_turn_queue_and_start_the_next_ones_in_order(hand: Hand) -> None:
    hand.open()
    assert kinds(hand.say("second")) == ["MessageReceived"]
    assert kinds(hand.say("third")) == ["MessageReceived"]
    hand.result("1.1", 10)
    out = hand.result("1.2", "k")
    assert kinds(out) == [
        "ActivityCompleted",
        "ReplySent",
        "TurnCompleted",
        "TurnStarted",
        "ActivityRequested",
    ]
    assert out[-1].arguments.inline == b'{"text":"second"}'
    assert len(hand.session.state.queue) == 1


def test_completion_ends_the_session_and_says_what_was_not_read(hand: Hand) -> None:
    hand.open(last=True)
    hand.say("too late")
    hand.result("1.1", 10)
    out = hand.result("1.2", "k")
    assert kinds(out) == ["ActivityCompleted", "ReplySent", "SessionCompleted"]
    assert (out[-1].messages_unread, out[-1].verified_by) == (1, None)
    after = hand.say("hello?")
    assert (after[0].check, after[0].reason) == ("freshness", "session_ended")


@pytest.mark.case("U6")
def test_other_events_never_dispatch_a_running_activity_again(hand: Hand) -> None:
    hand.open()
    for number in range(100):
        assert "ActivityRequested" not in kinds(hand.say(f"more {number}"))
        assert hand.wake() == []


def test_the_same_result_again_is_a_repeat_and_another_one_is_late(hand: Hand) -> None:
    hand.open()
    hand.result("1.1", 10)
    assert hand.result("1.1", 10) == []
    out = hand.result("1.1", 11)
    assert kinds(out) == ["LateResultRecorded"]


@pytest.mark.case("U20")
def test_a_result_after_the_cancellation_is_recorded_and_changes_nothing(hand: Hand) -> None:
    hand.open()
    out = hand.cancel()
    assert kinds(out) == ["CancellationRequested", "ActivityCancelled", "SessionCancelled"]
    assert out[-1].uncertain == ("1.1",)
    assert kinds(hand.result("1.1", 10)) == ["LateResultRecorded"]
    assert hand.session.state.status == Status.CANCELLED
    assert hand.cancel()[0].reason == "session_ended"


def test_a_result_for_what_never_ran_leaves_no_event(hand: Hand) -> None:
    hand.open()
    for activity_id in ("1.9", "2.1", "x", "1.0", "-1.1", ""):
        body = CompleteActivity(activity_id, 1, json_payload(1, KEY), "w")
        out, refusal = hand.attempt(body)
        assert out == []
        assert refusal is not None
        assert refusal.reason == "unknown_activity"
    out, refusal = hand.attempt(CompleteActivity("1.1", 2, json_payload(1, KEY), "w"))
    assert out == []
    assert refusal is not None


def test_an_activity_past_its_deadline_fails_and_its_result_is_late(hand: Hand) -> None:
    hand.workflow = "stubborn"
    hand.open()
    hand.now_ms += 5 * 60_000
    out = hand.result("1.1", 10)
    assert kinds(out) == ["ActivityFailed", "ReplySent", "TurnCompleted", "LateResultRecorded"]
    assert out[0].failure.kind == "timed_out"


def test_a_result_appended_before_the_deadline_counts(hand: Hand) -> None:
    hand.open()
    hand.now_ms += 5 * 60_000 - 1
    assert kinds(hand.result("1.1", 10))[0] == "ActivityCompleted"


@pytest.mark.case("U19")
def test_no_activity_clock_runs_while_a_person_decides(hand: Hand) -> None:
    hand.open()
    hand.result("1.1", 500)
    hand.now_ms += HOUR_MS - 1
    assert hand.wake() == []
    assert kinds(hand.decide()) == ["ApprovalGranted", "ActivityRequested"]


def test_a_failure_the_workflow_does_not_handle_ends_the_session(hand: Hand) -> None:
    hand.open()
    out = hand.failure("1.1")
    assert kinds(out) == ["ActivityFailed", "SessionFailed"]
    assert out[-1].failure.message == "no such order"


def test_a_sleep_ends_by_the_logs_time_and_ids_are_the_same_in_every_replay(hand: Hand) -> None:
    hand.workflow = "sleeper"
    hand.open()
    assert kinds([s.event.body for s in hand.log][-2:]) == ["TimerSet", "SessionWaiting"]
    assert hand.wake() == []
    hand.now_ms += 10 * 60_000
    out = hand.wake()
    assert kinds(out) == ["TimerFired", "ReplySent", "TurnCompleted"]
    assert b'"slept":600.0' in out[1].message.inline
    other = Hand(workflow="sleeper", always_replay=not hand.always_replay)
    other.open()
    other.now_ms += 10 * 60_000
    assert other.wake()[1].message == out[1].message


def test_the_logs_time_never_goes_back(hand: Hand) -> None:
    hand.open()
    hand.now_ms -= 60_000
    hand.say("from a broker whose clock was set back")
    times = [s.event.envelope.at_ms for s in hand.log]
    assert times == sorted(times)


def test_a_command_that_was_disposed_of_is_skipped_when_offsets_go_back(hand: Hand) -> None:
    hand.open()
    hand.result("1.1", 500)
    hand.decide()
    hand.offset -= 3
    assert hand.decide("reject") == []


def test_every_event_continues_the_chain_and_a_refold_gives_the_same_state(hand: Hand) -> None:
    hand.open()
    hand.result("1.1", 500)
    hand.decide()
    hand.result("1.2", "late, wrong step")
    hand.result("1.3", "k")
    hand.say("again")
    again = hand.refold()
    assert again.head == hand.session.head
    assert again.state == hand.session.state
    assert [e.body for e in again.journal] == [e.body for e in hand.session.journal]
    assert [s.event.envelope.seq for s in hand.log] == list(range(1, len(hand.log) + 1))


def test_a_release_of_a_session_that_is_not_held_is_refused(hand: Hand) -> None:
    hand.open()
    assert hand.give(ReleaseSession(""))[0].reason == "not_held"


def test_a_decision_word_that_is_none_is_refused(hand: Hand) -> None:
    hand.open()
    hand.result("1.1", 500)
    asked = hand.last(r.ApprovalRequested)
    out = hand.give(DecideApproval(asked.proposal_id, asked.digest, "perhaps", ""))
    assert out[0].reason == "unknown_decision"


def test_a_payload_over_the_limit_in_the_log_is_refused(hand: Hand) -> None:
    hand.give(OpenSession("desk"))
    small = json_payload("x", KEY)
    large = replace(small, inline=b'"' + b"x" * 300_000 + b'"', size=300_002)
    out = hand.give(SendMessage(large))
    assert out[0].reason == "payload_too_large"


def test_a_flood_of_messages_is_refused_before_a_state_outgrows_its_snapshot(hand: Hand) -> None:
    hand.open()
    large = SendMessage(json_payload({"text": "x" * 200_000}, KEY))
    out: list[r.EventBody] = []
    for _ in range(30):
        hand.now_ms += 1
        out = hand.give(large)
    assert (out[0].check, out[0].reason) == ("freshness", "queue_full")
    assert len(encode_state(SessionState(hand.session.head, hand.session.state))) < SNAPSHOT_MAX
