"""Who is handed committed events, and tokens: a bounded queue per open stream, filled by threads, emptied by the event loop."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass

from ....events.log.protocol import Place
from ....events.records import Event
from ....processors.activities.tokens import Token

EVENTS_MAX = 1_000
"""Events that wait for one client; one that is further behind comes back by id, and reads from the log."""

BYTES_MAX = 256 * 1024
"""The same in bytes of what is to be sent, beside one event of any size."""

TOKENS_MAX = 500
"""Tokens that wait for one client; more are dropped, and the index of the next tells so."""


@dataclass(frozen=True, slots=True)
class Told:
    """One committed event as all its streams tell it; `data` is the line of JSON."""

    event: Event
    place: Place
    offset: int
    data: bytes

    @property
    def kind(self) -> str:
        """Its type."""
        return type(self.event.body).__name__


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which events of a tenant: of one session, or of all that pass these filters, where there are any."""

    tenant: str
    session_id: str | None = None
    kinds: frozenset[str] = frozenset()
    sessions: frozenset[str] = frozenset()

    def takes(self, told: Told) -> bool:
        """Whether this event of the tenant is one of them."""
        envelope = told.event.envelope
        if self.session_id is not None:
            return envelope.session_id == self.session_id
        return (not self.kinds or told.kind in self.kinds) and (
            not self.sessions or envelope.session_id in self.sessions
        )


class Subscription:
    """Of one open stream. `push` and `wake` from any thread, all else in the event loop that made it."""

    def __init__(self, wanted: Wanted) -> None:
        self.wanted = wanted
        self.lagging = False
        """It was given more than it may keep: nothing is handed to it any more."""
        self._loop = asyncio.get_running_loop()
        self._moved = asyncio.Event()
        self._lock = threading.Lock()
        self._events: deque[Told] = deque()
        self._bytes = 0
        self._tokens: deque[Token] = deque(maxlen=TOKENS_MAX)
        self._token_at = (0, 0)

    def push(self, told: Told) -> bool:
        """Hands it an event; false where that is one too many, and from then on."""
        with self._lock:
            is_full = len(self._events) >= EVENTS_MAX or self._bytes > BYTES_MAX
            if self.lagging or is_full:
                self._lag()
                return False
            self._events.append(told)
            self._bytes += len(told.data)
            return True

    def push_token(self, position: str, token: Token) -> bool:
        """Hands it a token, which lies at this position of its stream; false where it had that one."""
        at = _order(position)
        with self._lock:
            if at <= self._token_at:
                return False
            self._token_at = at
            self._tokens.append(token)
            return True

    def lag(self) -> None:
        """Something is missing: its client has to come back."""
        with self._lock:
            self._lag()

    def take(self) -> tuple[list[Told], list[Token]]:
        """All that waits: events, and tokens."""
        with self._lock:
            self._moved.clear()
            events, self._events, self._bytes = list(self._events), deque(), 0
            tokens = list(self._tokens)
            self._tokens.clear()
            return events, tokens

    async def moved(self, timeout_s: float) -> bool:
        """Waits until something is there; false where nothing came in time."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._moved.wait()
        except TimeoutError:
            return False
        return True

    def _lag(self) -> None:
        self.lagging = True
        self._events.clear()
        self._bytes = 0


def _order(position: str) -> tuple[int, int]:
    """Positions as Redis orders them."""
    ms, _, number = position.partition("-")
    return int(ms), int(number or 0)


def wake(subscriptions: Iterable[Subscription]) -> None:
    """Tells their event loops that something is there; from any thread."""
    loops: dict[asyncio.AbstractEventLoop, list[asyncio.Event]] = {}
    for one in subscriptions:
        loops.setdefault(one._loop, []).append(one._moved)  # noqa: SLF001 of this module

    for loop, moved in loops.items():
        with suppress(RuntimeError):  # it is closed, and all its streams with it
            loop.call_soon_threadsafe(_set, moved)


def _set(events: list[asyncio.Event]) -> None:
    for one in events:
        one.set()
