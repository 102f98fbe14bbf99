"""The peers' workload as a Wakeful app: 10 steps, an approval, 2 steps; bodies do nothing but say that they ran."""

import asyncio
import os

from pydantic import BaseModel

from bench.bodies import model_answer, tool_receipt
from wakeful import Message, Needs, Read, Turn, Write, activity, workflow

DELAY_S = float(os.environ.get("WAKEFUL_BENCH_DELAY_S", "0"))


class Nothing(BaseModel):
    """State between turns: none."""


@activity(contract=Read())
async def model(session: str, step: int) -> dict[str, object]:
    """A model's answer."""
    answer = model_answer(session, step)
    if DELAY_S:
        await asyncio.sleep(DELAY_S)
    return answer


@activity(contract=Write(idempotent=True))
async def tool(session: str, step: int, *, key: str) -> dict[str, object]:
    """A tool's receipt."""
    receipt = tool_receipt(session, step, key)
    if DELAY_S:
        await asyncio.sleep(DELAY_S)
    return receipt


@activity(contract=Write(idempotent=True), approval=Needs("anybody"))
async def gated_tool(session: str, step: int, *, key: str) -> dict[str, object]:
    """The same, but somebody must approve it."""
    receipt = tool_receipt(session, step, key)
    if DELAY_S:
        await asyncio.sleep(DELAY_S)
    return receipt


@workflow("turns", version=1)
async def turns(turn: Turn, state: Nothing, message: Message) -> Nothing:
    """`before` steps, an approval of the last step, and 2 steps."""
    before = message.data["before"]
    for step in range(before):
        await turn.run((model if step % 2 == 0 else tool).call(turn.session_id, step))
    last = gated_tool.call(turn.session_id, before + 1)
    approval = await turn.approval(last)
    if approval.granted:
        await turn.run(model.call(turn.session_id, before))
        await turn.run(last)
    await turn.complete({"granted": approval.granted})
    return state
