"""The sessions that one partition keeps in memory: those that run, and a few that wait."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

from .session import Session

RUNNING_MAX = 2_000
"""Sessions with work under way: each will have its next result soon, and to rebuild one costs its whole stretch."""

PARKED_MAX = 256
"""Sessions that wait for a person, a time or a message. Most wait for hours, and cost nothing on disk; so many are
kept that one which is answered at once, or sleeps for a moment, under the usual load need not be rebuilt."""


class Live:
    """Two bounded sets, least recently changed first. What goes lets its coroutine go; the store has the rest."""

    def __init__(self, let_go: Callable[[Session], None] = Session.drop) -> None:
        """`let_go` drops a session's coroutine, whose `finally` blocks are a workflow's and may take their time."""
        self._let_go = let_go
        self._running: OrderedDict[bytes, Session] = OrderedDict()
        self._parked: OrderedDict[bytes, Session] = OrderedDict()

    def get(self, key: bytes) -> Session | None:
        """The session, if it is here."""
        return self._running.get(key) or self._parked.get(key)

    def put(self, key: bytes, session: Session) -> None:
        """Takes it in, in the place of what was there under this key."""
        kept, other = self._running, self._parked
        if session.parked:
            kept, other = other, kept
        other.pop(key, None)
        kept[key] = session
        kept.move_to_end(key)

    def shrink(self) -> None:
        """Lets go what is over the bounds."""
        for kept, most in ((self._running, RUNNING_MAX), (self._parked, PARKED_MAX)):
            while len(kept) > most:
                self._let_go(kept.popitem(last=False)[1])

    def clear(self) -> None:
        """Lets all go."""
        for kept in (self._running, self._parked):
            for session in kept.values():
                self._let_go(session)
            kept.clear()
