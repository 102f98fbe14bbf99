"""Which proposal took the place of one that is void, by their ids: the first two numbers of one are its turn and step."""

from __future__ import annotations

from ..events.state import Decided, State
from ..events.verdicts import VOIDED


def in_its_place(state: State, past: Decided, session_id: str) -> str:
    """What took the place of `past`, how that stands, and the command that shows it; empty where nothing did."""
    if past.decision != VOIDED:
        return ""
    look = f"'wakeful approval list --session {session_id}"
    for proposal in state.approvals:
        if _asked_by(proposal.proposal_id) == _asked_by(past.proposal_id):
            return (
                f"{proposal.proposal_id} took its place: look at it with {look}', and decide that"
            )
    later = state.decided[state.decided.index(past) + 1 :]
    same = [one for one in later if _asked_by(one.proposal_id) == _asked_by(past.proposal_id)]
    if not same:
        return ""
    by = f" by {same[-1].actor}" if same[-1].actor else ""
    took = f"{same[-1].proposal_id} took its place and was {same[-1].decision}{by}"
    return f"{took}: see {look} --status all'"


def _asked_by(proposal_id: str) -> tuple[str, ...]:
    """Turn and step of what asks: `TURN.STEP-…`, and `TURN.STEP.AGAIN-…` for those that take another's place."""
    return tuple(proposal_id.partition("-")[0].split(".")[:2])
