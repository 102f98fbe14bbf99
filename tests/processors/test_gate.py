"""Authority is looked at before each attempt: what lost its approval is not dispatched, and people are asked again."""

from __future__ import annotations

import pytest
from pydantic import BaseModel

from tests.processors.desk import Hand, find_order, kinds
from tests.processors.policies.sets import published
from wakeful import ActivityError, Message, Needs, Retry, Turn, Write, activity, workflow
from wakeful.commands.models import ChangeArtifact, ReturnActivity
from wakeful.commands.policy import Policy
from wakeful.events import records as r
from wakeful.events.evolve import evolve
from wakeful.events.failures import UNAPPROVED
from wakeful.events.state import Status
from wakeful.processors.effects import START_BY_MS
from wakeful.processors.policies.cedar import load

SUE = (r.RoleMembers("acme", "supervisor", ("sue",)), r.RoleMembers("acme", "reviewer", ("rob",)))
BOB = (r.RoleMembers("acme", "supervisor", ("bob",)), r.RoleMembers("acme", "reviewer", ("rob",)))
FREEZE = """@id("frozen") forbid (principal, action == Action::"execute", resource == Tool::"refund")
unless { context.approved_by.contains(Actor::"acme/dora") };"""
"""What only dora's approval would let go, and she has not approved it."""
STOP = '@id("stopped") forbid (principal, action == Action::"execute", resource == Tool::"refund");'
"""What no approval would let go."""
STRICT = """@id("strict") forbid (principal, action == Action::"decide", resource == Tool::"refund")
when { context.channel == "fax" };"""

MINUTE_MS = 60_000


def policy(text: str = "", roles: tuple[r.RoleMembers, ...] = SUE) -> Policy:
    return load(published(text, roles=roles))


def granted(hand: Hand, by: str = "sue") -> list[r.EventBody]:
    """A refund was asked for and approved; what that leads to."""
    hand.handler.go_by(policy(), 7)
    hand.open()
    hand.result("1.1", 25_000)
    return hand.decide(actor=by)


def refolds(hand: Hand) -> None:
    """The history folds to what the session holds."""
    assert hand.refold().state == hand.session.state


class State(BaseModel):
    """None."""


@activity(
    contract=Write(idempotent=True),
    approval=Needs("supervisor", expires="1h"),
    schedule_to_close="10m",
    retry=Retry(attempts=5, initial="1m", factor=1),
    name="refund",
)
async def retried_refund(cents: int, *, key: str) -> str:
    """Pays back, if need be at the third try."""
    return key


@workflow("patient desk", version=1)
async def patient_desk(turn: Turn, state: State, message: Message) -> State:
    """As the desk, with a refund that is tried again."""
    cents = await turn.run(find_order.call(message.text))
    action = retried_refund.call(cents)
    await turn.approval(action)
    try:
        await turn.say(await turn.run(action))
    except ActivityError as error:
        await turn.say(error.failure.message)
    return state


PATIENT = (patient_desk, find_order, retried_refund)


def retrying() -> Hand:
    """A refund whose first attempt failed, and which rests."""
    hand = Hand(*PATIENT, workflow="patient desk")
    granted(hand)
    assert hand.failure("1.3", "nothing_done") == [hand.last(r.ActivityRetryScheduled)]
    hand.now_ms += 2 * MINUTE_MS
    return hand


def test_an_attempt_with_authority_says_which_policies_let_it_go() -> None:
    hand = Hand()
    requested = granted(hand)[1]
    assert isinstance(requested, r.ActivityRequested)
    assert requested.policy_ids == ("workflows-may-act",)
    assert requested.policy_hash == policy().set_hash
    task = hand.tasks()[-1]
    assert (task.start_by_ms, task.control_offset) == (hand.now_ms + START_BY_MS, 7)


def test_a_step_that_nobody_approves_says_nothing_of_policies_while_none_is_published() -> None:
    hand = Hand()
    hand.open()
    requested = hand.last(r.ActivityRequested)
    assert (requested.policy_ids, requested.policy_hash) == ((), None)
    assert hand.tasks()[-1].control_offset is None


def test_a_step_that_nobody_approves_may_wait_but_not_begin_by_an_older_set() -> None:
    hand = Hand()
    hand.handler.go_by(policy(), 7)
    hand.open()
    requested = hand.last(r.ActivityRequested)
    assert (bool(requested.policy_ids), requested.policy_hash) == (True, policy().set_hash)
    assert (hand.tasks()[-1].start_by_ms, hand.tasks()[-1].control_offset) == (None, 7)


def test_an_attempt_that_policy_forbids_is_withheld_and_asked_for_again() -> None:
    hand = retrying()
    old = hand.last(r.ApprovalRequested)
    hand.handler.go_by(policy(FREEZE), 8)
    facts = hand.wake()
    assert kinds(facts) == [
        "ActivityRetried",
        "ApprovalVoided",
        "ApprovalRequested",
        "SessionWaiting",
    ]
    retried, voided, again, _ = facts
    assert (retried.attempt, retried.withheld_ms) == (2, 8 * MINUTE_MS)
    assert retried.policy_ids == ("frozen",)
    told = ("refund may not be carried out: forbidden by frozen",)
    assert (voided.proposal_id, voided.reason, voided.drift) == (
        old.proposal_id,
        "authority",
        told,
    )
    assert (again.supersedes, again.activity_id) == (old.proposal_id, "1.3")
    assert (again.because, again.arguments) == (told, old.arguments)
    assert [task.attempt for task in hand.tasks()] == [1, 1]
    assert hand.session.state.status == Status.WAITING
    refolds(hand)


def test_approved_again_it_is_dispatched_with_the_time_that_was_left() -> None:
    hand = retrying()
    hand.handler.go_by(policy(FREEZE), 8)
    hand.wake()
    hand.now_ms += 20 * MINUTE_MS  # longer than it had: a parked wait runs no clock
    hand.handler.go_by(policy(), 9)
    facts = hand.decide(actor="sue")
    assert kinds(facts) == ["ApprovalGranted", "ActivityRetried"]
    assert (facts[1].attempt, facts[1].withheld_ms) == (2, None)
    assert facts[1].deadline_ms == hand.now_ms + 8 * MINUTE_MS
    task = hand.tasks()[-1]
    assert (task.attempt, task.deadline_ms) == (2, hand.now_ms + 8 * MINUTE_MS)
    assert "ReplySent" in kinds(hand.result("1.3", "paid", attempt=2))
    refolds(hand)


def test_still_forbidden_when_approved_it_is_withheld_once_more() -> None:
    hand = retrying()
    hand.handler.go_by(policy(FREEZE), 8)
    hand.wake()
    first = hand.last(r.ApprovalRequested)
    assert kinds(hand.decide(actor="sue"))[:4] == [
        "ApprovalGranted",
        "ActivityRetried",
        "ApprovalVoided",
        "ApprovalRequested",
    ]
    again = hand.last(r.ApprovalRequested)
    assert again.proposal_id != first.proposal_id
    assert [task.attempt for task in hand.tasks()] == [1, 1]
    refolds(hand)


def test_declined_it_fails_and_the_workflow_goes_on() -> None:
    hand = retrying()
    hand.handler.go_by(policy(FREEZE), 8)
    hand.wake()
    facts = hand.decide("reject", actor="sue")
    failed = facts[1]
    assert isinstance(failed, r.ActivityFailed)
    assert failed.failure.kind == UNAPPROVED
    assert failed.failure.message == "refund was not carried out: sue rejected it: fine"
    assert hand.session.state.activities == ()
    refolds(hand)


def test_nobody_decides_in_time_and_it_fails() -> None:
    hand = retrying()
    hand.handler.go_by(policy(FREEZE), 8)
    hand.wake()
    hand.now_ms = hand.last(r.ApprovalRequested).expires_at_ms
    assert kinds(hand.wake())[:2] == ["ApprovalExpired", "ActivityFailed"]
    refolds(hand)


def test_whoever_approved_and_lost_the_role_has_not_approved_the_next_attempt() -> None:
    hand = retrying()
    hand.handler.go_by(policy(roles=BOB), 8)
    hand.wake()
    (told,) = hand.last(r.ApprovalVoided).drift
    assert told == "sue has approved refund and may not any more: no policy permits it"
    assert kinds(hand.decide(actor="bob"))[:2] == ["ApprovalGranted", "ActivityRetried"]


def test_a_set_that_changes_nothing_for_the_action_leaves_its_approval() -> None:
    hand = retrying()
    hand.handler.go_by(policy('@id("x") forbid (principal, action, resource == Tool::"y");'), 8)
    (retried,) = hand.wake()
    assert (retried.withheld_ms, retried.policy_ids) == (None, ("workflows-may-act",))


def test_other_policies_that_apply_void_a_grant_that_is_not_used_yet() -> None:
    hand = retrying()
    hand.handler.go_by(policy(STRICT), 8)
    hand.wake()
    voided = hand.last(r.ApprovalVoided)
    assert (voided.reason, voided.drift) == (
        "policy_changed",
        ("the policies that apply to refund are others than when it was shown",),
    )


def test_a_decision_on_what_was_shown_under_other_policies_is_asked_for_again() -> None:
    hand = Hand()
    hand.handler.go_by(policy(), 7)
    hand.open()
    hand.result("1.1", 25_000)
    old = hand.last(r.ApprovalRequested)
    hand.handler.go_by(policy(STRICT), 8)
    facts = hand.decide(actor="sue")
    assert kinds(facts)[:3] == ["ApprovalVoided", "ApprovalRequested", "CommandRefused"]
    fresh, refused = facts[1], facts[2]
    assert (refused.check, refused.reason) == ("freshness", "policy_changed")
    assert fresh.proposal_id in refused.detail
    assert (fresh.supersedes, fresh.digest) == (old.proposal_id, old.digest)
    assert fresh.policies != old.policies
    assert kinds(hand.decide(actor="sue"))[:2] == ["ApprovalGranted", "ActivityRequested"]
    refolds(hand)


def test_what_takes_the_place_of_one_that_was_asked_again_is_asked_for_a_reason_of_its_own() -> (
    None
):
    hand = Hand(filer, from_file, workflow="filer")
    hand.handler.go_by(policy(), 7)
    hand.open()
    assert hand.last(r.ApprovalRequested).because == ()
    hand.handler.go_by(policy(STRICT), 8)
    hand.decide(actor="sue")
    assert hand.last(r.ApprovalRequested).because != ()
    hand.give(ChangeArtifact("order", "v2"), actor="crm")
    assert hand.last(r.ApprovalRequested).because == ()
    hand.handler.go_by(policy(), 9)
    hand.decide(actor="sue")
    assert hand.last(r.ApprovalRequested).because != ()
    hand.decide("edit", actor="sue", data={"cents": 4_000})
    assert hand.last(r.ApprovalRequested).because == ()
    refolds(hand)


def test_who_may_not_decide_voids_nothing() -> None:
    hand = Hand()
    hand.handler.go_by(policy(), 7)
    hand.open()
    hand.result("1.1", 25_000)
    hand.handler.go_by(policy(STRICT), 8)
    (refused,) = hand.decide(actor="eve")
    assert (refused.check, refused.reason) == ("authority", "not_permitted")


def test_what_a_worker_gives_back_unrun_is_looked_at_again() -> None:
    hand = Hand()
    granted(hand)
    hand.handler.go_by(policy(FREEZE), 8)
    facts = hand.give(ReturnActivity("1.3", 1, "authority_stale", "w1"), actor="worker:w1")
    assert kinds(facts)[:3] == ["ActivityReturned", "ApprovalVoided", "ApprovalRequested"]
    assert facts[0].withheld_ms is not None
    assert [task.attempt for task in hand.tasks()] == [1, 1]
    hand.handler.go_by(policy(), 9)
    assert kinds(hand.decide(actor="sue"))[:2] == ["ApprovalGranted", "ActivityRetried"]
    assert hand.tasks()[-1].attempt == 2
    refolds(hand)


def test_a_report_of_an_attempt_that_was_withheld_is_none() -> None:
    hand = retrying()
    hand.handler.go_by(policy(FREEZE), 8)
    hand.wake()
    out, refusal = hand.attempt(ReturnActivity("1.3", 2, "whatever", "w1"), actor="worker:w1")
    assert out == []
    assert refusal is not None
    assert refusal.reason == "unknown_activity"


def test_a_withheld_attempt_owes_nothing_to_the_clock_but_its_approval() -> None:
    hand = retrying()
    hand.handler.go_by(policy(FREEZE), 8)
    hand.wake()
    asked = hand.last(r.ApprovalRequested)
    assert hand.session.next_due() == (asked.expires_at_ms, asked.proposal_id)


def test_cancelled_while_it_is_withheld_it_is_not_said_to_be_uncertain() -> None:
    hand = Hand()
    hand.handler.go_by(policy(), 7)
    hand.open()
    hand.result("1.1", 25_000)
    hand.handler.go_by(policy(FREEZE), 8)
    hand.decide(actor="sue")
    assert hand.session.state.activities[0].withheld_ms is not None
    facts = hand.cancel()
    assert kinds(facts) == [
        "CancellationRequested",
        "ApprovalWithdrawn",
        "ActivityCancelled",
        "SessionCancelled",
    ]
    assert facts[-1].uncertain == ()
    refolds(hand)


@activity(
    contract=Write(idempotent=True), approval=Needs("supervisor", expires="9h"), name="refund"
)
async def from_file(cents: int, *, key: str) -> str:
    """Pays back."""
    return key


@workflow("filer", version=1)
async def filer(turn: Turn, state: State, message: Message) -> State:
    """Asks, dawdles, and pays from what it has read."""
    await turn.artifact("order", "v1")
    action = from_file.call(5_000)
    approval = await turn.approval(action)
    await turn.run(action)
    await turn.say(approval.decision)
    return state


def test_data_that_changed_after_the_grant_voids_it_before_the_next_attempt() -> None:
    hand = Hand(filer, from_file, workflow="filer")
    hand.handler.go_by(policy(), 7)
    hand.open()
    hand.decide(actor="sue")
    hand.give(ChangeArtifact("order", "v2"), actor="crm")
    facts = hand.give(ReturnActivity("1.3", 1, "worker stops", "w1"), actor="worker:w1")
    voided, again = facts[1], facts[2]
    assert (voided.reason, voided.drift) == (
        "artifact_changed",
        ("order was v1 and is v2 now",),
    )
    assert again.relies_on == (r.Version("order", "v2"),)
    assert kinds(hand.decide(actor="sue")) == ["ApprovalGranted", "ActivityRetried"]


@workflow("later", version=1)
async def later(turn: Turn, state: State, message: Message) -> State:
    """Waits a while between the approval and its use."""
    approval = await turn.approval(from_file.call(5_000))
    await turn.sleep("10m")
    await turn.say(await turn.run(approval.action))
    return state


@pytest.mark.case("U13")
def test_whoever_approved_and_lost_the_role_before_the_call_has_approved_nothing() -> None:
    hand = Hand(later, from_file, workflow="later")
    hand.handler.go_by(policy(), 7)
    hand.open()
    hand.decide(actor="sue")
    hand.handler.go_by(policy(roles=BOB), 8)
    hand.now_ms += 10 * MINUTE_MS
    facts = hand.wake()
    assert kinds(facts)[:4] == [
        "TimerFired",
        "ActivityRequested",
        "ApprovalVoided",
        "ApprovalRequested",
    ]
    assert hand.tasks() == []
    assert kinds(hand.decide(actor="bob")) == ["ApprovalGranted", "ActivityRetried"]
    assert len(hand.tasks()) == 1


def test_every_prefix_of_a_withheld_history_folds() -> None:
    hand = retrying()
    hand.handler.go_by(policy(FREEZE), 8)
    hand.wake()
    hand.handler.go_by(policy(), 9)
    hand.decide(actor="sue")
    state = None
    for stamped in hand.log:
        state = evolve(state, stamped.event)
    assert state == hand.session.state
