"""What facts about children mean for their rows: one each in the session that opened it, from its start to how it ended."""

from __future__ import annotations

from ..events import records as r
from . import escaping
from .rows import CHILDREN, Change
from .values import Values

Child = (
    r.ChildStarted
    | r.ChildCompleted
    | r.ChildFailed
    | r.ChildCancelled
    | r.ChildExpired
    | r.ChildWithdrawn
    | r.LateChildRecorded
)


def record(envelope: r.Envelope, body: Child) -> Change:
    """The change of the child's row."""
    child = Values(envelope, body.child_id)
    if isinstance(body, r.ChildStarted):
        child.row.update(
            turn=body.turn,
            step=body.step,
            status="open",
            started_at_ms=envelope.at_ms,
            expires_at_ms=body.expires_at_ms,
        )
        child.text("workflow", body.workflow)
        return child.change(CHILDREN, creates=True)
    if isinstance(body, r.LateChildRecorded):
        child.row["late_end"] = body.end
        return child.change(CHILDREN)
    child.row["ended_at_ms"] = envelope.at_ms
    match body:
        case r.ChildCompleted():
            child.row.update(status="completed", result_digest=body.result.digest.hex())
            _tainted(child, body.tainted_by)
        case r.ChildFailed():
            child.row["status"] = "failed"
            child.failure("failure", body.failure)
            _tainted(child, body.tainted_by)
        case r.ChildCancelled():
            child.row["status"] = "cancelled"
            _tainted(child, body.tainted_by)
        case r.ChildExpired():
            child.row["status"] = "expired"
        case r.ChildWithdrawn():
            child.row["status"] = "withdrawn"
    return child.change(CHILDREN)


def _tainted(child: Values, tainted_by: tuple[str, ...]) -> None:
    if tainted_by:
        child.put("tainted_by", escaping.value(list(tainted_by)))
