"""Tokens in Redis: workers append them to a stream per session, and whoever shows sessions reads many streams at once.

Redis may be absent, slow, frozen or emptied at any moment. A worker's attempts never wait for it: what they say is
gathered for a moment, told by a thread of its own, and dropped where that does not get through. A stream keeps the
newest `TOKENS_MAX` of a session, and is gone `KEPT_MS` after its last one.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any

import redis
import structlog
from redis.backoff import NoBackoff
from redis.retry import Retry

from .tokens import TEXT_MAX, Speaker, Token, tokens_key

TOKENS_MAX = 4_000
"""Of one session, about: Redis trims whole nodes."""

KEPT_MS = 600_000
"""Longer than an answer takes: who comes back after that sees what was recorded."""

GATHER_S = 0.02
"""Between two calls: pieces that come faster become one token."""

CALL_S = 2.0
"""Longest that one call may take; nobody waits for it but the thread that makes it."""

REST_S = 1.0
"""After a failure, so long nothing is told."""

SPEAKERS_MAX = 1_000
"""Runs whose newest words wait to be told; what others say meanwhile is lost."""

WAITING_MAX = 16 * TEXT_MAX
"""Characters of one run that wait to be told; what it says beyond is lost."""

READ_MAX = 200
"""Tokens of one session in one answer."""

FIRST = "0-0"
"""The position before all tokens of a stream."""

logger = structlog.get_logger("wakeful.tokens")


class RedisTokens:
    """See `Tokens`. Keys are `<namespace>:tokens:<tenant>/<session id>`."""

    def __init__(self, url: str, *, namespace: str, monotonic: Callable[[], float]) -> None:
        """Connects when something is said for the first time; `ValueError` for a URL that is none."""
        self._client = _client(url, CALL_S)
        self._namespace = namespace
        self._monotonic = monotonic
        self._pending: dict[Speaker, str] = {}
        self._numbers: dict[Speaker, int] = {}
        self._moved = threading.Condition()
        self._thread: threading.Thread | None = None
        self._closed = False
        self._rest_until = 0.0

    def offer(self, speaker: Speaker, text: str) -> None:
        """See the protocol."""
        with self._moved:
            if self._closed:
                return
            waiting = self._pending.get(speaker, "")
            is_full = not waiting and len(self._pending) >= SPEAKERS_MAX
            if is_full or self._rests() or len(waiting) + len(text) > WAITING_MAX:
                self._numbers[speaker] = self._number(speaker) + 1  # a gap says that it is missing
                return
            self._pending[speaker] = waiting + text
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="tokens", daemon=True)
                self._thread.start()
            self._moved.notify()

    def close(self) -> None:
        """Tells what waits, as far as that gets through at once, and lets the connection go."""
        with self._moved:
            self._closed = True
            self._moved.notify()
            thread = self._thread
        if thread is not None:
            thread.join(CALL_S)

    def _work(self) -> None:
        while True:
            with self._moved:
                while not self._pending and not self._closed:
                    self._moved.wait()
                numbered, closed = self._take(), self._closed
            if numbered and not self._rests():
                self._tell(numbered)
            if closed:
                self._client.close()
                return
            threading.Event().wait(GATHER_S)

    def _take(self) -> list[tuple[Speaker, int, str]]:
        """All that waits, as numbered tokens."""
        waiting, self._pending = self._pending, {}
        taken = []
        for speaker, text in waiting.items():
            for start in range(0, len(text), TEXT_MAX):
                number = self._number(speaker)
                taken.append((speaker, number, text[start : start + TEXT_MAX]))
                self._numbers[speaker] = number + 1
        # The oldest are over, or begin a new count.
        while len(self._numbers) > 2 * SPEAKERS_MAX:
            del self._numbers[next(iter(self._numbers))]
        return taken

    def _tell(self, numbered: list[tuple[Speaker, int, str]]) -> None:
        try:
            with self._client.pipeline(transaction=False) as pipeline:
                keys: dict[str, None] = {}
                for speaker, number, text in numbered:
                    key = tokens_key(self._namespace, speaker.tenant, speaker.session_id)
                    pipeline.xadd(key, _fields(speaker, number, text), maxlen=TOKENS_MAX)
                    keys[key] = None
                for key in keys:
                    pipeline.pexpire(key, KEPT_MS)
                pipeline.execute()
        except Exception as error:  # noqa: BLE001 tokens are missing, whatever the reason
            self._rest_until = self._monotonic() + REST_S
            # Without the error's text, which may hold the URL and its password.
            logger.info("redis does not answer: nobody sees tokens", why=type(error).__name__)

    def _rests(self) -> bool:
        return self._monotonic() < self._rest_until

    def _number(self, speaker: Speaker) -> int:
        return self._numbers.get(speaker, 0)


class TokenReader:
    """Reads the streams of many sessions. For one thread."""

    def __init__(self, url: str, *, namespace: str, block_ms: int) -> None:
        """An answer comes after `block_ms` at the latest, or not at all: see `read`."""
        self._client = _client(url, CALL_S + block_ms / 1000)
        self._namespace = namespace
        self._block_ms = block_ms

    def key(self, tenant: str, session_id: str) -> str:
        """Where the tokens of a session lie; `InvalidKey` for names that are none."""
        return tokens_key(self._namespace, tenant, session_id)

    def read(self, positions: Mapping[str, str]) -> list[tuple[str, str, Token | None]]:
        """What lies behind these positions, by key: key, position and token; null in the place of what is no token.

        Empty where nothing came for a moment. Raises `OSError` where Redis does not answer, whatever the reason.
        """
        try:
            found = self._client.xread(dict(positions), count=READ_MAX, block=self._block_ms)
        except Exception as error:  # noqa: BLE001 the library's errors, and its parser's
            raise OSError(type(error).__name__) from None
        answers = found.items() if isinstance(found, dict) else found or ()
        return [
            (key, position, _token(fields))
            for key, entries in answers
            for position, fields in _flat(entries)
        ]

    def close(self) -> None:
        """Lets the connection go."""
        self._client.close()


def _client(url: str, call_s: float) -> Any:
    return redis.Redis.from_url(
        url,
        socket_connect_timeout=CALL_S,
        socket_timeout=call_s,
        retry=Retry(NoBackoff(), 0),
        decode_responses=True,
        encoding_errors="replace",
    )


def _fields(speaker: Speaker, number: int, text: str) -> dict[Any, Any]:
    return {
        "activity": speaker.activity_id,
        "attempt": speaker.attempt,
        "run": speaker.run,
        "index": number,
        "text": text,
    }


def _flat(entries: Any) -> Any:
    """The entries of one stream: newer protocols wrap them once more."""
    return entries[0] if entries and isinstance(entries[0], list) else entries


def _token(fields: Mapping[str, str] | None) -> Token | None:
    """What another process has written there; null where it is no token."""
    try:
        if fields is None:
            return None
        attempt, index = int(fields["attempt"]), int(fields["index"])
        return Token(fields["activity"], attempt, fields["run"], index, fields["text"])
    except (KeyError, ValueError, TypeError):
        return None
