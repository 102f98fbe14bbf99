"""What facts about proposals mean for a session: which are open, how each ended, and what may run by which approval.

A proposal is asked for by the workflow, and its grant waits until the workflow uses it; or policy asks for it before an
activity is dispatched, which then waits withheld, and its end is the activity's own.
"""

from __future__ import annotations

from . import records as r
from . import state as s
from .errors import Unfoldable
from .replacing import replace
from .state import OpenApproval, State
from .verdicts import ANSWERED, APPROVED, EXPIRED, REJECTED, VOIDED, WITHDRAWN

Proposed = (
    r.ApprovalRequested
    | r.ApprovalGranted
    | r.ApprovalRejected
    | r.ApprovalExpired
    | r.ApprovalWithdrawn
    | r.ApprovalVoted
    | r.ApprovalVoided
    | r.ApprovalAnswered
)


def evolve(state: State, status: str, body: Proposed, actor: str) -> State:
    """The state after one more fact about a proposal; `status` is where the fact leads."""
    match body:
        case r.ApprovalRequested():
            return _proposed(state, body)
        case r.ApprovalVoted():
            asked = _open(state, body.proposal_id, "voted for")
            voted = replace(asked, votes=(*asked.votes, actor))
            return replace(
                state, approvals=tuple(voted if a is asked else a for a in state.approvals)
            )
        case r.ApprovalVoided():
            return _voided(state, body, actor)
        case r.ApprovalGranted():
            return _granted(state, status, body, actor)
        case r.ApprovalRejected():
            told = f"{actor} rejected it" + (f": {body.comment}" if body.comment else "")
            return _ended(state, status, body.proposal_id, REJECTED, actor, told)
        case r.ApprovalExpired():
            return _ended(state, status, body.proposal_id, EXPIRED, "", "nobody decided in time")
        case r.ApprovalWithdrawn():
            # With it goes the activity that waits for it, if one does.
            _open(state, body.proposal_id, WITHDRAWN)
            return _decided(state, status, body.proposal_id, WITHDRAWN, "")
        case r.ApprovalAnswered():
            told = f"{actor} answered, and did not approve it"
            return _ended(state, status, body.proposal_id, ANSWERED, actor, told)


def _proposed(state: State, body: r.ApprovalRequested) -> State:
    """A step of the turn, unless it takes another one's place, or policy asks for it."""
    proposal = OpenApproval(
        body.proposal_id,
        body.step,
        body.name,
        body.digest,
        body.approver,
        body.expires_at_ms,
        quorum=body.quorum,
        requester=body.requester,
        relies_on=body.relies_on,
        activity_id=body.activity_id,
    )
    own = body.supersedes is None and body.activity_id is None
    steps = body.step if own else state.steps
    return replace(state, approvals=(*state.approvals, proposal), steps=steps)


def _granted(state: State, status: str, body: r.ApprovalGranted, actor: str) -> State:
    """The workflow's to use, or that of the activity which waits for it."""
    asked = _open(state, body.proposal_id, APPROVED)
    grant = s.Grant(body.proposal_id, body.digest)
    if asked.activity_id is None:
        state = replace(state, grants=(*state.grants, grant))
    else:
        state = _changed(state, asked.activity_id, grant=grant)
    return _decided(state, status, body.proposal_id, APPROVED, actor)


def _voided(state: State, body: r.ApprovalVoided, actor: str) -> State:
    """One that is open, or the grant of an activity that is not dispatched any more."""
    users = [
        a
        for a in state.activities
        if a.grant is not None and a.grant.proposal_id == body.proposal_id
    ]
    if not users:
        _open(state, body.proposal_id, VOIDED)
    for activity in users:  # what policy says of it stays
        state = _changed(state, activity.activity_id, denied=activity.denied)
    return _decided(state, state.status, body.proposal_id, VOIDED, actor)


def _ended(
    state: State, status: str, proposal_id: str, decision: str, actor: str, told: str
) -> State:
    asked = _open(state, proposal_id, decision)
    if asked.activity_id is not None:
        state = _changed(state, asked.activity_id, denied=told)
    return _decided(state, status, proposal_id, decision, actor)


def _decided(state: State, status: str, proposal_id: str, decision: str, actor: str) -> State:
    decided = (*state.decided, s.Decided(proposal_id, decision, actor))
    return replace(
        state,
        status=status,
        approvals=tuple(a for a in state.approvals if a.proposal_id != proposal_id),
        decided=decided[-s.SETTLED_MAX :],
    )


def _open(state: State, proposal_id: str, what: str) -> OpenApproval:
    for asked in state.approvals:
        if asked.proposal_id == proposal_id:
            return asked
    raise Unfoldable(f"proposal {proposal_id} is {what} but is not open")


def _changed(
    state: State, activity_id: str, *, grant: s.Grant | None = None, denied: str = ""
) -> State:
    """The activity with another approval, or without; one that is over by now does not care."""
    return replace(
        state,
        activities=tuple(
            replace(a, grant=grant, denied=denied) if a.activity_id == activity_id else a
            for a in state.activities
        ),
    )
