"""What policy forbids whoever approves it: nobody is asked, and the activity ends as forbidden."""

from __future__ import annotations

import pytest
from pydantic import BaseModel

from tests.processors.desk import Hand, kinds
from tests.processors.policies.sets import published
from tests.processors.test_gate import (
    FREEZE,
    MINUTE_MS,
    PATIENT,
    STOP,
    granted,
    policy,
    refolds,
    retrying,
)
from wakeful import ActivityError, Message, Retry, Turn, Uncertain, Write, activity, workflow
from wakeful.commands.models import ReturnActivity
from wakeful.events import records as r
from wakeful.events.failures import FORBIDDEN, TAKEN_OVER
from wakeful.events.state import HASH_SHOWN, NEVER_MS
from wakeful.processors.policies.cedar import load
from wakeful.testing import rehearse

WITHOUT_PERMIT = '@id("approve") permit (principal, action == Action::"decide", resource);'


def why(text: str = STOP, by: str = "stopped") -> str:
    hashed = policy(text).set_hash
    return (
        f"refund was not carried out: forbidden by {by} "
        f"(policy set {(hashed or b'').hex()[:HASH_SHOWN]}), whoever approves it"
    )


def test_an_attempt_that_no_approval_would_let_go_ends_as_forbidden_and_nobody_is_asked() -> None:
    hand = retrying()
    old = hand.last(r.ApprovalRequested)
    hand.handler.go_by(policy(STOP), 8)
    facts = hand.wake()
    assert kinds(facts) == [
        "ActivityRetried",
        "ApprovalVoided",
        "ActivityFailed",
        "ReplySent",
        "TurnCompleted",
    ]
    retried, voided, failed = facts[:3]
    assert (retried.withheld_ms, retried.policy_ids) == (NEVER_MS, ("stopped",))
    assert retried.policy_hash == policy(STOP).set_hash
    assert (voided.proposal_id, voided.reason) == (old.proposal_id, "authority")
    assert voided.drift == ("refund may not be carried out: forbidden by stopped",)
    assert (failed.failure.kind, failed.failure.message) == (FORBIDDEN, why())
    assert hand.last(r.ApprovalRequested) is old
    assert [task.attempt for task in hand.tasks()] == [1, 1]
    refolds(hand)


def test_approved_and_forbidden_before_its_first_attempt_it_ends_at_once() -> None:
    hand = Hand()
    hand.handler.go_by(policy(), 7)
    hand.open()
    hand.result("1.1", 25_000)
    hand.handler.go_by(policy(STOP), 8)
    facts = hand.decide(actor="sue")
    assert kinds(facts)[:4] == [
        "ApprovalGranted",
        "ActivityRequested",
        "ApprovalVoided",
        "ActivityFailed",
    ]
    assert facts[3].failure.message == why()
    assert len(hand.tasks()) == 1
    refolds(hand)


def test_what_a_worker_gave_back_and_is_forbidden_by_now_ends() -> None:
    hand = Hand()
    granted(hand)
    hand.handler.go_by(policy(STOP), 8)
    facts = hand.give(ReturnActivity("1.3", 1, "authority_stale", "w1"), actor="worker:w1")
    assert kinds(facts)[:3] == ["ActivityReturned", "ApprovalVoided", "ActivityFailed"]
    assert (facts[2].attempt, facts[2].failure.kind) == (2, FORBIDDEN)
    refolds(hand)


@pytest.mark.parametrize("kind", ["raised", "timed_out"])
def test_what_an_attempt_before_may_have_done_is_in_doubt_and_not_called_undone(kind: str) -> None:
    hand = Hand(*PATIENT, workflow="patient desk")
    granted(hand)
    hand.failure("1.3", kind)
    hand.now_ms += 2 * MINUTE_MS
    hand.handler.go_by(policy(STOP), 8)
    doubt = hand.wake()[2]
    assert isinstance(doubt, r.ActivityUncertain)
    assert doubt.failure.kind == FORBIDDEN
    assert doubt.failure.message.startswith("an attempt of refund may have been carried out")
    refolds(hand)


def test_what_another_worker_may_have_begun_is_in_doubt_once_it_may_not_go_on() -> None:
    hand = Hand()
    granted(hand)
    hand.handler.go_by(policy(STOP), 8)
    facts = hand.give(ReturnActivity("1.3", 1, TAKEN_OVER, "w2"), actor="worker:w2")
    assert kinds(facts)[:3] == ["ActivityReturned", "ApprovalVoided", "ActivityUncertain"]
    assert (facts[2].attempt, facts[2].failure.kind) == (2, FORBIDDEN)
    refolds(hand)


def test_what_another_worker_may_have_begun_is_in_doubt_where_nobody_approves_it_again() -> None:
    hand = Hand()
    granted(hand)
    hand.handler.go_by(policy(FREEZE), 8)
    hand.give(ReturnActivity("1.3", 1, TAKEN_OVER, "w2"), actor="worker:w2")
    doubt = next(
        f for f in hand.decide("reject", actor="sue") if isinstance(f, r.ActivityUncertain)
    )
    assert doubt.failure.kind == "unapproved"
    assert "may have been carried out, and it is not called again" in doubt.failure.message
    refolds(hand)


def test_and_it_goes_on_as_before_where_it_may() -> None:
    hand = Hand()
    granted(hand)
    facts = hand.give(ReturnActivity("1.3", 1, TAKEN_OVER, "w2"), actor="worker:w2")
    assert kinds(facts)[:1] == ["ActivityReturned"]
    assert hand.tasks()[-1].attempt == 2
    assert kinds(hand.result("1.3", "receipt", attempt=2))[0] == "ActivityCompleted"
    refolds(hand)


def test_approved_while_it_waits_and_forbidden_for_good_by_then_it_is_asked_no_more() -> None:
    hand = retrying()
    hand.handler.go_by(policy(FREEZE), 8)
    hand.wake()
    hand.handler.go_by(policy(STOP), 9)
    facts = hand.decide(actor="sue")
    assert kinds(facts)[:4] == [
        "ApprovalGranted",
        "ActivityRetried",
        "ApprovalVoided",
        "ActivityFailed",
    ]
    assert hand.session.state.approvals == ()
    refolds(hand)


def test_where_one_policy_looks_at_who_approved_and_another_does_not_it_ends_and_both_are_named() -> (
    None
):
    hand = retrying()
    hand.handler.go_by(policy(f"{FREEZE}\n{STOP}"), 8)
    failed = hand.wake()[2]
    assert isinstance(failed, r.ActivityFailed)
    assert failed.failure.message == why(f"{FREEZE}\n{STOP}", "frozen, stopped")


def test_where_no_policy_permits_it_and_none_looks_at_who_approved_it_ends() -> None:
    hand = retrying()
    hand.handler.go_by(load(published(WITHOUT_PERMIT, default=False)), 8)
    failed = hand.wake()[2]
    assert isinstance(failed, r.ActivityFailed)
    assert failed.failure.kind == FORBIDDEN
    assert "permitted by no policy (policy set" in failed.failure.message
    refolds(hand)


class State(BaseModel):
    """None."""


async def find_refund(cents: int, *, key: str) -> str | None:
    """Finds none."""
    return None


@activity(
    contract=Write(lookup=find_refund),
    retry=Retry(attempts=3, initial="1m", factor=1),
)
async def refund(cents: int, *, key: str) -> str:
    """Pays."""
    return f"{cents} paid"


@activity(contract=Write(idempotent=True))
async def note(text: str, *, key: str) -> str:
    """Writes down."""
    return f"noted {text}"


@workflow("both", version=1)
async def both(turn: Turn, state: State, message: Message) -> State:
    """Two at once, and a third after the first that ended."""

    async def pay() -> str:
        try:
            return await turn.run(refund.call(5))
        except (ActivityError, Uncertain) as error:
            return await turn.run(note.call(str(error.failure.kind)))

    told = await turn.gather(pay(), turn.run(note.call("b")), turn.run(note.call("c")))
    await turn.say(", ".join(told))
    return state


@pytest.mark.parametrize("crashes", [False, True])
def test_a_refusal_among_calls_that_were_asked_for_at_once_replays(crashes: bool) -> None:
    session = rehearse(both)
    session.publish(STOP)
    if crashes:
        session.crash_everywhere()
    session.send("pay", by="ann")
    assert session.replies == ["noted forbidden, noted b, noted c"]
    assert session.calls("refund") == []
    assert "ApprovalRequested" not in session.facts


@workflow("payer", version=1)
async def payer(turn: Turn, state: State, message: Message) -> State:
    """Pays."""
    await turn.say(await turn.run(refund.call(5)))
    return state


def test_where_an_attempt_before_may_have_been_carried_out_it_is_in_doubt() -> None:
    hand = Hand(payer, refund, workflow="payer")
    hand.handler.go_by(policy(), 7)
    hand.open()
    hand.failure("1.1", "cut_off")
    hand.handler.go_by(policy(STOP), 8)
    hand.now_ms += 2 * MINUTE_MS
    retried, uncertain, *_ = hand.wake()
    assert isinstance(retried, r.ActivityRetried)
    assert isinstance(uncertain, r.ActivityUncertain)
    assert uncertain.failure.kind == FORBIDDEN
    refolds(hand)
