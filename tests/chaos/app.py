"""The app that the chaos tests run: a model call, a gated refund in a ledger file, a reply, the end."""

import asyncio
import json
import os
import time
from pathlib import Path

from pydantic import BaseModel

from wakeful import Message, Needs, Read, Turn, Write, activity, workflow

FOLDER = Path(os.environ["WAKEFUL_CHAOS_FOLDER"])
PAUSE_S = float(os.environ.get("WAKEFUL_CHAOS_PAUSE_S", "0"))
EXPIRES = os.environ.get("WAKEFUL_CHAOS_EXPIRES", "60s")


class Desk(BaseModel):
    """State between turns."""

    refunds: int = 0


def tell(file: str, **said: object) -> None:
    """One line to a file, whole or not at all."""
    line = (
        json.dumps(
            {"at": time.monotonic_ns(), "at_ms": time.time() * 1_000, "pid": os.getpid(), **said}
        )
        + "\n"
    )
    descriptor = os.open(FOLDER / file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(descriptor, line.encode())
    os.close(descriptor)


@activity(contract=Read(), schedule_to_close=EXPIRES)
async def ask_model(text: str, *, key: str) -> int:
    """A thought, and a slow one where it is asked for one."""
    tell("model.ndjson", key=key, said="began")
    if PAUSE_S and text.startswith("slow"):
        await asyncio.sleep(PAUSE_S)
    tell("model.ndjson", key=key, said="ended")
    return len(text) * 100 + text.startswith("slow")


@activity(
    contract=Write(idempotent=True),
    approval=Needs("supervisor", when=lambda cents: cents % 2 == 0, expires=EXPIRES),
)
async def refund(cents: int, *, key: str) -> str:
    """Pays once per key, however often it is called."""
    tell("calls.ndjson", key=key)
    receipt = FOLDER / "paid" / key.replace("/", "_")
    receipt.parent.mkdir(exist_ok=True)
    try:
        descriptor = os.open(receipt, os.O_CREAT | os.O_EXCL | os.O_WRONLY)
    except FileExistsError:
        return f"receipt of {cents}"
    os.write(descriptor, str(cents).encode())
    os.close(descriptor)
    tell("payments.ndjson", key=key, cents=cents)
    return f"receipt of {cents}"


@workflow("desk", version=1)
async def desk(turn: Turn, desk: Desk, message: Message) -> Desk:
    """Thinks, asks, pays, answers."""
    cents = await turn.run(ask_model.call(message.text))
    action = refund.call(cents)
    approval = await turn.approval(action)
    if not approval.granted:
        await turn.complete({"refunded": 0, "because": approval.decision})
        return desk
    receipt = await turn.run(action)
    await turn.say(receipt)
    await turn.complete({"refunded": cents})
    return Desk(refunds=desk.refunds + 1)
