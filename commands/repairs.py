"""Repairs by an operator: a session goes back to where a turn had ended, or its turns begin on one version.

Both act on a session that is held as on one that is not. The state to go back to comes with the command, since a session
remembers no more than the digests of what its turns have left; it is taken where it is the one that was left.
"""

from __future__ import annotations

from ..events import records as r
from ..events.past_turns import PastTurn
from ..events.state import State
from ..events.verdicts import COMPLETED
from . import models as m
from .compensating import may_have_run

VERSION_MAX = 2**31 - 1
"""What the views hold of a workflow's version; records could hold more."""

TURNS_SHOWN = 5
"""Turns that a sentence names: the last ones."""


def ends_known(state: State) -> list[int]:
    """The turns to whose end the session can go back, the oldest first; 0 is before the first."""
    return [0, *dict.fromkeys(past.turn for past in state.past_turns)]


def ends_told(state: State) -> str:
    """The same in words, the last few."""
    return ", ".join(map(str, ends_known(state)[-TURNS_SHOWN:]))


def why_not(state: State, body: m.ResetSession | m.PinSession) -> tuple[str, str, str] | None:
    """The check that fails, its reason, and a sentence; nothing where the repair can be made.

    Whether a pinned version is loaded is seen when a turn begins.
    """
    if isinstance(body, m.PinSession):
        return _why_not_pinned(body)
    if not state.turn:
        told = "no turn has begun: there is nothing to go back to"
        return "freshness", "unknown_turn", told
    past = _past(state, body.to_turn)
    if body.to_turn and past is None:
        told = f"the session remembers no end of turn {body.to_turn}: name one of turns {ends_told(state)}"
        return "freshness", "unknown_turn", told
    left = past.digest if past is not None else None
    given = body.state.digest if body.state is not None else None
    if left == given:
        return None
    wanted = "no state" if left is None else "the state of its TurnCompleted"
    told = f"what came with the reset is not what turn {body.to_turn} left: give {wanted}"
    return "freshness", "wrong_state", told


def reset(state: State, body: m.ResetSession) -> r.SessionReset:
    """The fact that follows; what is open is withdrawn before it.

    The activities since then are those that the session remembers (64 that have ended, and all that are open).
    """
    past, message = _past(state, body.to_turn), state.message
    done = (s.activity_id for s in state.settled if s.outcome == COMPLETED)
    return r.SessionReset(
        turn=state.turn,
        to_turn=body.to_turn,
        state=body.state,
        workflow_version=past.workflow_version if past is not None else 0,
        message_id=message.message_id if message is not None and body.answers_again else None,
        done=tuple(one for one in dict.fromkeys(done) if _turn_of(one) > body.to_turn),
        uncertain=tuple(may_have_run(state)),
        reason=body.reason,
    )


def _why_not_pinned(body: m.PinSession) -> tuple[str, str, str] | None:
    if body.version is None or 1 <= body.version <= VERSION_MAX:
        return None
    told = f"version {body.version} is none: versions count from 1, up to {VERSION_MAX}"
    return "freshness", "wrong_version", told


def _past(state: State, turn: int) -> PastTurn | None:
    return next((past for past in reversed(state.past_turns) if past.turn == turn), None)


def _turn_of(activity_id: str) -> int:
    return int(activity_id.partition(".")[0])
