"""The stream of a tenant: events of all its sessions, as they are committed. Its ids are positions in the log."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ....events.errors import InvalidKey
from ....events.keys import split_key
from ....events.log.protocol import Isolation, Log, Place, Record
from ....events.topics import Topics
from ....projections.tokens import positions_of, token_of
from ..problems import Problem
from .framing import HEARTBEAT, frame, reached
from .history import History
from .live import Live
from .streams import Stream
from .subscriptions import Told, Wanted

BEHIND_MAX = 200_000
"""Records, of all tenants, that a stream reads to catch up; the views have what happened before."""


class TenantStream(Stream):
    """Events that `wanted` takes, each once, as `event: <type>`, `id: <position>`; from now on, or from where `after` says."""

    def __init__(
        self,
        live: Live,
        wanted: Wanted,
        *,
        after: Mapping[Place, int] | None,
        check: Callable[[], None],
    ) -> None:
        super().__init__(live, wanted, check)
        self._after = after
        self._positions: dict[Place, int] = {}

    def _history(self) -> History:
        self._positions = {**self._ends, **(self._after or {})}
        part = {place: (at, self._ends[place]) for place, at in self._positions.items()}
        return History(self._live.readers, [part], self._wants)

    def _wants(self, record: Record) -> bool:
        try:
            return split_key(record.key)[0] == self._wanted.tenant
        except InvalidKey:
            return False

    def _frames(self, events: Sequence[Told]) -> bytes:
        parts = []
        for one in events:
            if one.offset < self._positions[one.place]:
                continue  # the history had it
            self._positions[one.place] = one.offset + 1
            if self._wanted.takes(one):
                parts.append(self._frame(one, token_of(self._positions)))
        return b"".join(parts)

    def _frame(self, one: Told, position: str) -> bytes:
        """One event as this stream tells it, and where it goes on behind it."""
        return frame(one.kind, one.data, position)

    def _read(self) -> bytes:
        return reached(token_of(self._positions))

    def _idle(self) -> bytes:
        return HEARTBEAT + reached(token_of(self._positions))


def checked(log: Log, topics: Topics, token: str) -> dict[Place, int]:
    """The positions in a token that a client comes back with; `Problem` where it is none of this log's, or too old.

    A partition that it does not name is read from its first event on: the views had nothing of it.
    """
    places = [Place(topics.events, number) for number in range(log.partitions(topics.events))]
    bounds = log.ends(places, Isolation.COMMITTED)
    ends = {place: end for place, (_, end) in bounds.items()}
    try:
        named = positions_of(topics.events, token)
    except InvalidKey as error:
        raise Problem(422, "invalid_request", str(error)) from None
    asked = {**{place: first for place, (first, _) in bounds.items()}, **named}
    for place, at in asked.items():
        if at > ends.get(place, -1):
            raise Problem(
                409,
                "unknown_position",
                f"position {token!r} is beyond the end of the log: begin again without an id",
            )
    behind = sum(ends[place] - at for place, at in asked.items())
    if behind > BEHIND_MAX:
        raise Problem(
            409,
            "position_too_old",
            f"position {token!r} is {behind} records behind, and a stream reads at most {BEHIND_MAX}: "
            "ask for the sessions as they are now, and begin without an id",
        )
    return asked
