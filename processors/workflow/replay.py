"""Rebuilds a turn's coroutine from its journal, fact by fact in the log's order, and compares as it goes.

A fact that the workflow asked for must equal, in order, what the workflow asks for now: same kind, step, name and
digest. The first that does not is a `Divergence`. What the last fact leads to and the history does not hold yet
is `leftover`: the caller records it (first run, or release of a held session) or calls it a divergence. What a
release lets through is asked for at the time of the release: a hold of a week must not cost a deadline of an hour.
While a fact is fed, the stretch may look at what the history holds behind it (`ahead.py`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ...events import records as r
from .ahead import LIVE, Ahead
from .definitions import Message, Workflow
from .driver import Stretch
from .facts import INFORMS, RESOLVES, STARTS, describe, is_asked, step_of
from .stepping import TurnContext


@dataclass(frozen=True, slots=True)
class Divergence:
    """History holds `expected`, the code gave `actual`, at this step."""

    step: int
    expected: str
    actual: str


@dataclass(slots=True)
class Rebuilt:
    """A coroutine that stands where the journal ends."""

    stretch: Stretch
    leftover: list[r.EventBody] = field(default_factory=list)


def rebuild(
    workflow: Workflow[Any],
    context: TurnContext,
    data: r.Payload | None,
    message: Message,
    journal: Sequence[r.Event],
) -> Rebuilt | Divergence:
    """Replays a journal that begins with what started its stretch; gives the coroutine or the first difference.

    It may go on to the end of the stretch, which is a fact that the workflow asked for.
    """
    stretch = Stretch(workflow, context, data, message)
    asked: deque[r.EventBody] = deque()
    for at, event in enumerate(journal):
        body = event.body
        if at == 0 and isinstance(body, STARTS):
            asked.extend(stretch.start(event.envelope.at_ms, Ahead(journal, at)))
        elif is_asked(body):
            difference = _compare(body, asked.popleft() if asked else None)
            if difference is not None:
                stretch.drop()
                return difference
            stretch.adopt(body)
        elif isinstance(body, RESOLVES):
            if asked:  # an earlier activation asks for more than the history holds
                stretch.drop()
                return _difference(None, asked[0])
            stretch.ahead = Ahead(journal, at)
            asked.extend(stretch.feed(event))
        elif isinstance(body, INFORMS):
            stretch.learn(body)
        elif isinstance(body, r.SessionReleased | r.RecoveryRequested):
            held_ms = event.envelope.at_ms - stretch.now_ms
            stretch.now_ms = event.envelope.at_ms
            asked = deque(_postponed(late, held_ms) for late in asked)
    stretch.ahead = LIVE
    return Rebuilt(stretch, list(asked))


def _postponed(body: r.EventBody, by_ms: int) -> r.EventBody:
    """The same, asked for later."""
    match body:
        case r.ActivityRequested():
            return replace(body, deadline_ms=body.deadline_ms + by_ms)
        case r.ApprovalRequested() | r.JobAwaited() | r.ChildStarted():
            return replace(body, expires_at_ms=body.expires_at_ms + by_ms)
        case r.TimerSet():
            return replace(body, due_ms=body.due_ms + by_ms)
        case _:
            return body


def _compare(recorded: r.EventBody, asked: r.EventBody | None) -> Divergence | None:
    same = (
        asked is not None
        and describe(recorded) == describe(asked)
        and step_of(recorded) == step_of(asked)
    )
    return None if same else _difference(recorded, asked)


def _difference(recorded: r.EventBody | None, asked: r.EventBody | None) -> Divergence:
    told = [
        "nothing more" if body is None else f"step {step_of(body)}: {describe(body)}"
        for body in (recorded, asked)
    ]
    return Divergence(step_of(recorded if recorded is not None else asked), *told)
