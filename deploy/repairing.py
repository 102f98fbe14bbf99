"""Repairs of several sessions at once: asks each, waits until the views know what became of it, and tells."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ..commands.client import Client
from ..commands.models import CommandBody
from ..commands.sending import Pending
from ..events import records as r
from ..events.errors import Transient
from ..events.sharing import PARTS, wholes
from ..projections.queries import Answer, Queries
from ..projections.repairs import candidates, fates

AT_ONCE = 500
"""Commands that are handed over, and whose fates are awaited, together."""

LOOK_AGAIN_S = 0.2

EVENTS_MAX = 20_000
"""The last so many events of a session in which the end of a turn is looked for."""

APPLIED, REFUSED, HELD, KEPT, UNKNOWN = "applied", "refused", "held", "kept", "undecided"
"""What became of a repair; `held`: it was applied, and the session is held again, or still."""


TOO_LATE = "nobody has decided it yet, or there is no such session: see 'wakeful status' and 'wakeful session list'"


class NoSuchTurn(Exception):
    """The session's events hold no end of this turn."""


@dataclass(frozen=True, slots=True)
class Repaired:
    """What became of one session: one of the words above, and why."""

    session_id: str
    fate: str
    detail: str = ""
    status: str = ""


Make = Callable[[str], CommandBody]
"""What is asked of this session. Raises `NoSuchTurn` where nothing can be."""


def chosen(views: Queries, tenant: str, wanted: Mapping[str, str]) -> list[str]:
    """The ids of all sessions that are so and have not ended."""
    found: list[str] = []
    while rows := candidates(views, tenant, wanted, after=found[-1] if found else ""):
        found += [str(row["session_id"]) for row in rows]
    return found


def left_by(events: Sequence[r.Event], turn: int | None) -> tuple[int, r.Payload | None]:
    """The turn to whose end the session goes back, and the state that it left; the last that ended where none is named."""
    told = wholes(events)
    ended = (e.body for e in told if isinstance(e.body, r.TurnCompleted))
    ends = {body.turn: body.state for body in ended if body.state.encoding != PARTS}
    to_turn = max(ends, default=0) if turn is None else turn
    if to_turn == 0:
        return 0, None
    if to_turn not in ends:
        known = ", ".join(map(str, [0, *sorted(ends)][-5:]))
        raise NoSuchTurn(f"its events hold no end of turn {to_turn}: name one of turns {known}")
    return to_turn, ends[to_turn]


def repair(
    client: Client,
    views: Queries,
    session_ids: Sequence[str],
    make: Make,
    *,
    timeout_s: float,
) -> Iterator[Repaired]:
    """Asks every session, and gives what became of each; those that nobody has decided in time are `undecided`.

    A command that was not acknowledged may arrive all the same: look at the session before it is asked again.
    """
    for first in range(0, len(session_ids), AT_ONCE):
        pending: dict[str, Pending] = {}
        for one in session_ids[first : first + AT_ONCE]:
            try:
                pending[one] = client.post(one, make(one))
            except NoSuchTurn as error:
                yield Repaired(one, REFUSED, str(error))
        asked: dict[str, str] = {}
        for one, sent in pending.items():
            try:
                asked[one] = sent.receipt().command_id
            except Transient as error:
                yield Repaired(one, UNKNOWN, str(error))
        yield from _awaited(views, client.tenant, asked, timeout_s)


def _awaited(
    views: Queries, tenant: str, asked: Mapping[str, str], timeout_s: float
) -> Iterator[Repaired]:
    left, limit = dict(asked), time.monotonic() + timeout_s
    while left:
        for row in fates(views, tenant, list(left), list(left.values())):
            left.pop(row["session_id"], None)
            yield _repaired(row)
        if not left or time.monotonic() > limit:
            break
        time.sleep(LOOK_AGAIN_S)
    for one in left:
        yield Repaired(one, UNKNOWN, TOO_LATE)


def _repaired(row: Answer) -> Repaired:
    if row["disposition"] == "refused":
        return Repaired(
            row["session_id"], REFUSED, f"{row['reason']}: {row['detail']}", row["status"]
        )
    if row["disposition"] == "parked":
        return Repaired(row["session_id"], KEPT, "its history does not fold", row["status"])
    if row["held_reason"]:
        told = f"{row['held_reason']}: {row['held_detail'] or ''}"
        return Repaired(row["session_id"], HELD, told, row["status"])
    return Repaired(row["session_id"], APPLIED, "", row["status"])
