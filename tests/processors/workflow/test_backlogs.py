"""What is more than one command may lead to is done all the same, in several goes, and in order."""

from __future__ import annotations

from pydantic import BaseModel

from wakeful import Message, Turn, workflow
from wakeful.testing import rehearse


class Count(BaseModel):
    """State between turns."""

    n: int = 0


@workflow("talker", version=1)
async def talker(turn: Turn, count: Count, message: Message) -> Count:
    """Sleeps where it is told to, and else says six things."""
    if message.text == "go":
        await turn.sleep("1d")
    for number in range(6):
        await turn.say(f"{message.text} {number}")
    return Count(n=count.n + 1)


@workflow("drainer", version=1)
async def drainer(turn: Turn, count: Count, message: Message) -> Count:
    """Takes one signal per stretch."""
    if count.n == 0:
        await turn.sleep("1d")
    value = await turn.signal("paid", int)
    await turn.say(f"paid {value}")
    await turn.say("thanks")
    return turn.again(Count(n=count.n + 1)) if count.n < 899 else count


def test_messages_that_queue_for_long_are_answered_all_and_in_order() -> None:
    session = rehearse(talker)
    session.send("go")
    for number in range(899):
        session.send(f"m{number}")
    session.skip("1d")
    assert session.hold is None
    assert session.state.n == 900
    assert session.replies[6::6] == [f"m{number} 0" for number in range(899)]


def test_signals_that_were_kept_for_long_are_delivered_all_and_in_order() -> None:
    session = rehearse(drainer)
    session.send("go")
    for number in range(900):
        session.signal("paid", number)
    session.skip("1d")
    assert session.replies[::2] == [f"paid {number}" for number in range(900)]
