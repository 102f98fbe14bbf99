"""How a workflow of Wakeful's own sets another session to work, for which it does not wait."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...events.records import Attribute
from .engine import written
from .turn import Turn


@dataclass(frozen=True, slots=True)
class Run:
    """One occasion: which session it is for, and what becomes of it where that one is there (`verdicts.WHERE_OPEN`)."""

    session_id: str
    workflow: str
    reason: str
    where_open: str
    attributes: tuple[Attribute, ...] = ()


async def start_run(turn: Turn, run: Run, *, trigger: str, data: Any) -> None:
    """Records it; the command goes out in the same transaction, in the name of whoever the turn answers.

    It is a step like any other: asked for again in a replay, it is the one that is recorded.
    """
    engine = await turn._here()  # noqa: SLF001 - one of its own, kept from users
    payload = written(data, "start_run", engine.payload)
    engine.start_run(
        run.workflow,
        run.session_id,
        (trigger, run.reason),
        payload,
        where_open=run.where_open,
        attributes=run.attributes,
    )
