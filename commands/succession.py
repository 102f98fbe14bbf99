"""Which proposal took the place of one that is void, by their ids: the first two numbers of one are its turn and step."""

from __future__ import annotations

from ..events.state import Decided, State
from ..events.verdicts import EXPIRED, VOIDED

ENDED = {EXPIRED: "has expired", VOIDED: "is void"}
"""How it is said of a proposal that nobody decided; of all others, that it was approved, rejected and so on."""


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
    took = f"{same[-1].proposal_id} took its place and {how_it_ended(same[-1])}"
    return f"{took}: see {look} --status all'"


def how_it_ended(past: Decided) -> str:
    """`was approved by sue`, `has expired` and so on, to stand behind the proposal's id."""
    by = f" by {past.actor}" if past.actor else ""
    return ENDED.get(past.decision) or f"was {past.decision}{by}"


def _asked_by(proposal_id: str) -> tuple[str, ...]:
    """Turn and step of what asks: `TURN.STEP-…`, and `TURN.STEP.AGAIN-…` for those that take another's place."""
    return tuple(proposal_id.partition("-")[0].split(".")[:2])
