"""Leases in Redis, which may be absent, slow, frozen or emptied at any moment, and cost a worker 50 ms at most.

A thread of its own makes the calls: a socket's time-out bounds neither a name's look-up nor an answer that trickles in.
After a failure nothing is asked for a while, so a dead Redis is noticed once and not once per task.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

import redis
import structlog
from redis.backoff import NoBackoff
from redis.retry import Retry

from .threads import Threads

CALL_MS = 50
"""Longest that a worker waits for one answer."""

REST_MS = 5_000
"""After a failure, so long nothing is asked."""

RELEASE = (
    "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0"
)
"""Deletes a lease that is still ours: by now it may be another worker's."""

Answer = TypeVar("Answer")

logger = structlog.get_logger("wakeful.worker")


class RedisLeases:
    """See `Leases`. Keys are `<namespace>:lease:<idempotency key>#<attempt>`, values the worker's id; from any thread."""

    def __init__(
        self, url: str, *, namespace: str, worker_id: str, monotonic: Callable[[], float]
    ) -> None:
        """Connects when it is first asked; `ValueError` for a URL that is none."""
        self._prefix = f"{namespace}:lease:"
        self._worker_id = worker_id
        self._monotonic = monotonic
        self._client: Any = redis.Redis.from_url(
            url,
            socket_connect_timeout=CALL_MS / 1000,
            socket_timeout=CALL_MS / 1000,
            retry=Retry(NoBackoff(), 0),
            decode_responses=True,
        )
        self._threads = Threads("leases", threads_max=1)
        self._asking = threading.Lock()
        self._rest_until = 0.0
        self._busy = False

    def hold(self, attempts: Mapping[str, int]) -> None:
        """See the protocol."""

        def call() -> None:
            with self._client.pipeline(transaction=False) as pipeline:
                for attempt, ms in attempts.items():
                    pipeline.set(self._prefix + attempt, self._worker_id, px=max(1, ms))
                pipeline.execute()

        if attempts:
            self._ask(call, None)

    def held(self, attempts: Sequence[str]) -> Collection[str]:
        """See the protocol."""

        def call() -> Collection[str]:
            holders = self._client.mget([self._prefix + attempt for attempt in attempts])
            mine = (None, self._worker_id)
            return {a for a, holder in zip(attempts, holders, strict=True) if holder not in mine}

        return self._ask(call, ()) if attempts else ()

    def release(self, attempts: Sequence[str]) -> None:
        """See the protocol."""

        def call() -> None:
            with self._client.pipeline(transaction=False) as pipeline:
                for attempt in attempts:
                    pipeline.eval(RELEASE, 1, self._prefix + attempt, self._worker_id)
                pipeline.execute()

        if attempts:
            self._ask(call, None)

    def close(self) -> None:
        """Lets the thread and its connection go."""
        self._threads.run(self._client.close)
        self._threads.close()

    def _ask(self, call: Callable[[], Answer], unknown: Answer) -> Answer:
        """The answer, or `unknown` where none came in time or none was asked for."""
        if not self._asking.acquire(timeout=CALL_MS / 1000):
            return unknown
        try:
            if self._busy or self._monotonic() < self._rest_until:
                return unknown
            answers: SimpleQueue[Answer | Exception] = SimpleQueue()
            self._busy = True
            self._threads.run(lambda: self._answer(call, answers))
            answer = answers.get(timeout=CALL_MS / 1000)
        except Empty:
            return self._rest(f"no answer within {CALL_MS} ms", unknown)
        finally:
            self._asking.release()
        if isinstance(answer, Exception):
            return self._rest(type(answer).__name__, unknown)
        return answer

    def _answer(self, call: Callable[[], Answer], answers: SimpleQueue[Answer | Exception]) -> None:
        try:
            answers.put(call())
        except Exception as error:  # noqa: BLE001 a hint is missing, whatever the reason
            answers.put(error)
        finally:
            self._busy = False

    def _rest(self, why: str, unknown: Answer) -> Answer:
        """Without the error's text, which may hold the URL and its password."""
        self._rest_until = self._monotonic() + REST_MS / 1000
        logger.info("redis does not answer: calls may be made twice after a rebalance", why=why)
        return unknown
