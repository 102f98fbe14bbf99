"""Any interleaving of what may come refolds to the same state."""

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.processors.desk import Desk, Hand, find_order, refund

from wakeful import Message, Turn, workflow
from wakeful.commands.models import OpenSession, SendMessage
from wakeful.events import records as r
from wakeful.events.payloads import json_payload


@workflow("busy", version=1)
async def busy(turn: Turn, desk: Desk, message: Message) -> Desk:
    """Many waits of all kinds."""
    for number in range(3):
        cents = await turn.run(find_order.call(f"{number}"))
        approval = await turn.approval(refund.call(cents))
        if approval.granted and approval.decision != "not_needed":
            await turn.run(refund.call(cents))
        elif approval.decision == "expired":
            await turn.say(f"expired at {turn.now():%H:%M}")
        await turn.sleep("5m")
    return desk


@pytest.mark.case("U7")
@pytest.mark.case("L29")
@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_any_interleaving_of_results_decisions_and_timers_refolds_to_the_same_state(
    seed: int,
) -> None:
    chance = random.Random(seed)
    hand = Hand(busy, find_order, refund, workflow="busy", always_replay=chance.random() < 0.5)
    twin = Hand(busy, find_order, refund, workflow="busy", always_replay=not hand.always_replay)
    for one in (hand, twin):
        one.give(OpenSession("busy"))
        one.give(SendMessage(json_payload({"text": "go"}, b"k")))
    for _ in range(chance.randint(5, 25)):
        move = chance.randrange(5)
        value, pause = chance.choice([10, 500]), chance.choice([0, 60_000, 400_000, 4_000_000])
        decision = chance.choice(["approve", "reject"])
        for one in (hand, twin):
            one.now_ms += pause
            state = one.session.state
            if move == 0 and state.activities:
                result: Any = value if state.activities[0].name == "find_order" else "k"
                one.result(state.activities[0].activity_id, result)
            elif move == 1 and any(isinstance(s.event.body, r.ApprovalRequested) for s in one.log):
                one.decide(decision)
            elif move == 2:
                one.say("more")
            else:
                one.wake()
    assert [s.event.body for s in hand.log] == [s.event.body for s in twin.log]
    for cut in {len(hand.log), chance.randrange(len(hand.log))}:
        assert hand.refold(cut).head.hash == twin.refold(cut).head.hash
    assert hand.refold().state == hand.session.state
