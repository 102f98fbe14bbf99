"""The desk that the browser tests drive: refunds that rely on data and need a supervisor, letters, and tools that fail."""

import asyncio

from pydantic import BaseModel

from wakeful import (
    Message,
    Needs,
    Read,
    Retry,
    Turn,
    Write,
    activity,
    emit,
    heartbeat,
    progress,
    workflow,
)

POLICY = "refund policy"


class Order(BaseModel):
    id: str
    item: str
    cents: int


class Desk(BaseModel):
    refunded: list[str] = []


class Nothing(BaseModel):
    pass


ITEMS = ("garden chair", "desk lamp", "tea kettle", "rain coat")


@activity(contract=Read(), timeout="10s")
async def find_order(text: str) -> Order:
    number = sum(text.encode())
    return Order(
        id=f"A-{1000 + number % 9000}", item=ITEMS[number % 4], cents=12_000 + number % 20_000
    )


@activity(
    contract=Write(idempotent=True),
    approval=Needs("supervisor", expires="24h"),
)
async def refund(order_id: str, cents: int, reason: str, *, key: str) -> str:
    return f"charge for {order_id}: {cents} cents"


@activity(contract=Write(idempotent=True), approval=Needs("board", quorum=2, expires="7d"))
async def wire(account: str, cents: int, *, key: str) -> str:
    return f"{cents} cents wired to {account}"


@activity(contract=Write(idempotent=True))
async def write_letter(order_id: str, text: str, *, key: str) -> str:
    return f"letter about {order_id}"


@activity(contract=Read(), retry=Retry(attempts=3, initial="100ms", factor=1.0, cap="1s"))
async def ask_carrier(order_id: str) -> str:
    raise ConnectionError(f"the carrier did not answer about {order_id}")


@activity(contract=Read(), retry=Retry(attempts=2, initial="100ms", factor=1.0, cap="1s"))
async def draft(words: list[str], pause_ms: int) -> str:
    """Says its words as they come; its first attempt loses the line behind the last one."""
    is_first = progress(int) is None
    heartbeat(1)
    for word in words:
        emit(word if is_first else word.upper())
        await asyncio.sleep(pause_ms / 1000)
    if is_first:
        raise ConnectionError("the line went dead")
    return f"A letter of {len(words)} words."


@activity(contract=Write())
async def print_label(order_id: str) -> str:
    raise ConnectionError("the printer went silent in the middle")


@workflow("refund-desk", version=1, versions={"model": "desk-small-2", "prompt": "7"})
async def refund_desk(turn: Turn, desk: Desk, message: Message) -> Desk:
    order = await turn.run(find_order.call(message.text))
    await turn.artifact(POLICY, "2026-01")
    asked = await turn.approval(refund.call(order.id, order.cents, message.text))
    if asked.answer:
        await turn.say(f"A supervisor says: {asked.answer}")
        return desk
    if not asked.granted:
        await turn.say("A supervisor declined this refund.")
        return desk
    receipt = await turn.run(asked.action)
    cents = asked.action.arguments["cents"]
    await turn.run(write_letter.call(order.id, f"We have paid back {cents / 100:.2f}: {receipt}."))
    await turn.say(f"We have paid back {cents / 100:.2f} for your {order.item}.")
    return desk.model_copy(update={"refunded": [*desk.refunded, order.id]})


@workflow("treasury", version=3)
async def treasury(turn: Turn, state: Nothing, message: Message) -> Nothing:
    asked = await turn.approval(wire.call(message.text, 250_000))
    if asked.granted:
        await turn.say(await turn.run(asked.action))
    return state


@workflow("carrier", version=1)
async def carrier(turn: Turn, state: Nothing, message: Message) -> Nothing:
    await turn.say(await turn.run(ask_carrier.call(message.text)))
    return state


@workflow("writer", version=1)
async def writer(turn: Turn, state: Nothing, message: Message) -> Nothing:
    told = message.data
    await turn.say(await turn.run(draft.call(told["words"], told["pause_ms"])))
    return state


@workflow("labels", version=1)
async def labels(turn: Turn, state: Nothing, message: Message) -> Nothing:
    await turn.say(await turn.run(print_label.call(message.text)))
    return state


@workflow("payments", version=2)
async def payments(turn: Turn, state: Nothing, message: Message) -> Nothing:
    await turn.say(f"paid: {await turn.signal('paid', int)}")
    return state


@workflow("broken", version=1)
async def broken(turn: Turn, state: Nothing, message: Message) -> Nothing:
    raise RuntimeError("no rule for this kind of request")
