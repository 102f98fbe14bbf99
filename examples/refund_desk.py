"""A refund desk: it looks up an order, asks a supervisor where the sum is high, and pays back exactly once."""

from pydantic import BaseModel

from wakeful import Message, Needs, Read, Turn, Write, activity, workflow


class Order(BaseModel):
    id: str
    cents: int


class Desk(BaseModel):  # the state that survives between turns
    refunded_cents: int = 0


@activity(contract=Read(), timeout="10s")
async def find_order(order_id: str) -> Order:
    return Order(id=order_id, cents=25_000)


@activity(
    contract=Write(idempotent=True),
    queue="payments",
    approval=Needs("supervisor", when=lambda order_id, cents: cents > 10_000, expires="24h"),
)
async def refund(order_id: str, cents: int, *, key: str) -> str:  # key: stable across attempts
    return f"receipt for {order_id}: {cents} cents, payment {key}"


@workflow("refund-desk", version=1)
async def refund_desk(turn: Turn, desk: Desk, message: Message) -> Desk:
    order = await turn.run(find_order.call(message.text))
    action = refund.call(order.id, order.cents)
    if not (await turn.approval(action)).granted:  # at once where the rule asks nobody
        await turn.say("A supervisor declined this refund.")
        return desk
    receipt = await turn.run(action)
    await turn.say(f"Refunded {order.cents / 100:.2f}.")
    await turn.complete({"receipt": receipt})
    return desk.model_copy(update={"refunded_cents": desk.refunded_cents + order.cents})
