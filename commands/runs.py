"""What a session asks for when it is time: that another one is opened, or begins a turn. Nobody waits for its end.

The command is written with the fact that it follows from, in one transaction, under an id that is derived. It is asked in
the name of whoever the session acts for, and remembered like what people ask for: so a copy of it changes nothing.
"""

from __future__ import annotations

from ..events import records as r
from ..events.state import State, Status
from ..events.verdicts import QUEUE, SKIP
from . import models as m

CHANNEL = "run"
"""How this command comes in."""

SHOWN_MAX = 200
"""Characters of an id in a sentence."""


def command_id(session_id: str, seq: int) -> str:
    """The id of the command that goes out with this fact of this session."""
    return f"run:{session_id}:{seq}"


def opened(body: m.StartRun) -> r.SessionOpened:
    """The first fact of a run that has a session of its own."""
    return r.SessionOpened(body.workflow, body.attributes, None, body.tainted_by)


def received(command_id: str, body: m.StartRun) -> r.TriggerReceived:
    """What it is asked for."""
    return r.TriggerReceived(command_id, body.trigger, body.reason, body.data)


def why_not(state: State, body: m.StartRun) -> tuple[str, str] | None:
    """Why a session that is there does not take it: the reason, and a sentence. See `verdicts.WHERE_OPEN`."""
    if body.where_open == QUEUE:
        return None
    if body.where_open == SKIP:
        if not is_busy(state):
            return None
        told = f"a turn of this session is open or queued, so {body.reason[:SHOWN_MAX]!a} is skipped: let runs queue, or come less often"
        return "still_running", told
    told = "a session of this id is there, and the run was to have one of its own: look at what that one is"
    return "already_open", told


def is_busy(state: State) -> bool:
    """Whether a turn is open, or something waits to begin one."""
    return bool(state.queue) or state.status in (
        Status.RUNNING,
        Status.WAITING,
        Status.COMPENSATING,
    )
