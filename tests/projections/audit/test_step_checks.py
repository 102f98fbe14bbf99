"""Faults planted in activities, timers and approvals: each is found by the check that is for it."""

from dataclasses import replace

import pytest

from wakeful.commands import models as m
from wakeful.events import records as r

from .tampering import on

S = ("acme", "s1")
DIGEST = b"\1" * 32


# 13, 14, 15, 16: activities


def test_13_a_request_that_no_worker_was_told_of_is_found(begin, found):
    chronicle = begin().story()
    assert 13 in found(chronicle.evidence(activities=chronicle.tasks[:1]))


def test_13_a_task_that_nobody_asked_for_or_was_told_twice_is_found(begin, found):
    chronicle = begin().story()
    again = replace(chronicle.tasks[0], offset=99, headers=chronicle.tasks[0].headers[:-2])
    assert found(chronicle.evidence(activities=[*chronicle.tasks, again])) == {13}


def test_13_a_task_in_another_queue_is_found(begin, found):
    chronicle = begin().story()
    first, *rest = chronicle.tasks
    assert found(
        chronicle.evidence(activities=[replace(first, topic="test.activities.mail.v1"), *rest])
    ) == {13}


def test_13_an_event_that_the_world_does_not_hear_of_is_found(begin, found):
    chronicle = begin().story()
    silent = [x for x in chronicle.outcomes if x is not chronicle.outcomes[1]]
    assert 13 in found(chronicle.evidence(outcomes=silent))


def test_14_a_second_outcome_of_an_activity_is_found(begin, found):
    chronicle = begin(on(r.ActivityCompleted, lambda body: [body, body])).story()
    assert 14 in found(chronicle.evidence())


def test_14_an_outcome_of_what_was_never_requested_is_found(begin, found):
    chronicle = begin(
        on(r.ActivityCompleted, lambda body: [replace(body, activity_id="1.7")])
    ).story()
    assert 14 in found(chronicle.evidence())


def test_14_an_ended_session_with_an_activity_that_has_no_outcome_is_found(begin, found):
    chronicle = begin(on(r.ActivityFailed, lambda _: [])).story()
    assert 14 in found(chronicle.evidence())


def test_15_an_outcome_of_another_attempt_is_found(begin, found):
    chronicle = begin(on(r.ActivityCompleted, lambda body: [replace(body, attempt=2)])).story()
    assert 15 in found(chronicle.evidence())


def test_15_a_result_put_aside_that_was_awaited_is_found(begin, found):
    def late(body):
        return [
            r.LateResultRecorded(body.activity_id, 1, "completed", body.result, None, "w1"),
            body,
        ]

    assert 15 in found(begin(on(r.ActivityCompleted, late)).story().evidence())


def test_16_a_key_that_is_not_the_steps_own_is_found(begin, found):
    chronicle = begin(
        on(r.ActivityRequested, lambda body: [replace(body, idempotency_key="acme/s1/1/1")])
    ).story()
    assert found(chronicle.evidence()) == {16}


# 21, 23, 24, 26: waits


def test_21_a_timer_that_fires_early_twice_or_unset_is_found(begin, found):
    assert 21 in found(
        begin(on(r.TimerSet, lambda body: [replace(body, due_ms=1 << 60)])).story().evidence()
    )
    assert 21 in found(begin(on(r.TimerFired, lambda body: [body, body])).story().evidence())
    assert 21 in found(begin(on(r.TimerSet, lambda _: [])).story().evidence())


def test_21_an_expiry_or_time_out_before_its_time_is_found(begin, found):
    expired = begin(
        on(r.ApprovalGranted, lambda body: [r.ApprovalExpired(body.proposal_id)])
    ).story()
    assert 21 in found(expired.evidence())
    timed_out = r.Failure("timed_out", "schedule_to_close", "m", "")
    early = begin(
        on(r.ActivityFailed, lambda body: [replace(body, failure=timed_out, worker="")])
    ).story()
    assert found(early.evidence()) == {21}


def test_23_a_proposal_decided_twice_is_found(begin, found):
    chronicle = begin(
        on(r.ApprovalGranted, lambda body: [body, r.ApprovalRejected(body.proposal_id, DIGEST, "")])
    )
    assert 23 in found(chronicle.story().evidence())


def test_23_a_decision_about_nothing_is_found(begin, found):
    chronicle = begin(
        on(r.ApprovalGranted, lambda body: [body, replace(body, proposal_id="1.9-x")])
    ).story()
    assert 23 in found(chronicle.evidence())


def test_23_a_proposal_that_outlives_its_turn_is_found(begin, found):
    def asks_at_the_end(body):
        what = ("refund", "write", body.state, DIGEST, "boss")
        return [r.ApprovalRequested("1.9-x", 1, 9, *what, 1 << 60), body]

    assert 23 in found(begin(on(r.TurnCompleted, asks_at_the_end)).story().evidence())


def test_24_a_decision_that_names_another_digest_is_found(begin, found):
    chronicle = begin(
        on(r.ApprovalGranted, lambda body: [replace(body, digest=b"\3" * 32)])
    ).story()
    assert found(chronicle.evidence()) == {24}


def test_24_an_action_that_is_not_the_approved_one_is_found(begin, found):
    def swap(body):
        return [replace(body, digest=b"\3" * 32)] if body.proposal_id else [body]

    assert found(begin(on(r.ActivityRequested, swap)).story().evidence()) == {24}


def test_24_a_grant_of_what_is_made_from_old_data_is_found(begin, found):
    relied = (r.Version("order", "v1"),)

    def relies(body):
        known = [r.ArtifactRecorded(1, body.step, "order", "v2"), replace(body, relies_on=relied)]
        return [*known]

    assert 24 in found(begin(on(r.ApprovalRequested, relies)).story().evidence())


def test_25_a_grant_by_fewer_than_must_or_by_whom_it_is_for_is_found(begin, found):
    few = begin(on(r.ApprovalRequested, lambda body: [replace(body, quorum=2)])).story()
    assert found(few.evidence()) == {25}
    own = begin(on(r.ApprovalRequested, lambda body: [replace(body, requester="boss")])).story()
    assert found(own.evidence()) == {25}


def test_25_a_vote_that_is_counted_twice_or_one_too_many_is_found(begin, found):
    asks = on(r.ApprovalRequested, lambda body: [replace(body, quorum=2)])
    twice = begin(
        lambda body: (
            [r.ApprovalVoted(body.proposal_id, DIGEST, ""), body]
            if isinstance(body, r.ApprovalGranted)
            else asks(body)
        )
    ).story()
    assert found(twice.evidence()) == {25}
    many = begin(
        on(r.ApprovalGranted, lambda body: [r.ApprovalVoted(body.proposal_id, DIGEST, ""), body])
    ).story()
    assert found(many.evidence()) == {25}


def test_23_a_proposal_in_the_place_of_one_that_stands_is_found(begin, found):
    def renew(body):
        return [body, replace(body, proposal_id="1.2.2-p", supersedes=body.proposal_id)]

    assert 23 in found(begin(on(r.ApprovalRequested, renew)).story().evidence())


@pytest.mark.parametrize(
    "instead",
    [
        lambda body: [r.ApprovalRejected(body.proposal_id, DIGEST, "")],
        lambda _: [],
    ],
)
def test_26_an_action_that_runs_without_its_grant_is_found(begin, found, instead):
    assert 26 in found(begin(on(r.ApprovalGranted, instead)).story().evidence())


def test_26_a_proposed_action_that_runs_as_if_ungated_is_found(begin, found):
    def ungate(body):
        return [replace(body, approval="none", proposal_id=None)] if body.proposal_id else [body]

    assert found(begin(on(r.ActivityRequested, ungate)).story().evidence()) == {26}


def test_26_a_grant_that_is_used_twice_or_came_too_late_is_found(begin, found):
    def again(body):
        other = replace(body, activity_id="1.8", step=8, idempotency_key="acme/s1/1/8")
        return [body, other] if body.proposal_id else [body]

    assert 26 in found(begin(on(r.ActivityRequested, again)).story().evidence())
    late = begin(on(r.ApprovalRequested, lambda body: [replace(body, expires_at_ms=1)])).story()
    assert found(late.evidence()) == {26}


def test_26_a_grant_kept_while_held_counts_from_when_it_came(begin, found):
    chronicle = begin()
    say, scribe = chronicle.scribe.payload, chronicle.scribe
    chronicle.fact(chronicle.ask(m.OpenSession("desk")), r.SessionOpened("desk"))
    cause = chronicle.ask(m.SendMessage(say(1)), command_id="m1")
    asked = r.ApprovalRequested(
        "1.1-p", 1, 1, "refund", "write", say(2), DIGEST, "boss", scribe.now_ms + 100
    )
    chronicle.fact(
        cause,
        r.MessageReceived("m1", say(1)),
        r.TurnStarted(1, "message", "", "m1", "desk", 1, ()),
        asked,
        r.SessionHeld("x", "y"),
    )
    kept = chronicle.ask(m.DecideApproval("1.1-p", DIGEST, "approve", ""))
    chronicle.fact(kept, r.CommandParked("DecideApproval", b"\0" * 8, b"x"))
    scribe.now_ms += 1_000
    chronicle.fact(chronicle.ask(m.ReleaseSession("ok")), r.SessionReleased("ok"))
    chronicle.fact(kept, r.ApprovalGranted("1.1-p", DIGEST, ""))
    assert found(chronicle.evidence(quiescent=False)) == set()
