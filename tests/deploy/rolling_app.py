"""A desk in the versions that a file names: its processes load what that says when they start."""

import asyncio
import os
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from wakeful import Message, Read, Turn, Write, activity, workflow

LOADED = Path(os.environ["ROLLING_CODE"]).read_text(encoding="utf-8").split()


class Cents(BaseModel):
    """What version 1 leaves."""

    cents: int = 0


class Euros(BaseModel):
    """What version 2 leaves."""

    euros: float = 0.0


@activity(contract=Read(), timeout="30s")
async def look(number: int) -> int:
    await asyncio.sleep(0.2)
    return number


@activity(contract=Write(idempotent=True), timeout="30s")
def pay(number: int, *, key: str) -> str:
    with Path(os.environ["ROLLING_BOOK"]).open("a", encoding="utf-8") as book:
        book.write(f"{key}\n")
    return key


async def played(turn: Turn, text: str) -> None:
    """Waits for a signal where the message says so; else some calls, with time between them."""
    if "bug" in text and "first" not in LOADED:
        raise ValueError("a bug of the second deploy")
    if "park" in text:
        await turn.signal("go")
    else:
        for number in range(3):
            await turn.run(look.call(number))
    await turn.run(pay.call(1))


def cents_of(stored: Any, version: int) -> Cents:
    assert version == 2
    return Cents(cents=round(stored["euros"] * 100))


def euros_of(stored: Any, version: int) -> Euros:
    assert version == 1
    return Euros(euros=stored["cents"] / 100)


if "1" in LOADED:

    @workflow("desk", version=1, upgrade=cents_of)
    async def desk(turn: Turn, state: Cents, message: Message) -> Cents:
        await played(turn, message.text)
        await turn.say(f"{message.text}: version 1, {state.cents + 100} cents")
        return Cents(cents=state.cents + 100)


if "2" in LOADED:

    @workflow("desk", version=2, upgrade=euros_of)
    async def next_desk(turn: Turn, state: Euros, message: Message) -> Euros:
        await turn.say("welcome")  # a step that the turns of version 1 do not have
        await played(turn, message.text)
        await turn.say(f"{message.text}: version 2, {round(state.euros * 100) + 100} cents")
        return Euros(euros=state.euros + 1)
