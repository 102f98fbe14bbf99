"""The refund desk of the examples, beside workflows with a bug, that fail, hang, come into doubt, and wait for signals."""

import importlib.util
import threading
from pathlib import Path

from pydantic import BaseModel

from wakeful import ActivityError, Message, Read, Turn, Uncertain, Write, activity, workflow

_DESK = Path(__file__).parents[2] / "examples" / "refund_desk.py"
_spec = importlib.util.spec_from_file_location("refund_desk", _DESK)
_desk = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_desk)
refund_desk, find_order, refund = _desk.refund_desk, _desk.find_order, _desk.refund


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


@workflow("listens", version=1)
async def listens(turn: Turn, state: Nothing, message: Message) -> Nothing:
    if turn.number == 1:
        await turn.say(f"paid {await turn.signal('paid', int)}")
        (more,) = await turn.inbox(wait=True)
        await turn.say(f"and {more.text}")
    else:
        await turn.say(f"{message.trigger}: {message.reason}")
    return state
