"""What all streams of a process share: one reader of events, one of tokens, a few threads that read history, and a bound."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import structlog

from ....events.log.protocol import Log, Place
from ....events.topics import Topics
from ...telling.stretches import Readers
from ..problems import Problem
from .hub import Hub
from .subscriptions import Subscription, wake
from .token_feed import TokenFeed

STREAMS_MAX = 2_000
"""Open streams of one process."""

STREAMS_OF_TENANT_MAX = 1_000
"""Of these, one tenant's: no one takes all of them."""

READERS_MAX = 4
"""Histories that are read at once; others wait for their turn."""

T = TypeVar("T")

logger = structlog.get_logger("wakeful.gateway")


class Live:
    """Its threads start with the first stream. `end` and `close` from any thread."""

    def __init__(
        self, log: Log, topics: Topics, readers: Readers, *, redis: str | None = None
    ) -> None:
        """`readers` are closed by whoever made them, after this."""
        self.log, self.topics = log, topics
        self.readers = readers
        self.ending = False
        """Whether the process ends, and all streams with it."""
        self._hub = Hub(log, topics)
        self._feed = _feed_of(redis, topics.namespace)
        self._lock = threading.Lock()
        self._open: set[Subscription] = set()
        self._of_tenant: Counter[str] = Counter()
        self._threads = ThreadPoolExecutor(READERS_MAX, thread_name_prefix="live-history")

    @property
    def streams(self) -> int:
        """How many are open."""
        return len(self._open)

    def check(self, tenant: str) -> None:
        """`Problem` 503 where no stream can begin now; starts the readers."""
        with self._lock:
            is_full = len(self._open) >= STREAMS_MAX
            is_full = is_full or self._of_tenant[tenant] >= STREAMS_OF_TENANT_MAX
        if is_full:
            raise Problem(
                503,
                "too_many_streams",
                f"{len(self._open)} streams are open here: close some, or ask another gateway",
                headers={"Retry-After": "5"},
            )
        if self.ending or not self._hub.is_ready():
            raise Problem(
                503,
                "unavailable",
                "live events cannot be read at this moment: try again",
                headers={"Retry-After": "1"},
            )

    def enter(self, one: Subscription) -> dict[Place, int] | None:
        """Hands it what is committed at these positions and above, and tokens; null where the log does not answer.

        `leave` frees it. What lies below the positions is history.
        """
        positions = self._hub.subscribe(one)
        if positions is None:
            return None
        with self._lock:
            if one not in self._open:
                self._open.add(one)
                self._of_tenant[one.wanted.tenant] += 1
        if self._feed is not None and one.wanted.session_id is not None:
            self._feed.watch(one)
        return positions

    def leave(self, one: Subscription) -> None:
        """Frees all that it has; a repeat changes nothing."""
        self._hub.unsubscribe(one)
        if self._feed is not None and one.wanted.session_id is not None:
            self._feed.unwatch(one)
        with self._lock:
            if one in self._open:
                self._open.discard(one)
                self._of_tenant -= Counter([one.wanted.tenant])

    async def aside(self, work: Callable[[], T]) -> T:
        """What `work` returns, which may wait for the log: in one of a few threads."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    def end(self) -> None:
        """Ends all streams at once, and lets none begin; also from a signal's handler."""
        self.ending = True
        wake(self._open.copy())

    def close(self) -> None:
        """Ends the readers."""
        self.end()
        self._hub.close()
        if self._feed is not None:
            self._feed.close()
        self._threads.shutdown(wait=True, cancel_futures=True)


def _feed_of(redis: str | None, namespace: str) -> TokenFeed | None:
    """Where there is Redis; streams do without it."""
    if redis is None:
        return None
    try:
        from ....processors.activities.redis_tokens import TokenReader

        TokenReader(redis, namespace=namespace, block_ms=0).close()
    except (ImportError, ValueError) as error:
        logger.warning("streams have no tokens", why=type(error).__name__)
        return None
    return TokenFeed(lambda ms: TokenReader(redis, namespace=namespace, block_ms=ms))
