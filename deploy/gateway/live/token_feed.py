"""The one reader of tokens of a process: it reads the streams of all sessions that are watched, and hands out what comes."""

from __future__ import annotations

import threading
from collections.abc import Callable

import structlog

from ....processors.activities.redis_tokens import FIRST, TokenReader
from .subscriptions import Subscription, wake

BLOCK_MS = 100
"""Longest wait for a token, and so the longest that a session just watched waits to be read."""

GATHER_S = 0.02
"""Between two answers: what comes faster is read together."""

REST_S = 1.0
"""After a failure; tokens of that time are read later, if Redis still has them."""

CLOSE_S = 2.0

logger = structlog.get_logger("wakeful.gateway")


class TokenFeed:
    """`watch` and `unwatch` from any thread; the reader starts with the first who watches."""

    def __init__(self, connect: Callable[[int], TokenReader]) -> None:
        """`connect` is given how long a read may block, in ms."""
        self._connect = connect
        self._reader: TokenReader | None = None
        self._watched: dict[str, set[Subscription]] = {}
        self._positions: dict[str, str] = {}
        self._moved = threading.Condition()
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None

    def watch(self, one: Subscription) -> None:
        """Hands it the tokens that are there, and those to come; each once."""
        with self._moved:
            reader = self._reader = self._reader or self._connect(BLOCK_MS)
            key = _key(reader, one)
            self._watched.setdefault(key, set()).add(one)
            self._positions[key] = FIRST  # who watches already has its own position
            if self._thread is None and not self._stopped.is_set():
                self._thread = threading.Thread(target=self._work, name="live-tokens", daemon=True)
                self._thread.start()
            self._moved.notify()

    def unwatch(self, one: Subscription) -> None:
        """Hands it nothing any more; a repeat changes nothing."""
        with self._moved:
            if self._reader is None:
                return
            key = _key(self._reader, one)
            found = self._watched.get(key, set())
            found.discard(one)
            if not found:
                self._watched.pop(key, None)
                self._positions.pop(key, None)

    def close(self) -> None:
        """Ends the reader."""
        self._stopped.set()
        with self._moved:
            self._moved.notify()
            thread, reader = self._thread, self._reader
        if thread is not None:
            thread.join(CLOSE_S)
        if reader is not None:
            reader.close()

    def _work(self) -> None:
        while not self._stopped.is_set():
            with self._moved:
                while not self._positions and not self._stopped.is_set():
                    self._moved.wait()
                positions, reader = dict(self._positions), self._reader
            if reader is None or self._stopped.is_set():
                continue
            try:
                answered = self._hand_out(reader, positions)
            except OSError as error:
                logger.info("redis does not answer: streams go on without tokens", why=str(error))
                self._stopped.wait(REST_S)
            else:
                self._stopped.wait(GATHER_S if answered else 0)

    def _hand_out(self, reader: TokenReader, positions: dict[str, str]) -> bool:
        touched: set[Subscription] = set()
        found = reader.read(positions)
        with self._moved:
            for key, position, token in found:
                if self._positions.get(key) != positions[key]:
                    continue  # somebody new asks from the first one on, and is given no later one before
                self._positions[key] = positions[key] = position
                for one in self._watched.get(key, ()):
                    if token is not None and one.push_token(position, token):
                        touched.add(one)
        wake(touched)
        return bool(found)


def _key(reader: TokenReader, one: Subscription) -> str:
    """From the principal's own tenant, and a checked name: no other tenant's tokens lie there."""
    return reader.key(one.wanted.tenant, one.wanted.session_id or "")
