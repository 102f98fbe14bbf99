"""A stretch that is over is driven again to its end: the same code decides the same, and other code is found out."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.processors import desk
from tests.processors.desk import KEY, Desk, find_order, refund
from tests.processors.workflow.hands import Hand, desk_of, hand_of
from tests.processors.workflow.programs import code_of, drawn, hand_for, move

from wakeful import Message, Turn
from wakeful.commands.check import Facts
from wakeful.events import records as r
from wakeful.events.evolve import evolve
from wakeful.processors.workflow.choosing import Position
from wakeful.processors.workflow.facts import STARTS
from wakeful.processors.workflow.redrive import redrive
from wakeful.processors.workflow.replay import Divergence

ENDS = r.TurnCompleted | r.TurnContinued | r.SessionCompleted | r.SessionFailed | r.SessionCancelled


def stretches(hand: desk.Hand) -> Iterator[Position]:
    """Each stretch, with the state that it began from."""
    state, begun, journal = None, None, []
    for stamped in hand.log:
        event = stamped.event
        state = evolve(state, event)
        journal += [event] if journal else []
        if journal and isinstance(event.body, ENDS):
            yield Position("acme", "s1", begun, journal)
            journal = []
        if isinstance(event.body, STARTS):
            begun, journal = state, [event]
    if journal:
        yield Position("acme", "s1", begun, journal)


def changed(hand: desk.Hand, code: Any) -> list[Divergence]:
    """What this code would decide otherwise."""
    found = [redrive(code, position, Facts(KEY)) for position in stretches(hand)]
    return [one for one in found if one is not None]


@pytest.mark.case("U7")
@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_the_same_code_decides_the_same_whatever_came_in_whichever_order(seed: int) -> None:
    chance = random.Random(seed)
    code = code_of(drawn(chance, guards=True), guarded=True)
    hand = hand_for(code)
    for _ in range(chance.randint(4, 24)):
        move([hand], chance)
    assert changed(hand, code) == []


async def paying(turn: Turn, desk: Desk, message: Message) -> Desk:
    cents = await turn.run(find_order.call(message.text))
    await turn.run(refund.call(cents))
    await turn.say("paid")
    return desk


def paid() -> Hand:
    hand = hand_of(paying)
    hand.open("x")
    hand.result("1.1", 5)
    hand.result("1.2", "receipt")
    return hand


def test_a_turn_that_is_over_is_driven_to_its_end() -> None:
    assert changed(paid(), desk_of(paying)) == []


async def warning(turn: Turn, desk: Desk, message: Message) -> Desk:
    await turn.say("one moment")
    return desk


async def paying_twice(turn: Turn, desk: Desk, message: Message) -> Desk:
    cents = await turn.run(find_order.call(message.text))
    await turn.run(refund.call(cents * 2))
    await turn.say("paid")
    return desk


async def saying_something_else(turn: Turn, desk: Desk, message: Message) -> Desk:
    cents = await turn.run(find_order.call(message.text))
    await turn.run(refund.call(cents))
    await turn.say("it is done")
    return desk


async def ending_otherwise(turn: Turn, desk: Desk, message: Message) -> Desk:
    await paying_body(turn, message)
    return desk.model_copy(update={"refunded_cents": 5})


async def doing_more(turn: Turn, desk: Desk, message: Message) -> Desk:
    await paying_body(turn, message)
    await turn.say("anything else?")
    return desk


async def raising(turn: Turn, desk: Desk, message: Message) -> Desk:
    await turn.run(find_order.call(message.text))
    raise KeyError("a bug")


async def paying_body(turn: Turn, message: Message) -> None:
    cents = await turn.run(find_order.call(message.text))
    await turn.run(refund.call(cents))
    await turn.say("paid")


@pytest.mark.parametrize(
    ("code", "step", "expected", "actual"),
    [
        (warning, 1, "activity find_order", "reply"),
        (paying_twice, 2, "activity refund", "activity refund"),
        (saying_something_else, 3, "reply", "reply"),
        (ending_otherwise, 3, "end of turn", "end of turn"),
        (doing_more, 3, "end of turn", "step 4: reply"),
        (raising, 2, "activity refund", "hold: workflow_raised: KeyError"),
    ],
)
def test_other_code_is_found_out_at_the_first_step_that_differs(
    code: Any, step: int, expected: str, actual: str
) -> None:
    (found,) = changed(paid(), desk_of(code))
    assert found.step == step
    assert expected in found.expected
    assert actual in found.actual


def test_a_turn_that_is_held_by_a_bug_is_changed_by_code_without_it_and_not_by_the_same() -> None:
    hand = hand_of(raising)
    hand.open("x")
    hand.result("1.1", 5)
    assert hand.bodies(r.SessionHeld)
    assert changed(hand, desk_of(raising)) == []
    (found,) = changed(hand, desk_of(paying))
    assert found.expected.startswith("hold: workflow_raised")
    assert "activity refund" in found.actual


def test_a_session_that_was_cancelled_decided_what_it_had_until_then() -> None:
    hand = hand_of(paying)
    hand.open("x")
    hand.result("1.1", 5)
    hand.cancel()
    assert changed(hand, desk_of(paying)) == []
    (found,) = changed(hand, desk_of(paying_twice))
    assert found.step == 2


async def leaving_a_timer(turn: Turn, desk: Desk, message: Message) -> Desk:
    await turn.first(turn.run(find_order.call(message.text)), turn.sleep("1h"))
    return desk


def test_what_the_engine_withdrew_is_no_decision() -> None:
    hand = hand_of(leaving_a_timer)
    hand.open("x")
    hand.result("1.1", 5)
    assert hand.bodies(r.TimerCancelled)
    assert changed(hand, desk_of(leaving_a_timer)) == []
