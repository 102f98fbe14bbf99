"""One activity per contract, all of them paying back through a service whose first answer to each gets lost."""

import os

from pydantic import BaseModel

from wakeful import ActivityError, Message, Read, Retry, Turn, Write, activity, workflow
from wakeful.deploy.demo.payments import Payments

CARELESS = Payments(os.environ["TOUR_PAYMENTS"])  # charges a key as often as it is asked to
CAREFUL = Payments(os.environ["TOUR_CAREFUL_PAYMENTS"])  # honours keys: charges each once
TWICE = Retry(attempts=2, initial="200ms")
_asked: set[str] = set()


def first(key: str) -> str | None:
    """The fault to ask the service for: the answer to a key's first call is dropped on its way back."""
    asked = key in _asked
    _asked.add(key)
    return None if asked else "drop"


async def find(key: str) -> str | None:
    charge = await CARELESS.find(key)
    return charge.id if charge else None


@activity(contract=Read(), retry=TWICE)
async def is_refunded(order_id: str, cents: int, *, key: str) -> bool:
    found = await CARELESS.find(order_id, fault=first(key))
    return found is not None and found.cents >= cents


@activity(contract=Write(idempotent=True), retry=TWICE)
async def refund_by_key(order_id: str, cents: int, *, key: str) -> str:
    return (await CAREFUL.refund(order_id, cents, key=key, fault=first(key))).id


@activity(contract=Write(lookup=find, settle="500ms"), retry=TWICE)
async def refund_looked_up(order_id: str, cents: int, *, key: str) -> str:
    return (await CARELESS.refund(order_id, cents, key=key, fault=first(key))).id


@activity(contract=Write(idempotent=True), retry=TWICE)
async def take_back(done_key: str, *, key: str) -> int:
    return len(await CARELESS.undo(done_key, key=key))


@activity(contract=Write(undo=take_back), retry=TWICE)
async def refund_undone(order_id: str, cents: int, *, key: str) -> str:
    return (await CARELESS.refund(order_id, cents, key=key, fault=first(key))).id


@activity(contract=Write(), retry=TWICE)
async def refund_once(order_id: str, cents: int, *, key: str) -> str:
    return (await CARELESS.refund(order_id, cents, key=key, fault=first(key))).id


TOUR = (is_refunded, refund_by_key, refund_looked_up, refund_undone, refund_once)


class Nothing(BaseModel):
    pass


@workflow("contracts", version=1)
async def contracts(turn: Turn, state: Nothing, message: Message) -> Nothing:
    chosen = next(one for one in TOUR if one.name == message.text)
    try:
        result = await turn.run(chosen.call("order-7", 2_500))
    except ActivityError as error:
        await turn.complete(f"no result: {error.failure.kind}")
    else:
        await turn.complete(f"result: {result}")
    return state
