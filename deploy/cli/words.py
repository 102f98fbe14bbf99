"""Events, outcomes and rows as JSON objects, and as one line each for people."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from ...events.errors import InvalidPayload
from ...events.payloads import load_json
from ...events.records import Event, Failure, Outcome, Payload
from .output import shown_text, when

TEXT_MAX = 100

SUMMARIES: dict[str, tuple[str, ...]] = {
    "SessionOpened": ("workflow",),
    "SessionWaiting": ("obligations",),
    "MessageReceived": ("message",),
    "TurnStarted": ("turn", "trigger", "workflow_version"),
    "ReplySent": ("message",),
    "TurnCompleted": ("turn", "steps"),
    "SessionCompleted": ("outcome",),
    "SessionFailed": ("failure",),
    "CancellationRequested": ("reason",),
    "NondeterminismFound": ("step", "expected", "actual"),
    "SessionHeld": ("reason", "detail"),
    "CommandParked": ("command_type",),
    "SessionReleased": ("reason",),
    "CommandRefused": ("command_type", "reason", "detail"),
    "ActivityRequested": ("name", "arguments", "queue", "approval"),
    "ActivityCompleted": ("activity_id", "result"),
    "ActivityFailed": ("activity_id", "failure"),
    "ActivityCancelled": ("activity_id", "reason"),
    "ActivityRetryScheduled": ("activity_id", "attempt", "due_ms", "failure"),
    "ActivityRetried": ("activity_id", "attempt"),
    "LateResultRecorded": ("activity_id", "attempt"),
    "ApprovalRequested": ("proposal_id", "name", "arguments", "approver"),
    "ApprovalGranted": ("proposal_id", "comment"),
    "ApprovalRejected": ("proposal_id", "comment"),
    "ApprovalExpired": ("proposal_id",),
    "ApprovalWithdrawn": ("proposal_id", "reason"),
    "TimerSet": ("timer_id", "due_ms"),
    "TimerFired": ("timer_id",),
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
    gist = "  ".join(
        _gist(name, getattr(event.body, name)) for name in SUMMARIES.get(kind, ())
    ).rstrip()
    return f"{when(envelope.at_ms)}  {envelope.seq:>4}  {kind:<20}  {gist}".rstrip()


def outcome_line(outcome: Outcome) -> str:
    """Time, kind and what was said or why."""
    parts = [
        shown_text(as_json(outcome.message), TEXT_MAX) if outcome.message else "",
        f"proposal {outcome.proposal_id}" if outcome.proposal_id else "",
        f"{outcome.detail} by {outcome.reason}"
        if outcome.kind == "approval_wanted"
        else ": ".join(filter(None, (outcome.reason, outcome.detail))),
    ]
    told = "  ".join(filter(None, parts))
    return f"{when(outcome.at_ms)}  {outcome.kind:<16}  {shown_text(told, 300)}".rstrip()


def as_json(value: Any) -> Any:
    """Any stored record as JSON; a payload as the value it holds, or what it refers to."""
    if isinstance(value, Payload) and value.ref is not None:
        return {"ref": value.ref, "size": value.size}
    if isinstance(value, Payload):
        try:
            return load_json(value)
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
        return shown_text(f"{value.kind}: {value.message}", TEXT_MAX)
    if name == "obligations":
        return "for " + ", ".join(f"{owed.kind} {owed.name}" for owed in value)
    if name.endswith("_ms"):
        return f"{name.removesuffix('_ms')} {when(value)}"
    if name in {"turn", "steps", "step", "attempt", "workflow_version"}:
        return f"{name.replace('workflow_', '')} {value}"
    return shown_text(str(value), TEXT_MAX) if value not in (None, "") else ""
