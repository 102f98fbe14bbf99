"""What tests of resources share: a sandbox that is nowhere, and a workflow that uses one."""

from typing import Any

from pydantic import BaseModel

from tests.processors.desk import Desk
from wakeful import ActivityError, Message, Read, Retry, Turn, Write, activity, workflow
from wakeful.testing import Rehearsal, rehearse


class Box(BaseModel):
    """Where a sandbox listens."""

    address: str


@activity(contract=Write(idempotent=True))
async def start(image: str) -> Box:
    """Sets one up."""
    return Box(address=f"{image}-1")


@activity(contract=Write(idempotent=True))
async def restore(box: Box) -> Box:
    """Sets it up again."""
    return Box(address=f"{box.address}'")


@activity(contract=Write(idempotent=True))
async def stop(box: Box) -> None:
    """Ends it."""


@activity(contract=Read(), retry=Retry(attempts=3))
async def run(box: Box, code: str) -> str:
    """Does something in it."""
    return f"{code} in {box.address}"


@workflow("coder", version=1)
async def coder(turn: Turn, desk: Desk, message: Message) -> Desk:
    """Runs what it is told in its sandbox, twice where the first one is gone."""
    for _ in range(2):
        box = await turn.resource(
            "sandbox", attach=start.call("py"), ttl="30m", reconstruct=restore.call, release=stop
        )
        if message.text == "stop":
            await turn.release(box)
            await turn.release(box)
            break
        try:
            told = await turn.run(run.call(box.handle, message.text))
        except ActivityError as error:
            await turn.say(f"{error.failure.kind} {error.lost}")
            if error.lost is None:
                raise
        else:
            await turn.say(f"{told}, {box.how}")
            break
    return desk


DECLARED = (start, restore, stop, run)


def begun() -> Rehearsal:
    """A session that has its sandbox."""
    opened = rehearse(coder, *DECLARED)
    opened.crash_everywhere()
    opened.send("a")
    return opened


def of(session: Rehearsal, kind: type) -> list[Any]:
    return [body for body in session.events if isinstance(body, kind)]


def keys(session: Rehearsal, name: str) -> set[str | None]:
    """One for each call that was asked for: after a crash it is made again, under the same."""
    return {called.key for called in session.calls(name)}
