"""What facts mean for where a session can be taken back to, and for the version that its turns begin on."""

from __future__ import annotations

from .past_turns import PAST_TURNS_MAX, PastTurn
from .records import Payload, SessionPinned, SessionReset
from .replacing import replace
from .state import State


def left(state: State, data: Payload) -> State:
    """A turn has ended and left this: the session can be taken back to here."""
    past = PastTurn(state.turn, state.workflow_version, data.digest)
    known = (*state.past_turns, past)[-PAST_TURNS_MAX:]
    return replace(state, data_version=state.workflow_version, past_turns=known)


def reset(state: State, status: str, body: SessionReset) -> State:
    """It rests where that turn had ended; what its open turn answered is first in the queue, if it is answered again.

    What the session did stays done: effects are still to be taken back should it fail, jobs and approvals are over.
    """
    queue = state.queue
    if body.message_id is not None and state.message is not None:
        queue = (state.message, *queue)
    return replace(
        state,
        status=status,
        data=body.state,
        data_version=body.workflow_version,
        queue=queue,
        message=None,
        activities=(),
        approvals=(),
        timers=(),
        grants=(),
        uncertain=(),
        receives=(),
        jobs=(),
        hold=None,
        parked=(),
    )


def pinned(state: State, body: SessionPinned) -> State:
    """Its turns begin on this version from here on."""
    return replace(state, pinned=body.version or 0)
