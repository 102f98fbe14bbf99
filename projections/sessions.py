"""What facts about a session and its turns mean for its row: where it stands, what it waits for, how it ended."""

from __future__ import annotations

from ..events import records as r
from ..events.holding import RESOURCE
from ..events.state import Status
from . import attributes, escaping
from .rows import SESSIONS, Change
from .values import Values

WAITS_FOR_NOTHING = {"waiting_for": "[]", "waits": 0}

_NONE_LEFT = {"waiting_for": "[]", "waits": 0, "next_valid": "[]"}

WAITS = {
    "activity": 1,
    "approval": 2,
    "timer": 4,
    "uncertain": 8,
    "signal": 16,
    "inbox": 32,
    "job": 64,
    "child": 128,
}
"""Each kind of wait as a bit of the column `waits`, for which there are indexes."""

Said = (
    r.SessionOpened
    | r.MessageReceived
    | r.TurnStarted
    | r.ReplySent
    | r.SessionWaiting
    | r.TurnCompleted
)
Ended = (
    r.SessionCompleted
    | r.SessionFailed
    | r.CancellationRequested
    | r.SessionCancelled
    | r.CompensationStarted
)
Held = (
    r.NondeterminismFound
    | r.SessionHeld
    | r.SessionReleased
    | r.SessionReset
    | r.RecoveryRequested
    | r.CommandParked
    | r.CommandRefused
)


def said(session: Values, envelope: r.Envelope, body: Said) -> Change:
    """What was said, and which turn goes on."""
    row = session.row
    match body:
        case r.MessageReceived():
            return session.change(SESSIONS, heard=envelope.cause.offset, raises="messages")
        case r.ReplySent():
            session.put("last_reply", escaping.payload(body.message))
        case r.SessionWaiting():
            row["status"] = Status.WAITING
            _owed(session, body)
        case r.TurnStarted():
            row.update(WAITS_FOR_NOTHING, turn=body.turn)
            row["status"] = row["resting_status"] = Status.RUNNING
            session.text("trigger", body.trigger)
            session.text("trigger_reason", body.reason or None)
            session.text("workflow", body.workflow)
            row["workflow_version"] = body.workflow_version
            session.put("versions", escaping.value({v.name: v.version for v in body.versions}))
        case r.TurnCompleted():
            row["status"] = row["resting_status"] = Status.SUSPENDED
            _owed(session, body)
        case r.SessionOpened():
            row["status"] = row["resting_status"] = Status.OPENED
            row["opened_at_ms"] = envelope.at_ms
            row["turn"] = 0
            session.text("opened_by", envelope.actor)
            session.text("workflow", body.workflow)
            if body.attributes:
                attributes.told(session, body.attributes)
            if body.parent is not None:
                row["parent"] = body.parent.session_id
                session.put("inherited_taint", escaping.value(list(body.tainted_by)))
    return session.change(SESSIONS, heard=envelope.cause.offset)


def _owed(session: Values, body: r.SessionWaiting | r.TurnCompleted) -> None:
    """What it waits for; resources that it holds are in rows of their own, as they end without the session going on."""
    owed = [
        {
            "kind": o.kind,
            "id": o.id,
            "name": o.name,
            "expires_at_ms": o.expires_at_ms,
            "expiry": o.expiry,
        }
        for o in body.obligations
        if o.kind != RESOURCE
    ]
    session.put("waiting_for", escaping.value(owed))
    waits = 0
    for o in body.obligations:
        waits |= WAITS.get(o.kind, 0)
    session.row["waits"] = waits
    valid = [
        {"command": n.command, "allowed": n.allowed, "reason": n.reason} for n in body.next_valid
    ]
    session.put("next_valid", escaping.value(valid))


def ended(session: Values, envelope: r.Envelope, body: Ended) -> Change:
    """How the session came to its end, or that somebody asked for it."""
    row = session.row
    match body:
        case r.SessionCompleted():
            row.update(_NONE_LEFT, status=Status.COMPLETED)
            session.put("outcome", escaping.payload(body.outcome))
        case r.CompensationStarted():
            row.update(
                _NONE_LEFT,
                status=Status.COMPENSATING,
                resting_status=Status.COMPENSATING,
                held_reason=None,
                held_detail=None,
            )
            if body.failure is not None:
                session.failure("failure", body.failure)
        case r.SessionFailed():
            row.update(_NONE_LEFT, status=Status.FAILED)
            session.failure("failure", body.failure)
        case r.CancellationRequested():
            session.text("cancel_reason", body.reason)
        case r.SessionCancelled():
            row.update(_NONE_LEFT, status=Status.CANCELLED, held_reason=None, held_detail=None)
    return session.change(SESSIONS, heard=envelope.cause.offset)


def held(session: Values, envelope: r.Envelope, body: Held) -> Change:
    """Why the session cannot go on, or that it does again; and what was asked in vain."""
    row = session.row
    match body:
        case r.CommandRefused():
            return session.change(SESSIONS, heard=envelope.cause.offset, raises="refusals")
        case r.SessionHeld():
            row["status"] = Status.RECOVERING
            session.text("held_reason", body.reason)
            session.text("held_detail", body.detail)
        case r.NondeterminismFound():
            row["status"] = Status.RECOVERING
            row["held_reason"] = "nondeterminism"
            told = (
                f"turn {body.turn}, step {body.step}: expected {body.expected}, got {body.actual}"
            )
            session.text("held_detail", told)
        case r.SessionReleased():
            row.update(held_reason=None, held_detail=None, waiting_for="[]", waits=0)
            return session.change(SESSIONS, heard=envelope.cause.offset, releases=True)
        case r.SessionReset():
            row.update(held_reason=None, held_detail=None, waiting_for="[]", waits=0)
            row["status"] = row["resting_status"] = Status.SUSPENDED
        case r.RecoveryRequested():
            pass  # what comes of it follows
        case r.CommandParked():
            pass  # it is decided on release, and its events then say what came of it
    return session.change(SESSIONS, heard=envelope.cause.offset)
