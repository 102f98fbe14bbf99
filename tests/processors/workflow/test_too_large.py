"""What is too large for a record, without a store beside the log, holds the session with its size, the limit, and what to do."""

from typing import Any

import pytest
from tests.processors.workflow.hands import (
    Desk,
    Hand,
    Message,
    Turn,
    find_order,
    hand_of,
    kinds,
    no_doubt_left,
    says,
)

from wakeful import Needs, Write, activity, workflow
from wakeful.events import records as r
from wakeful.events.limits import EVENT_MAX, INBOX_BYTES_MAX, PAYLOAD_MAX

BIG = "x" * PAYLOAD_MAX

QUOTED = PAYLOAD_MAX + 2
"""Bytes of that text as JSON."""


@activity(contract=Write(), approval=Needs("supervisor", expires="1h"))
async def publish(text: str) -> int:
    """Gated, so that its arguments are asked about."""
    return len(text)


class Pile(Desk):
    """State that grows."""

    text: str = ""


async def says_it(turn: Turn, desk: Desk, message: Message) -> Desk:
    await turn.say({"text": BIG})
    return desk


async def completes_with_it(turn: Turn, desk: Desk, message: Message) -> Desk:
    await turn.complete(BIG)
    return desk


async def runs_with_it(turn: Turn, desk: Desk, message: Message) -> Desk:
    await turn.run(find_order.call(BIG))
    return desk


async def asks_about_it(turn: Turn, desk: Desk, message: Message) -> Desk:
    await turn.approval(publish.call(BIG))
    return desk


async def catches_what_it_is_told(turn: Turn, desk: Desk, message: Message) -> Desk:
    try:
        await turn.say(BIG)
    except Exception:
        await turn.say("too large")
    return desk


ARGUMENTS = QUOTED + len('{"text":}')

NEXT = "set WAKEFUL_BLOBS to have it stored beside the log, or pass a reference of your own"


@pytest.mark.parametrize(
    ("code", "told"),
    [
        (says_it, f"turn.say was given {ARGUMENTS} bytes"),
        (completes_with_it, f"turn.complete was given {QUOTED} bytes"),
        (runs_with_it, f"find_order.call was given arguments of {ARGUMENTS} bytes"),
        (asks_about_it, f"publish.call was given arguments of {ARGUMENTS} bytes"),
        (catches_what_it_is_told, f"turn.say was given {ARGUMENTS} bytes"),
    ],
)
@pytest.mark.parametrize("replay", [False, True])
def test_it_is_a_misuse_that_names_size_limit_and_next_step(
    code: Any, told: str, replay: bool
) -> None:
    hand = hand_of(code, always_replay=replay)
    assert kinds(hand.open("abc"))[-1] == "SessionHeld"
    held = hand.last(r.SessionHeld)
    assert held.reason == "workflow_misuse"
    assert held.detail == f"workflow desk: {told}, and the limit is {PAYLOAD_MAX}: {NEXT}"


def test_a_state_says_the_same() -> None:
    @workflow("desk", version=1)
    async def grows(turn: Turn, desk: Pile, message: Message) -> Pile:
        return Pile(text=BIG)

    hand = Hand(grows)
    hand.open("abc")
    held = hand.last(r.SessionHeld)
    assert held.reason == "state_unserialisable"
    assert f"and the limit is {PAYLOAD_MAX}: {NEXT}" in held.detail


async def listens(turn: Turn, desk: Desk, message: Message) -> Desk:
    await turn.sleep("1s")
    while told := await turn.inbox():
        await turn.say(" ".join(each.text[0] for each in told))
    return desk


@pytest.mark.parametrize("replay", [False, True])
def test_an_inbox_of_more_than_an_event_holds_is_taken_look_by_look(replay: bool) -> None:
    """Given messages that each fit and together do not, when the turn looks, then it gets them oldest first."""
    hand = hand_of(listens, always_replay=replay)
    hand.open("abc")
    size = PAYLOAD_MAX - 1_000
    for letter in "abcde":
        hand.say(letter * size)
    assert 5 * size > EVENT_MAX > INBOX_BYTES_MAX > 2 * size
    hand.now_ms += 1_000
    assert kinds(hand.wake())[-1] == "TurnCompleted"
    assert hand.replies == says("a b", "c d", "e")
    assert hand.session.state is not None
    assert hand.session.state.queue == ()
    no_doubt_left(hand)


def test_one_message_of_any_size_that_may_be_sent_is_taken() -> None:
    hand = hand_of(listens)
    hand.open("abc")
    hand.say("z" * (PAYLOAD_MAX - 100))
    hand.now_ms += 1_000
    assert kinds(hand.wake())[-1] == "TurnCompleted"
    assert hand.replies == says("z")
