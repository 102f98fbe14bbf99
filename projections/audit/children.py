"""Checks of children, in the session that opened them: each is opened once and ends once, none expires early, and none
outlives whoever waits for it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ...events import records as r
from .evidence import Violation
from .history import Fact, History, of
from .invariants import CHILDREN

_TURN_ENDS = r.TurnContinued | r.TurnCompleted | r.SessionCompleted
_ENDS = r.SessionFailed | r.SessionCancelled
_CHILD_ENDS = (
    r.ChildCompleted | r.ChildFailed | r.ChildCancelled | r.ChildExpired | r.ChildWithdrawn
)


def children(history: History) -> Iterator[Violation]:
    """One end for each child, before whoever waits for it has ended, or named in that end; expired only once its time was over."""
    for facts in history.sessions.values():
        open_: dict[str, int] = {}
        past: set[str] = set()
        for fact in facts:
            body = fact.event.body
            if isinstance(body, r.ChildStarted):
                if body.child_id in open_ or body.child_id in past:
                    yield of(fact, CHILDREN, f"child {body.child_id} is opened for the second time")
                open_[body.child_id] = body.expires_at_ms
            elif isinstance(body, _CHILD_ENDS):
                yield from _ends(fact, body, open_, past)
                open_.pop(body.child_id, None)
                past.add(body.child_id)
            elif isinstance(body, r.LateChildRecorded) and body.child_id not in past:
                told = f"child {body.child_id} ended late, and nobody had waited for it"
                yield of(fact, CHILDREN, told)
            elif isinstance(body, r.CompensationStarted):
                yield from _stopped(fact, body, open_)
            elif isinstance(body, _TURN_ENDS | _ENDS):
                yield from _outlived(fact, body, open_)
                past.update(open_)
                open_.clear()


def _ends(
    fact: Fact, body: _CHILD_ENDS, open_: Mapping[str, int], past: set[str]
) -> Iterator[Violation]:
    if body.child_id not in open_:
        how = "had ended before" if body.child_id in past else "was never opened"
        yield of(fact, CHILDREN, f"child {body.child_id} ends as {type(body).__name__}, and {how}")
        return
    left_ms = open_[body.child_id] - fact.event.envelope.at_ms
    if isinstance(body, r.ChildExpired) and left_ms > 0:
        yield of(fact, CHILDREN, f"child {body.child_id} expired {left_ms} ms early")


def _stopped(
    fact: Fact, body: r.CompensationStarted, open_: Mapping[str, int]
) -> Iterator[Violation]:
    """All that are open are cancelled with it."""
    if set(body.children) != open_.keys():
        told = f"{', '.join(open_) or 'no children'} open, and it cancels {', '.join(body.children) or 'none'}"
        yield of(fact, CHILDREN, told)


def _outlived(
    fact: Fact, body: _TURN_ENDS | _ENDS, open_: Mapping[str, int]
) -> Iterator[Violation]:
    told_of = {one.child_id for one in body.children} if isinstance(body, _ENDS) else set()
    left = [one for one in open_ if one not in told_of]
    if left:
        told = f"{', '.join(left)} open, and {type(body).__name__} ends whoever waits"
        yield of(fact, CHILDREN, told)
