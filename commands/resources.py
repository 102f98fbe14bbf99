"""When a session stops holding a resource, but by giving it back: found gone, replaced, or ended with the session."""

from __future__ import annotations

from ..events import records as r
from ..events.evolve_resources import Attaches
from ..events.failures import RESOURCE_LOST
from ..events.holding import LOST, SESSION_ENDED
from ..events.state import OpenActivity, State
from ..events.verdicts import EXPIRED


def lost(state: State, activity: OpenActivity, failure: r.Failure) -> list[r.ResourceExpired]:
    """What follows first where this activity has found a resource gone: before its workflow is told.

    Nothing where none is held, or where it was attached since the activity was asked for: that one it has never seen.
    """
    if failure.kind != RESOURCE_LOST:
        return []
    return [
        r.ResourceExpired(one.resource_id, one.kind, LOST, failure)
        for one in state.resources
        if not one.gone
        and one.kind == failure.type
        and not (one.turn == state.turn and one.step > activity.step)
    ]


def ended(state: State) -> list[r.ResourceExpired]:
    """The end of all that are held, the last one first, as the session ends."""
    return [
        r.ResourceExpired(one.resource_id, one.kind, SESSION_ENDED)
        for one in reversed(state.resources)
        if not one.gone
    ]


def replaced(state: State, body: Attaches) -> list[r.ResourceExpired]:
    """The end of one whose time was over before the clock was looked at: another is attached in its place."""
    return [
        r.ResourceExpired(one.resource_id, one.kind, EXPIRED)
        for one in state.resources
        if one.kind == body.kind and not one.gone
    ]
