"""When a session has stalled, and how often it is made to go on again."""

from __future__ import annotations

from .state import State, Status

RECOVERIES_MAX = 2
"""Times that a session is made to go on in one stretch; whoever asks once more has it held."""

QUARANTINED = "quarantined"
"""The hold of a session that recovery did not help."""


def is_stalled(state: State) -> bool:
    """Whether it should go on by itself, and waits for nothing."""
    if state.hold is not None or state.ended or state.undoing is not None:
        return False
    if state.status in (Status.OPENED, Status.SUSPENDED):
        return bool(state.queue)
    return state.status == Status.RUNNING and not state.activities and not state.waits
