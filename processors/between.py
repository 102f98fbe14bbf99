"""Commands that follow from facts: from the session that opens a child to the child, and from the child back; to a run.

They are written in the transaction of the fact that they follow from, and their ids are derived. Pure.
"""

from __future__ import annotations

from ..commands import children, runs
from ..commands import models as m
from ..events import records as r
from ..events.state import State

_ENDS = r.SessionCompleted | r.SessionFailed | r.SessionCancelled
_LETS_GO = r.ChildExpired | r.ChildWithdrawn
_LEADS_ON = r.ChildStarted | r.RunStarted | _LETS_GO | r.CompensationStarted | _ENDS


def commands_of(event: r.Event, before: State | None) -> tuple[m.Command, ...]:
    """What other sessions are to be told of this fact; `before` is the state that it met."""
    body = event.body
    if before is None or not isinstance(body, _LEADS_ON):
        return ()
    told: list[m.Command] = []
    match body:
        case r.ChildStarted():
            told.append(_start(event, body, before))
        case r.RunStarted():
            told.append(_run(event, body, before))
        case r.ChildExpired():
            told.append(_cancel(event, body.child_id, children.EXPIRED_WITH))
        case r.ChildWithdrawn():
            told.append(_cancel(event, body.child_id, body.reason))
        case r.CompensationStarted():
            told += [_cancel(event, child, children.CANCELLED_WITH) for child in body.children]
        case r.SessionCancelled():
            told += [
                _cancel(event, child.child_id, children.CANCELLED_WITH) for child in before.children
            ]
        case _:
            pass
    own = event.envelope.session_id
    end = None if before.parent is None else children.end_of(own, body, before.tainted_by)
    if end is not None and before.parent is not None:
        told.append(_command(event, before.parent.session_id, f"end:{own}", end))
    return tuple(told)


def refused(command: m.Command, check_failed: str, told: str, at_ms: int) -> m.Command | None:
    """What the parent is told of a child that was not opened, though nothing of it is a fact."""
    end = children.not_started(command, check_failed, told)
    if end is None or not isinstance(command.body, m.StartChild):
        return None
    asked = command.header
    header = m.CommandHeader(
        tenant=asked.tenant,
        session_id=command.body.parent.session_id,
        command_id=f"end:{asked.session_id}",
        issued_at_ms=at_ms,
        actor=asked.actor,
        on_behalf_of=asked.on_behalf_of,
        channel=children.CHANNEL,
        expected_seq=None,
    )
    return m.Command(header, end)


def _start(event: r.Event, body: r.ChildStarted, before: State) -> m.Command:
    depth = 1 if before.parent is None else before.parent.depth + 1
    parent = r.Parent(event.envelope.session_id, depth, body.expires_at_ms)
    start = m.StartChild(body.workflow, body.input, parent, body.attributes, before.tainted_by)
    return _command(event, body.child_id, children.start_id(body.child_id), start)


def _run(event: r.Event, body: r.RunStarted, before: State) -> m.Command:
    """In the name of whoever the session acts for, as if that one had asked for it at this time."""
    envelope = event.envelope
    header = m.CommandHeader(
        tenant=envelope.tenant,
        session_id=body.run_id,
        command_id=runs.command_id(envelope.session_id, envelope.seq),
        issued_at_ms=envelope.at_ms,
        actor=envelope.on_behalf_of or envelope.actor,
        on_behalf_of=None,
        channel=runs.CHANNEL,
        expected_seq=None,
    )
    asked = (body.workflow, body.trigger, body.reason, body.data, body.where_open)
    return m.Command(header, m.StartRun(*asked, body.attributes, before.tainted_by))


def _cancel(event: r.Event, child_id: str, reason: str) -> m.Command:
    cancel = m.CancelChild(event.envelope.session_id, reason)
    return _command(event, child_id, f"cancel:{child_id}", cancel)


def _command(event: r.Event, session_id: str, command_id: str, body: m.CommandBody) -> m.Command:
    """By whom and for whom the fact is, at its time."""
    envelope = event.envelope
    header = m.CommandHeader(
        tenant=envelope.tenant,
        session_id=session_id,
        command_id=command_id,
        issued_at_ms=envelope.at_ms,
        actor=envelope.actor,
        on_behalf_of=envelope.on_behalf_of,
        channel=children.CHANNEL,
        expected_seq=None,
    )
    return m.Command(header, body)
