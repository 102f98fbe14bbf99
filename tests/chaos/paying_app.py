"""The app of the payments chaos: each session pays back twice, once with a look-up and once without a net."""

import os

from pydantic import BaseModel

from wakeful import (
    ActivityError,
    Message,
    NothingDone,
    Retry,
    Turn,
    Write,
    activity,
    workflow,
)
from wakeful.deploy.demo.payments import Payments, PaymentsUnavailable

SERVICE = Payments(os.environ["WAKEFUL_CHAOS_PAYMENTS"], answer_limit_s=1.5)
AGAIN = Retry(attempts=1_000, initial="100ms", factor=1.5, cap="1s")


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


@activity(contract=Write(lookup=find, settle="600ms"), timeout="2500ms", retry=AGAIN)
async def refund_looked_up(order_id: str, cents: int, *, key: str) -> str:
    """Pays; before it may pay again, it looks whether it has."""
    return await charge(order_id, cents, key)


@activity(contract=Write(), timeout="2500ms", schedule_to_close="7s", retry=AGAIN)
async def refund_once(order_id: str, cents: int, *, key: str) -> str:
    """Pays at most once; tried again only where it is certain that nothing was paid."""
    return await charge(order_id, cents, key)


@workflow("refunds", version=1)
async def refunds(turn: Turn, state: Nothing, message: Message) -> Nothing:
    """Both at the same time; the session ends when both are known."""
    looked_up, once = await turn.gather(
        turn.run(refund_looked_up.call(message.text, 1_000)), _once(turn, message.text)
    )
    await turn.complete({"looked_up": looked_up, "once": once})
    return state


async def _once(turn: Turn, order_id: str) -> str:
    try:
        return await turn.run(refund_once.call(order_id, 2_000))
    except ActivityError:
        return "not paid"
