"""When the log's clock next owes a session something: the earliest of all that it waits for, or that runs out."""

from __future__ import annotations

from collections.abc import Mapping

from .state import OpenActivity, State


def next_due(
    state: State, beats: Mapping[str, int] | None = None, now_ms: int = 0
) -> tuple[int, str] | None:
    """When the log's clock will next owe this session a fact, and about what; null while it is held or ended.

    `beats` are the last heartbeats by activity. One that is not there counts as seen at `now_ms`: a new owner gives
    each attempt a fresh interval.
    """
    if state.hold is not None or state.ended:
        return None
    due = [(a.deadline_ms, a.activity_id) for a in state.activities if a.withheld_ms is None]
    due += [(a.retry_due_ms, a.activity_id) for a in state.activities if a.retry_due_ms is not None]
    due += [
        (silent_from(a, beats or {}, now_ms), a.activity_id) for a in state.activities if a.started
    ]
    due += [(a.expires_at_ms, a.proposal_id) for a in state.approvals]
    due += [(t.due_ms, t.timer_id) for t in state.timers]
    due += [(j.expires_at_ms, j.job_id) for j in state.jobs]
    due += [(c.expires_at_ms, c.child_id) for c in state.children]
    due += [(h.expires_at_ms, h.resource_id) for h in state.resources if not h.gone]
    due += awaited_by(state)
    return min(due, default=None)


def awaited_by(state: State) -> list[tuple[int, str]]:
    """Until when the effect that is taken back next may still happen, and whose it is; nothing where it is known."""
    undoing = state.undoing
    if undoing is None or undoing.current is not None or not state.registered:
        return []
    last = state.registered[-1]
    return [] if last.over_by_ms is None else [(last.over_by_ms, last.activity_id)]


def silent_from(activity: OpenActivity, beats: Mapping[str, int], now_ms: int) -> int:
    """From when on a begun attempt counts as silent for too long."""
    return beats.get(activity.activity_id, now_ms) + (activity.heartbeat_ms or 0)
