"""The app of the chaos runs: what a session is told to do is in its message, and what must come of it is known beforehand."""

import asyncio
import os
from typing import Any

from pydantic import BaseModel

from wakeful import (
    ActivityError,
    Message,
    Needs,
    NothingDone,
    Read,
    Retry,
    Turn,
    Write,
    activity,
    workflow,
)
from wakeful.deploy.demo.payments import Payments, PaymentsUnavailable

SERVICE = Payments(os.environ["WAKEFUL_CHAOS_PAYMENTS"], answer_limit_s=1.5)
AGAIN = Retry(attempts=1_000, initial="100ms", factor=1.5, cap="1s")
LONG = "1h"
"""Longer than any run, and shorter than clocks leap: what expires here was lost."""

LEAVES = 2
THOUGHT_S = 0.15
SLEEPS = ("700ms", "1500ms")


class Nothing(BaseModel):
    """State between turns: none."""


async def charge(order_id: str, cents: int, key: str) -> str:
    """The id of the new charge; a service that says that it did nothing is believed."""
    try:
        return (await SERVICE.refund(order_id, cents, key=key)).id
    except PaymentsUnavailable as unavailable:
        raise NothingDone(str(unavailable)) from unavailable


async def find(key: str) -> str | None:
    """The id of the charge with this key."""
    found = await SERVICE.find(key)
    return None if found is None else found.id


@activity(contract=Read(), timeout="10s", schedule_to_close=LONG, retry=AGAIN)
async def think(number: int) -> int:
    """A thought that takes a moment: twice the number."""
    await asyncio.sleep(THOUGHT_S)
    return number * 2


@activity(
    contract=Write(lookup=find, settle="600ms"),
    timeout="2500ms",
    schedule_to_close=LONG,
    retry=AGAIN,
)
async def refund_looked_up(order_id: str, cents: int, *, key: str) -> str:
    """Pays; before it may pay again, it looks whether it has."""
    return await charge(order_id, cents, key)


@activity(
    contract=Write(lookup=find, settle="600ms"),
    timeout="2500ms",
    schedule_to_close=LONG,
    retry=AGAIN,
    approval=Needs("supervisor", expires=LONG),
)
async def refund_gated(order_id: str, cents: int, *, key: str) -> str:
    """The same, once somebody has approved it."""
    return await charge(order_id, cents, key)


@activity(contract=Write(), timeout="2500ms", schedule_to_close="7s", retry=AGAIN)
async def refund_once(order_id: str, cents: int, *, key: str) -> str:
    """Pays at most once; tried again only where it is certain that nothing was paid."""
    return await charge(order_id, cents, key)


@workflow("leaf", version=1)
async def leaf(turn: Turn, state: Nothing, message: Message) -> Nothing:
    """A child: thinks of its number, and ends."""
    await turn.complete(await turn.run(think.call(message.data)))
    return state


@workflow("duty", version=1)
async def duty(turn: Turn, state: Nothing, message: Message) -> Nothing:
    """One duty, by its kind."""
    kind, number = message.data["kind"], message.data["number"]
    await turn.complete({"kind": kind, "did": await DUTIES[kind](turn, number)})
    return state


async def pays(turn: Turn, number: int) -> Any:
    """Two payments beside each other, one with a look-up and one without a net."""
    order = f"order-{number}"
    return await turn.gather(
        turn.run(refund_looked_up.call(order, 1_000)), _once(turn, order, 2_000)
    )


async def asks(turn: Turn, number: int) -> Any:
    """A payment that somebody must approve."""
    approval = await turn.approval(refund_gated.call(f"order-{number}", 3_000))
    return await turn.run(approval.action) if approval.granted else approval.decision


async def sleeps(turn: Turn, number: int) -> Any:
    """Sleeps, thinks and sleeps again."""
    await turn.sleep(SLEEPS[0])
    thought = await turn.run(think.call(number))
    await turn.sleep(SLEEPS[1])
    return thought


async def hands_out(turn: Turn, number: int) -> Any:
    """A job that others do."""
    del number
    return await turn.job("render", within=LONG)


async def delegates(turn: Turn, number: int) -> Any:
    """Children, each with its number."""
    children = [turn.child(leaf, number + one, within=LONG) for one in range(LEAVES)]
    return await turn.gather(*children)


async def thinks(turn: Turn, number: int) -> Any:
    """No more than a thought: how long it takes tells whether all is well."""
    return await turn.run(think.call(number))


DUTIES = {
    "pays": pays,
    "asks": asks,
    "sleeps": sleeps,
    "hands_out": hands_out,
    "delegates": delegates,
    "thinks": thinks,
}


async def _once(turn: Turn, order_id: str, cents: int) -> str:
    try:
        return await turn.run(refund_once.call(order_id, cents))
    except ActivityError:
        return "not paid"
