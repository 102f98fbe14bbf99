"""A small refund desk, beside workflows with a bug, that fail, hang, come into doubt, and wait for signals."""

import threading

from pydantic import BaseModel

from wakeful import (
    ActivityError,
    JobError,
    Message,
    Needs,
    Read,
    Turn,
    Uncertain,
    Write,
    activity,
    workflow,
)


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


class Nothing(BaseModel):
    """No state."""


@activity(contract=Read())
async def look_up(order_id: str) -> str:
    raise ValueError(f"no order {order_id}")


@workflow("failing", version=1)
async def failing(turn: Turn, state: Nothing, message: Message) -> Nothing:
    await turn.run(look_up.call(message.text))
    return state


@workflow("buggy", version=1)
async def buggy(turn: Turn, state: Nothing, message: Message) -> Nothing:
    raise RuntimeError("a bug of the workflow")


@activity(contract=Read(), timeout="300ms")
def ask_for_ever(order_id: str) -> str:
    threading.Event().wait(120)
    return order_id


@activity(contract=Read())
def thread_of(order_id: str) -> str:
    return threading.current_thread().name


@workflow("stubborn", version=1)
async def stubborn(turn: Turn, state: Nothing, message: Message) -> Nothing:
    try:
        await turn.run(ask_for_ever.call(message.text))
    except ActivityError as error:
        await turn.say(error.failure.kind)
    await turn.say(await turn.run(thread_of.call(message.text)))
    return state


@activity(contract=Write())
async def wire(order_id: str) -> str:
    raise ConnectionError("the line went dead in the middle")


@workflow("wires", version=1)
async def wires(turn: Turn, state: Nothing, message: Message) -> Nothing:
    await turn.say(await turn.run(wire.call(message.text)))
    return state


@workflow("decides", version=1)
async def decides(turn: Turn, state: Nothing, message: Message) -> Nothing:
    try:
        await turn.run(wire.call(message.text), on_uncertain="raise")
    except Uncertain:
        await turn.say("nobody knows")
    return state


@activity(contract=Read())
async def start_render(job_id: str) -> str:
    return job_id  # a real one tells the renderer


@workflow("studio", version=1)
async def studio(turn: Turn, state: Nothing, message: Message) -> Nothing:
    await turn.attributes({"film": message.text, "turn": turn.number})
    job = turn.job("render", within="1h", expect=int)
    await turn.run(start_render.call(job.id))
    try:
        await turn.say(f"{await job} frames")
    except JobError as error:
        await turn.say(str(error))
    return state


@workflow("listens", version=1)
async def listens(turn: Turn, state: Nothing, message: Message) -> Nothing:
    if turn.number == 1:
        await turn.say(f"paid {await turn.signal('paid', int)}")
        (more,) = await turn.inbox(wait=True)
        await turn.say(f"and {more.text}")
    else:
        await turn.say(f"{message.trigger}: {message.reason}")
    return state
