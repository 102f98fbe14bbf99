"""The peers' workload as a Wakeful app: 10 steps, an approval, 2 steps; bodies do nothing but say that they ran.

Every execution appends one line to the effects log (`WAKEFUL_BENCH_EFFECTS`): nanoseconds of the monotonic clock,
pid, session, step, kind. It plays the outside world, and all latencies are read from it.
"""

import asyncio
import os
import time

from pydantic import BaseModel

from wakeful import Message, Needs, Read, Turn, Write, activity, workflow

PAD = "x" * 900
EFFECTS = os.environ.get("WAKEFUL_BENCH_EFFECTS", os.devnull)
DELAY_S = float(os.environ.get("WAKEFUL_BENCH_DELAY_S", "0"))


class Nothing(BaseModel):
    """State between turns: none."""


def effect(session: str, step: int, kind: str) -> None:
    line = f"{time.monotonic_ns()} {os.getpid()} {session} {step} {kind}\n".encode()
    descriptor = os.open(EFFECTS, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(descriptor, line)
    os.close(descriptor)


@activity(contract=Read())
async def model(session: str, step: int) -> dict[str, object]:
    """About 1 KiB of answer."""
    effect(session, step, "model")
    if DELAY_S:
        await asyncio.sleep(DELAY_S)
    return {"role": "assistant", "step": step, "text": PAD, "usage": {"in": 812, "out": 231}}


@activity(contract=Write(idempotent=True))
async def tool(session: str, step: int, *, key: str) -> dict[str, object]:
    """About 200 B of receipt."""
    effect(session, step, "tool")
    if DELAY_S:
        await asyncio.sleep(DELAY_S)
    return {"tool": "write", "idempotency_key": key, "status": "ok", "ref": "r" * 100}


@activity(contract=Write(idempotent=True), approval=Needs("anybody"))
async def gated_tool(session: str, step: int, *, key: str) -> dict[str, object]:
    """The same, but somebody must approve it."""
    effect(session, step, "tool")
    if DELAY_S:
        await asyncio.sleep(DELAY_S)
    return {"tool": "write", "idempotency_key": key, "status": "ok", "ref": "r" * 100}


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
