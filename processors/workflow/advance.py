"""The fourth verb: what the workflow does next, after one more fact.

The coroutine is a cache: where it is missing (crash, eviction, failed transaction) it is rebuilt from the journal.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from ...commands.check import Facts
from ...commands.next_valid import next_valid
from ...events import records as r
from ...events.payloads import load_json
from ...events.state import State, Status
from .claims import CLAIM_FAULTS, Claims, held_by
from .definitions import Message, Workflow
from .driver import Stretch, TurnContext
from .replay import RESOLVES, Divergence, rebuild

_IDLE = (Status.OPENED, Status.SUSPENDED)


class Workflows(Protocol):
    """The workflows that are loaded, by name and version."""

    def newest(self, workflow: str) -> Workflow[Any] | None: ...
    def version(self, workflow: str, version: int) -> Workflow[Any] | None: ...


@dataclass(frozen=True, slots=True)
class Position:
    """One session as `advance` sees it: after `journal[-1]` was folded in; `journal` begins with `TurnStarted`."""

    tenant: str
    session_id: str
    state: State
    journal: Sequence[r.Event]


@dataclass(frozen=True, slots=True)
class Advanced:
    """The facts that follow, and the coroutine to keep (none: it ended, or was dropped)."""

    bodies: list[r.EventBody]
    stretch: Stretch | None


def advance(
    workflows: Workflows, position: Position, event: r.Event, stretch: Stretch | None, facts: Facts
) -> Advanced:
    """Drives the workflow after `event`; gives what it asks for next."""
    state = position.state
    if state.hold is not None or state.ended:
        _drop(stretch)
        return Advanced([], None)
    if state.status in _IDLE:
        _drop(stretch)
        return Advanced(_next_turn(workflows, state) if state.queue else [], None)
    if not isinstance(event.body, _RESUMES):
        return Advanced([], stretch)
    try:
        if (
            stretch is not None
            and not stretch.dead
            and not isinstance(event.body, r.TurnStarted | r.SessionReleased)
        ):
            asked = stretch.feed(event)
        else:
            rebuilt = _rebuild(workflows, position, facts)
            if not isinstance(rebuilt, tuple):
                return Advanced([rebuilt], None)
            stretch, asked = rebuilt
        stretch.claims.store(asked)
    except CLAIM_FAULTS as fault:
        _drop(stretch)
        return Advanced([held_by(fault)], None)
    bodies = [_complete(body, state) for body in asked]
    if bodies and isinstance(bodies[-1], _ENDS):
        _drop(stretch)
        stretch = None
    return Advanced(bodies, stretch)


_RESUMES = RESOLVES | r.TurnStarted | r.SessionReleased

_ENDS = r.TurnCompleted | r.SessionCompleted | r.SessionFailed | r.SessionHeld


def waiting(state: State) -> bool:
    """Whether only waits are left, so that the session parks."""
    return (
        state.status == Status.RUNNING
        and state.hold is None
        and not state.activities
        and state.waits
    )


def _next_turn(workflows: Workflows, state: State) -> list[r.EventBody]:
    workflow = workflows.newest(state.workflow)
    if workflow is None:
        return [
            r.SessionHeld(
                "workflow_missing",
                f"no workflow {state.workflow!r} is loaded: deploy it, then release",
            )
        ]
    versions = [r.Version("workflow", f"{workflow.name}:{workflow.version}")]
    versions += [r.Version(name, version) for name, version in workflow.versions]
    started = r.TurnStarted(
        turn=state.turn + 1,
        trigger="message",
        reason="",
        message_id=state.queue[0].message_id,
        workflow=workflow.name,
        workflow_version=workflow.version,
        versions=tuple(versions),
    )
    return [started]


def _rebuild(
    workflows: Workflows, position: Position, facts: Facts
) -> tuple[Stretch, list[r.EventBody]] | r.SessionHeld | r.NondeterminismFound:
    state = position.state
    workflow = workflows.version(state.workflow, state.workflow_version)
    if workflow is None:
        told = f"workflow {state.workflow!r} version {state.workflow_version} is not loaded: deploy it, then release"
        return r.SessionHeld("workflow_missing", told)
    context = TurnContext(
        position.tenant, position.session_id, state.turn, facts.digest_key, facts.blobs
    )
    message = _message(state, Claims(position.tenant, facts.digest_key, facts.blobs))
    rebuilt = rebuild(workflow, context, state.data, message, position.journal)
    if isinstance(rebuilt, Divergence):
        return r.NondeterminismFound(state.turn, rebuilt.step, rebuilt.expected, rebuilt.actual)
    rebuilt.stretch.claims.forget(position.journal)
    return rebuilt.stretch, rebuilt.leftover


def _message(state: State, claims: Claims) -> Message:
    queued = state.message
    if queued is None:
        return Message(id="", actor="", text="", data=None)
    data = load_json(claims.handed(queued.message))
    text = data.get("text", "") if isinstance(data, dict) else data
    return Message(queued.message_id, queued.actor, text if isinstance(text, str) else "", data)


def _complete(body: r.EventBody, state: State) -> r.EventBody:
    """Fills in what only the state knows."""
    match body:
        case r.TurnCompleted():
            after = replace(state, status=Status.SUSPENDED, approvals=(), timers=(), activities=())
            return replace(body, next_valid=next_valid(after))
        case r.SessionCompleted() | r.SessionFailed():
            return replace(body, messages_unread=len(state.queue))
        case r.ActivityCancelled():
            running = (a.attempt for a in state.activities if a.activity_id == body.activity_id)
            return replace(body, attempt=next(running, body.attempt))
        case _:
            return body


def withdrawals(state: State) -> list[r.EventBody]:
    """What is still open when a turn ends; nobody waits for it any more."""
    told = "the turn ended"
    return [
        *(r.ApprovalWithdrawn(a.proposal_id, told) for a in state.approvals),
        *(r.TimerCancelled(t.timer_id, told) for t in state.timers),
        *(r.ActivityCancelled(a.activity_id, a.attempt, told) for a in state.activities),
    ]


def _drop(stretch: Stretch | None) -> None:
    if stretch is not None:
        stretch.drop()
