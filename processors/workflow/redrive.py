"""Drives a stretch of the history again on code that may be another, to its very end: would it decide the same?

A processor replays a stretch that is open, to go on. This replays what is over as well, and compares all that a workflow
decides: its steps, its replies, how it ended. What the engine added is left out: what it withdrew at the end of the turn,
and what came of a cancellation or a reset.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...commands.check import Facts
from ...events import records as r
from .advance import TURN_ENDED, context_of, message_of
from .choosing import Position
from .claims import CLAIM_FAULTS, Claims
from .definitions import Workflow
from .errors import WorkflowStuck
from .facts import describe, step_of
from .replay import Divergence, rebuild

_WITHDRAWN = r.ApprovalWithdrawn | r.TimerCancelled | r.WaitWithdrawn | r.ActivityCancelled
_HOLDS = r.SessionHeld | r.NondeterminismFound


def redrive(workflow: Workflow[Any], position: Position, facts: Facts) -> Divergence | None:
    """The first decision that differs, or nothing.

    `position` has the state after the fact that began the stretch, and all facts of it; `facts` the key that the digests
    were made with, and the store of large payloads. Nothing is stored, and no activity is called.
    """
    journal, held = _decided(position.journal)
    step = step_of(journal[-1].body) if journal else 0
    claims = Claims(position.tenant, facts.digest_key, facts.blobs)
    try:
        message = message_of(position.state, claims)
        context = context_of(position, facts)
        rebuilt = rebuild(workflow, context, position.state.data, message, journal)
    except CLAIM_FAULTS as fault:
        return Divergence(step, "a payload that can be read", fault.message)
    except WorkflowStuck as error:
        return Divergence(step, "an end of what it computes", f"{type(error).__name__}: {error}")
    if isinstance(rebuilt, Divergence):
        return rebuilt
    rebuilt.stretch.drop()
    asked = rebuilt.leftover[0] if rebuilt.leftover else None
    if isinstance(held, r.NondeterminismFound):
        return None  # what the code then would have done is not in the history
    if _told(held) == _told(asked):
        return None
    return Divergence(step_of(asked) if asked is not None else step, _told(held), _told(asked))


def _decided(journal: Sequence[r.Event]) -> tuple[list[r.Event], r.EventBody | None]:
    """The facts that the workflow lived through, and the hold in which they ended, if they did."""
    found: list[r.Event] = []
    held: r.EventBody | None = None
    for event in journal:
        body = event.body
        if isinstance(body, r.CancellationRequested | r.SessionCancelled | r.SessionReset):
            break
        if isinstance(
            body, r.CompensationStarted
        ):  # the workflow has failed, and the engine took over
            if body.failure is not None:
                failed = r.SessionFailed(body.turn, body.failure, messages_unread=0)
                found.append(r.Event(event.envelope, failed))
            break
        if isinstance(body, _WITHDRAWN) and body.reason == TURN_ENDED:
            continue
        if isinstance(body, _HOLDS):
            held = body
        elif isinstance(body, r.SessionReleased):
            held = None
        found.append(event)
    return found, held


def _told(body: r.EventBody | None) -> str:
    if body is None:
        return "nothing more"
    return describe(body) if isinstance(body, _HOLDS) else f"step {step_of(body)}: {describe(body)}"
