"""Events, outcomes and rows as JSON objects, and as one line each for people."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields
from shlex import quote
from typing import Any

from ...events.errors import InvalidPayload
from ...events.holding import RESOURCE
from ...events.payloads import load_json
from ...events.records import Event, Failure, Obligation, Outcome, Payload, SessionWaiting
from ...events.sharing import PARTS, shown_parts
from ...events.state import NEVER_MS
from .text import shown_text, when

TEXT_MAX = 100

WHY_MAX = 300
"""A failure's words are longer: what policy forbids is named with its policies and their set."""

SUMMARIES: dict[str, tuple[str, ...]] = {
    "SessionOpened": ("workflow",),
    "SessionWaiting": ("obligations",),
    "MessageReceived": ("message",),
    "TurnStarted": ("turn", "trigger", "workflow_version", "reason"),
    "ReplySent": ("message",),
    "TurnCompleted": ("turn", "steps"),
    "TurnContinued": ("turn", "stretch", "steps"),
    "VersionMarked": ("change",),
    "ArtifactRecorded": ("artifact_id", "version"),
    "AttributesSet": ("attributes", "changed"),
    "JobAwaited": ("job_id", "name", "expires_at_ms"),
    "JobCompleted": ("job_id", "result"),
    "JobFailed": ("job_id", "failure"),
    "JobExpired": ("job_id",),
    "JobWithdrawn": ("job_id", "reason"),
    "ChildStarted": ("child_id", "workflow", "expires_at_ms"),
    "ChildCompleted": ("child_id", "result"),
    "ChildFailed": ("child_id", "failure"),
    "ChildCancelled": ("child_id",),
    "ChildExpired": ("child_id",),
    "ChildWithdrawn": ("child_id", "reason"),
    "LateChildRecorded": ("child_id", "end"),
    "ResourceAttached": ("kind", "resource_id", "expires_at_ms"),
    "ResourceReattached": ("kind", "resource_id", "expires_at_ms"),
    "ResourceExpired": ("kind", "resource_id", "reason"),
    "ResourceReleased": ("kind", "resource_id"),
    "RunStarted": ("run_id", "workflow", "reason"),
    "TriggerReceived": ("trigger", "reason", "data"),
    "SignalReceived": ("name", "data"),
    "SignalAwaited": ("name",),
    "SignalDelivered": ("wait_id", "data"),
    "InboxAwaited": ("wait_id",),
    "InboxTaken": ("wait_id", "messages"),
    "WaitWithdrawn": ("wait_id", "reason"),
    "SessionCompleted": ("outcome",),
    "SessionFailed": ("failure",),
    "CancellationRequested": ("reason",),
    "SessionCancelled": ("uncertain", "compensated", "not_compensated", "children"),
    "CompensationStarted": ("cause", "compensating", "children"),
    "CompensationsReleased": ("turn",),
    "NondeterminismFound": ("step", "expected", "actual"),
    "SessionHeld": ("reason", "detail"),
    "CommandParked": ("command_type",),
    "SessionReleased": ("reason",),
    "SessionReset": ("to_turn", "message_id", "done", "uncertain", "reason"),
    "SessionPinned": ("version", "reason"),
    "RecoveryRequested": ("activity_id", "attempt", "reason"),
    "CommandRefused": ("command_type", "reason", "detail"),
    "ActivityRequested": ("name", "arguments", "queue", "approval", "withheld_ms", "compensates"),
    "ActivityStarted": ("activity_id", "attempt", "worker"),
    "ActivityProgressed": ("activity_id", "progress"),
    "ActivityReturned": ("activity_id", "attempt", "reason", "withheld_ms"),
    "ActivityCompleted": ("activity_id", "result", "recovered"),
    "ActivityFailed": ("activity_id", "failure"),
    "ActivityUncertain": ("activity_id", "failure"),
    "ActivityResolved": ("activity_id", "resolution", "result", "comment"),
    "ActivityCancelled": ("activity_id", "reason"),
    "ActivityRetryScheduled": ("activity_id", "attempt", "due_ms", "failure"),
    "ActivityRetried": ("activity_id", "attempt", "withheld_ms"),
    "LateResultRecorded": ("activity_id", "attempt"),
    "ApprovalRequested": ("proposal_id", "name", "arguments", "approver", "because"),
    "ApprovalGranted": ("proposal_id", "comment"),
    "ApprovalRejected": ("proposal_id", "comment"),
    "ApprovalExpired": ("proposal_id",),
    "ApprovalVoted": ("proposal_id", "comment"),
    "ApprovalAnswered": ("proposal_id", "answer"),
    "ApprovalVoided": ("proposal_id", "drift"),
    "ArtifactChanged": ("artifact_id", "version"),
    "ApprovalWithdrawn": ("proposal_id", "reason"),
    "TimerSet": ("timer_id", "due_ms"),
    "TimerFired": ("timer_id",),
    "TimerCancelled": ("timer_id", "reason"),
}
"""Fields that a line shows; the others are in `--json`."""


def event_json(event: Event, *, partition: int, offset: int) -> dict[str, Any]:
    """An event with its place; user data decoded."""
    envelope = event.envelope
    return {
        "kind": type(event.body).__name__,
        "tenant": envelope.tenant,
        "session_id": envelope.session_id,
        "seq": envelope.seq,
        "at_ms": envelope.at_ms,
        "actor": envelope.actor,
        "on_behalf_of": envelope.on_behalf_of,
        "channel": envelope.channel,
        "command_id": envelope.cause.command_id,
        "command_offset": envelope.cause.offset,
        "partition": partition,
        "offset": offset,
        "body": as_json(event.body),
    }


def outcome_json(outcome: Outcome, *, partition: int, offset: int) -> dict[str, Any]:
    """An outcome with its place; user data decoded."""
    return {**as_json(outcome), "partition": partition, "offset": offset}


def event_line(event: Event) -> str:
    """Time, number, kind and the gist."""
    envelope, kind = event.envelope, type(event.body).__name__
    parts = [_gist(name, getattr(event.body, name)) for name in SUMMARIES.get(kind, ())]
    if isinstance(event.body, SessionWaiting):
        doubts = [o for o in event.body.obligations if o.kind == "uncertain"]
        parts += [f"resolve it with {resolving(envelope.session_id, o.id)}" for o in doubts]
    parts.append(withheld(event.body))
    gist = "  ".join(filter(None, parts))
    return f"{when(envelope.at_ms)}  {envelope.seq:>4}  {kind:<20}  {gist}".rstrip()


def waits_among(obligations: Iterable[Obligation]) -> tuple[Obligation, ...]:
    """Those that the session waits for: a resource that it holds is none of these."""
    return tuple(owed for owed in obligations if owed.kind != RESOURCE)


def withheld(body: object) -> str:
    """That an attempt was not handed out, until when, and which policies say so; empty for any other fact."""
    left_ms = getattr(body, "withheld_ms", None)
    if left_ms is None:
        return ""
    ids = ", ".join(getattr(body, "policy_ids", ()))
    by = f" by {ids}" if ids else ""
    return f"withheld{by}, {'for good' if left_ms == NEVER_MS else 'until it is approved'}"


def outcome_line(outcome: Outcome) -> str:
    """Time, kind and what was said or why."""
    parts = [
        shown_text(as_json(outcome.message), TEXT_MAX) if outcome.message else "",
        f"proposal {outcome.proposal_id}" if outcome.proposal_id else "",
        f"{outcome.detail} by {outcome.reason}"
        if outcome.kind == "approval_wanted"
        else ": ".join(filter(None, (outcome.reason, outcome.detail))),
    ]
    told = shown_text("  ".join(filter(None, parts)), 300)
    if outcome.kind == "uncertain":
        told += f": see 'wakeful activity list --uncertain {outcome.session_id}'"
    return f"{when(outcome.at_ms)}  {outcome.kind:<16}  {told}".rstrip()


def resolving(session_id: str, activity_id: str) -> str:
    """How a person says what became of an uncertain activity."""
    return f"'wakeful activity resolve {session_id} {activity_id} --completed JSON', or --failed"


def wanting(kind: str, id_: str, name: str, session_id: str, *, why: str = "") -> str:
    """What a wait wants of somebody, and how to give it; empty for one that ends by itself."""
    match kind:
        case "uncertain":
            doubt = f": {shown_text(why, TEXT_MAX)}" if why else ""
            how = resolving(session_id, id_)
            return f"activity {name} is uncertain{doubt}; resolve it with {how}"
        case "signal":
            return f"waiting for signal {name}: 'wakeful signal {session_id} {quote(name)} JSON'"
        case "job":
            return f"waiting for job {name}: 'wakeful job complete {id_} JSON'"
        case "inbox":
            return f"waiting for a message: 'wakeful session send {session_id} TEXT'"
        case "approval":
            return f"waiting for approval of {name}: 'wakeful approval approve {id_} --session {session_id}'"
        case _:
            return ""


def as_json(value: Any) -> Any:
    """Any stored record as JSON; a payload as the value it holds, or what it refers to."""
    if isinstance(value, Payload) and value.ref is not None:
        return {"ref": value.ref, "size": value.size}
    if isinstance(value, Payload):
        try:
            return {"parts": shown_parts(value)} if value.encoding == PARTS else load_json(value)
        except InvalidPayload as error:
            return {"unreadable": str(error)}
    if hasattr(value, "__dataclass_fields__"):
        return {field.name: as_json(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, list | tuple):
        return [as_json(item) for item in value]
    if isinstance(value, bytes):
        return value.hex()
    return value


def _gist(name: str, value: Any) -> str:
    if isinstance(value, Payload):
        return shown_text(as_json(value), TEXT_MAX)
    if isinstance(value, Failure):
        return shown_text(f"{value.kind}: {value.message}", WHY_MAX)
    if isinstance(value, bool):
        return f"{name}" if value else ""
    if name == "messages":
        said = "; ".join(shown_text(as_json(taken.message), TEXT_MAX) for taken in value)
        return f"{len(value)} messages{': ' + said if said else ''}"
    if isinstance(value, tuple) and name == "uncertain":
        return f"uncertain: {', '.join(value)}" if value else ""
    if name in {"drift", "because"}:
        return "; ".join(value)
    if name == "withheld_ms":
        return ""  # told with the policies, see `withheld`
    if name == "obligations":
        return "for " + ", ".join(f"{owed.kind} {owed.name}" for owed in waits_among(value))
    if name.endswith("_ms"):
        return f"{name.removesuffix('_ms')} {when(value)}"
    if name in {"turn", "stretch", "steps", "step", "attempt", "workflow_version"}:
        return f"{name.replace('workflow_', '')} {value}"
    return shown_text(str(value), TEXT_MAX) if value not in (None, "") else ""
