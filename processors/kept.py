"""What a session has kept, and what it waits for: which of it is decided, delivered or told with a command."""

from __future__ import annotations

from collections.abc import Sequence

from ..commands import models as m
from ..commands.wire import COMMANDS
from ..events import records as r
from ..events.state import ParkedCommand, State, Status
from .session import Stamped

_HEARS = m.ReleaseSession | m.ResetSession | m.CancelSession | m.CancelChild


def heard_now(parked: tuple[ParkedCommand, ...], body: m.CommandBody) -> tuple[ParkedCommand, ...]:
    """What was kept and is decided with this command: all by a release or a reset; by a stop how children ended, which it waits for."""
    if not parked or not isinstance(body, _HEARS):
        return ()
    if isinstance(body, m.ReleaseSession | m.ResetSession):
        return parked
    decoded = ((kept, COMMANDS.decode_body(kept.command, kept.fingerprint)) for kept in parked)
    return tuple(kept for kept, command in decoded if isinstance(command.body, m.EndChild))


def uses_up(owed: r.EventBody) -> bool:
    """Whether this delivery takes something that was kept, so that there are only so many of them."""
    return not isinstance(owed, r.InboxTaken) or bool(owed.messages)


def waits_for_another(state: State, out: Sequence[Stamped]) -> bool:
    """Whether a parked session was given another proposal to wait for, in the place of its own."""
    return state.status == Status.WAITING and any(
        isinstance(one.event.body, r.ApprovalRequested) and one.event.body.supersedes is not None
        for one in out
    )
