"""What facts about children mean for the session that opened them: which are awaited, and how the last ones ended."""

from __future__ import annotations

from . import records as r
from . import state as s
from .errors import Unfoldable
from .replacing import replace
from .state import State
from .verdicts import CANCELLED, COMPLETED, EXPIRED, FAILED, WITHDRAWN

Child = (
    r.ChildStarted
    | r.ChildCompleted
    | r.ChildFailed
    | r.ChildCancelled
    | r.ChildExpired
    | r.ChildWithdrawn
    | r.LateChildRecorded
)

_ENDS = {
    r.ChildCompleted: COMPLETED,
    r.ChildFailed: FAILED,
    r.ChildCancelled: CANCELLED,
    r.ChildExpired: EXPIRED,
    r.ChildWithdrawn: WITHDRAWN,
}


def evolve(state: State, status: str, body: Child) -> State:
    """The state after one more fact about a child; `status` is where the fact leads."""
    if isinstance(body, r.ChildStarted):
        child = s.OpenChild(body.child_id, body.step, body.workflow, body.expires_at_ms)
        return replace(state, children=(*state.children, child), steps=body.step)
    if isinstance(body, r.LateChildRecorded):
        return replace(state, past_children=_told(state.past_children, body))
    left = tuple(child for child in state.children if child.child_id != body.child_id)
    if len(left) == len(state.children):
        raise Unfoldable(f"child {body.child_id} is over, but was not awaited")
    past = r.ChildEnd(body.child_id, _ENDS[type(body)])
    state = replace(
        state,
        status=status,
        children=left,
        past_children=(*state.past_children, past)[-s.PAST_CHILDREN_MAX :],
        tainted_by=_tainted_by(state, body),
    )
    if state.undoing is None:
        return state
    return replace(state, undoing=replace(state.undoing, children=(*state.undoing.children, past)))


def _tainted_by(state: State, body: Child) -> tuple[str, ...]:
    """What a child says rests on whatever came into it."""
    if not isinstance(body, r.ChildCompleted | r.ChildFailed | r.ChildCancelled):
        return state.tainted_by
    known = state.tainted_by
    new = tuple(name for name in body.tainted_by if name not in known)
    return (*known, *new)[: s.TAINTS_MAX] if new else known


def _told(past: tuple[r.ChildEnd, ...], body: r.LateChildRecorded) -> tuple[r.ChildEnd, ...]:
    """Its end is known by now, so that it is not recorded again."""
    return tuple(
        r.ChildEnd(one.child_id, body.end) if one.child_id == body.child_id else one for one in past
    )
