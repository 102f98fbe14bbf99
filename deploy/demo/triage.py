"""The demo's agent: a model says what the customer wants, people approve what is costly, the answer goes out.

Loaded by processors and workers as any app is (`wakeful run wakeful.deploy.demo.triage` works, too). Where the
answers go, `WAKEFUL_DEMO_OUTBOX` says.
"""

from __future__ import annotations

import os
from pathlib import Path

from pydantic import BaseModel

from ...processors.activities.contracts import Read, Write
from ...processors.activities.definitions import activity
from ...processors.activities.rules import Needs
from ...processors.workflow.definitions import Message, workflow
from ...processors.workflow.errors import ActivityError
from ...processors.workflow.turn import Turn
from .model import PROMPT_VERSION, Kind, Verdict, model_from
from .outbox import Answer, Outbox

APP = __name__
NAME = "triage"
OUTBOX = "WAKEFUL_DEMO_OUTBOX"
GATED: tuple[Kind, ...] = ("refund", "complaint")
MODEL_TRIES = 3
TRY_AGAIN_AFTER = "2s"

MODEL = model_from(os.environ)

UNREAD = "We could not read your message just now. A person will look at it today."
DECLINED = "Thank you for your message. A person will look at your case and write to you."


class Judged(Verdict):
    """A verdict, and the id of the call that gave it: evidence of which call it was."""

    call: str


class Case(BaseModel):
    """What a session remembers."""

    kind: str = ""


@activity(contract=Read(), queue="models", timeout="40s")
async def understand(text: str, *, key: str) -> Judged:
    """Asks the model what the customer wants."""
    with outbox().call(key) as call:
        verdict = await MODEL.judge(text)
    return Judged(kind=verdict.kind, answer=verdict.answer, call=call)


def is_gated(session_id: str, customer: str, kind: str, text: str) -> bool:
    """Whether such an answer costs something: then a supervisor has to approve it."""
    del session_id, customer, text
    return kind in GATED


@activity(
    contract=Write(idempotent=True),
    queue="outbox",
    timeout="10s",
    approval=Needs("supervisor", when=is_gated, expires="24h"),
)
async def send_answer(session_id: str, customer: str, kind: str, text: str, *, key: str) -> str:
    """Writes the answer to the outbox: one file per key, however often it is called."""
    return outbox().write(Answer(key, session_id, customer, kind, text)).name


@workflow(NAME, version=1, versions={"model": MODEL.name, "prompt": PROMPT_VERSION})
async def triage(turn: Turn, case: Case, message: Message) -> Case:
    """One message, one answer; the session ends with it."""
    verdict = await judge(turn, message.text)
    customer = str(message.data.get("customer", "")) if isinstance(message.data, dict) else ""
    kind, text = (verdict.kind, verdict.answer) if verdict else ("unread", UNREAD)
    answer = send_answer.call(turn.session_id, customer, kind, text)
    approval = await turn.approval(answer)
    if not approval.granted:
        kind = "declined"
        answer = send_answer.call(turn.session_id, customer, kind, DECLINED)
    await turn.run(answer)
    await turn.complete({"kind": kind, "approval": approval.decision, "by": approval.actor})
    return case.model_copy(update={"kind": kind})


async def judge(turn: Turn, text: str) -> Judged | None:
    """The model's verdict; null where it fails again and again."""
    for tried in range(1, MODEL_TRIES + 1):
        try:
            return await turn.run(understand.call(text))
        except ActivityError:
            if tried < MODEL_TRIES:
                await turn.sleep(TRY_AGAIN_AFTER)
    return None


def outbox() -> Outbox:
    """The outbox that the environment names."""
    folder = os.environ.get(OUTBOX)
    if not folder:
        raise RuntimeError(f"{OUTBOX} is not set: name the folder for the answers")
    return Outbox(Path(folder))
