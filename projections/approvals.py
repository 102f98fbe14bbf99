"""What facts about proposals mean for the approvals: one row each, from the question to the decision."""

from __future__ import annotations

from ..events import records as r
from . import escaping
from .rows import APPROVALS, Change
from .values import Values

Decided = (
    r.ApprovalGranted
    | r.ApprovalRejected
    | r.ApprovalExpired
    | r.ApprovalAnswered
    | r.ApprovalVoided
    | r.ApprovalWithdrawn
)


def requested(envelope: r.Envelope, body: r.ApprovalRequested) -> Change:
    """The row of a new proposal."""
    approval = Values(envelope, body.proposal_id)
    approval.row.update(
        turn=body.turn,
        step=body.step,
        digest=body.digest.hex(),
        status="requested",
        requested_at_ms=envelope.at_ms,
        expires_at_ms=body.expires_at_ms,
    )
    approval.text("action", body.name)
    approval.text("contract", body.contract)
    approval.put("arguments", escaping.payload(body.arguments))
    approval.text("approver", body.approver)
    approval.row["quorum"] = body.quorum
    approval.text("requester", body.requester or None)
    approval.text("supersedes", body.supersedes)
    approval.text("activity_id", body.activity_id)
    approval.row["policies"] = None if body.policies is None else body.policies.hex()
    approval.put("because", escaping.value(list(body.because)))
    return approval.change(APPROVALS, creates=True)


def decided(envelope: r.Envelope, body: Decided) -> Change:
    """How the proposal ended, and by whom."""
    approval = Values(envelope, body.proposal_id)
    approval.row["decided_at_ms"] = envelope.at_ms
    match body:
        case r.ApprovalGranted() | r.ApprovalRejected():
            approval.row["status"] = (
                "granted" if isinstance(body, r.ApprovalGranted) else "rejected"
            )
            approval.text("decided_by", envelope.actor)
            approval.text("decided_on_behalf_of", envelope.on_behalf_of)
            approval.text("comment", body.comment)
        case r.ApprovalAnswered():
            approval.row["status"] = "answered"
            approval.text("decided_by", envelope.actor)
            approval.text("decided_on_behalf_of", envelope.on_behalf_of)
            approval.put("answer", escaping.payload(body.answer))
        case r.ApprovalVoided():
            approval.row["status"] = "voided"
            approval.text("comment", "; ".join(body.drift))
        case r.ApprovalExpired():
            approval.row["status"] = "expired"
        case r.ApprovalWithdrawn():
            approval.row["status"] = "withdrawn"
            approval.text("comment", body.reason)
    return approval.change(APPROVALS)


def voted(envelope: r.Envelope, body: r.ApprovalVoted) -> Change:
    """One more of the people who must approve."""
    return Values(envelope, body.proposal_id).change(APPROVALS, raises="votes")
