"""What a reset comes with: the state that the named turn has left, found in the session's events."""

from __future__ import annotations

from ...events.records import Payload
from ..repairing import EVENTS_MAX, NoSuchTurn, left_by
from ..telling.stretches import newest_events
from .principals import Principal
from .problems import Problem
from .reads import session_row
from .services import Services


def state_left(shared: Services, who: Principal, session_id: str, to_turn: int) -> Payload | None:
    """The state in the `TurnCompleted` of this turn, as far as the views have the session; null for turn 0.

    `Problem` says why there is none: 404, 410, 422. The session compares it with what it remembers, so a wrong one is refused.
    """
    if to_turn == 0:
        return None
    with shared.queries(who) as views:
        row = session_row(views, session_id, who.tenant)
        read = newest_events(shared.log, shared.topics, views, row, EVENTS_MAX)
    try:
        return left_by([event for event, _ in read], to_turn)[1]
    except NoSuchTurn as error:
        raise Problem(422, "unknown_turn", f"session {session_id!a}: {error}") from None
