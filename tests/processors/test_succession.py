"""Whoever decides what is void by now is told what took its place."""

from __future__ import annotations

from tests.processors.desk import Hand
from tests.processors.test_gate import FREEZE, STOP, STRICT, policy, retrying
from wakeful.events import records as r


def late(hand: Hand, proposal: r.ApprovalRequested) -> str:
    """What somebody is told who decides on this proposal now."""
    facts = hand.decide(proposal=proposal, actor="sue")
    (refused,) = facts
    assert isinstance(refused, r.CommandRefused)
    assert refused.reason == "already_decided"
    return refused.detail


def void_and_asked_again() -> tuple[Hand, r.ApprovalRequested]:
    hand = retrying()
    old = hand.last(r.ApprovalRequested)
    hand.handler.go_by(policy(FREEZE), 8)
    hand.wake()
    return hand, old


def test_the_open_one_is_named_with_the_command_that_shows_it() -> None:
    hand, old = void_and_asked_again()
    new = hand.last(r.ApprovalRequested).proposal_id
    assert late(hand, old).endswith(
        f"and that stands: {new} took its place: look at it with "
        "'wakeful approval list --session s1', and decide that"
    )


def test_of_a_chain_the_last_is_named_and_how_it_was_decided() -> None:
    hand, old = void_and_asked_again()
    hand.decide(actor="sue")
    assert hand.last(r.ApprovalRequested).proposal_id in late(hand, old)
    hand.handler.go_by(policy(), 9)
    new = hand.last(r.ApprovalRequested).proposal_id
    hand.decide(actor="sue")
    assert f"{new} took its place and was approved by sue: see 'wakeful" in late(hand, old)


def test_where_nothing_took_its_place_nothing_is_named() -> None:
    hand = retrying()
    old = hand.last(r.ApprovalRequested)
    hand.handler.go_by(policy(STOP), 8)
    hand.wake()
    assert "took its place" not in late(hand, old)


def test_one_of_another_step_is_not_named() -> None:
    hand = Hand()
    hand.handler.go_by(policy(), 7)
    hand.open()
    hand.result("1.1", 25_000)
    first = hand.last(r.ApprovalRequested)
    hand.decide("reject", actor="sue")
    assert "took its place" not in late(hand, first)
    hand.say("order 8")
    hand.result("2.1", 25_000)
    hand.handler.go_by(policy(STRICT), 8)
    second = hand.last(r.ApprovalRequested)
    hand.decide(actor="sue")
    told = late(hand, second)
    assert hand.last(r.ApprovalRequested).proposal_id in told
    assert first.proposal_id not in told
