"""What a worker said under a key that counts for nothing since: said again, byte for byte, under one that does.

A result lies in the log until its processor reads it. Where its key is revoked in between, or ends on the way, the
processor refuses it, and its task is committed: nobody would call again before the activity's deadline. So what was said
lately is kept, and goes out again under another key once its own is believed no more. For all that was heard that is a
repeat, which changes nothing.

What a worker said is gone with it. A result of a dead worker under a revoked key stays a dead letter, which a person
may vouch for (`wakeful dlq redrive --vouch`).
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import structlog

from ...commands.keyring import NoKey
from ...commands.signatures import KEY_HEADER
from ...events.headers import find
from .reports import Reports
from .sending import Send

KEPT_MS = 60_000
"""A processor that is further behind than this has refused the result before, and will again."""

KEPT_BYTES_MAX = 8 * 1024 * 1024
"""Of records, over all keys; beyond it the oldest are forgotten."""

AGAIN_MS = 1_000
"""Between two tries where no key signs what has to be said again."""

logger = structlog.get_logger("wakeful.worker")


@dataclass(frozen=True, slots=True, eq=False)
class Again:
    """One record that is said again: its task was settled by the first time."""

    send: Send

    def acknowledged(self) -> None:
        """Nothing waits for it."""


@dataclass(frozen=True, slots=True)
class _Kept:
    kid: str
    send: Send
    at_ms: int

    @property
    def size(self) -> int:
        return len(self.send.value or b"")


class Retold:
    """Any thread may `keep`; `look` belongs to the intake."""

    def __init__(
        self, reports: Reports, send: Callable[[Again, Send], None], now_ms: Callable[[], int]
    ) -> None:
        self._reports, self._send, self._now_ms = reports, send, now_ms
        self._lock = threading.Lock()
        self._kept: deque[_Kept] = deque()
        self._kids: set[str] = set()
        self._bytes = self._again_ms = 0

    def keep(self, send: Send) -> None:
        """Notes what was just sent, if it was signed."""
        kid = find(send.headers, KEY_HEADER)
        if kid is not None:
            self._add(_Kept(kid.decode(), send, self._now_ms()))

    def look(self) -> None:
        """Says again what was said under keys that are believed no more, as far as a key signs it by now."""
        now_ms = self._now_ms()
        gone = {kid for kid in tuple(self._kids) if not self._reports.is_believed(kid)}
        if not gone:
            self._forget(now_ms - KEPT_MS)
        elif now_ms >= self._again_ms:
            self._say_again(gone)

    def _say_again(self, gone: set[str]) -> None:
        again = 0
        for kept in self._take(gone):
            try:
                send = self._reports.again(kept.send)
            except NoKey:  # `Unsaid` tells of it: nothing else of this tenant is signed either
                self._add(kept)
                self._again_ms = self._now_ms() + AGAIN_MS
            else:
                self._send(Again(send), send)
                self.keep(send)
                again += 1
        if again:
            logger.info("said again: the key that signed it counts no more", count=again)

    def _add(self, kept: _Kept) -> None:
        with self._lock:
            self._kept.append(kept)
            self._kids.add(kept.kid)
            self._bytes += kept.size
            while self._bytes > KEPT_BYTES_MAX:
                self._bytes -= self._kept.popleft().size

    def _take(self, kids: set[str]) -> list[_Kept]:
        with self._lock:
            taken = [kept for kept in self._kept if kept.kid in kids]
            self._kept = deque(kept for kept in self._kept if kept.kid not in kids)
            self._kids -= kids
            self._bytes -= sum(kept.size for kept in taken)
        return taken

    def _forget(self, before_ms: int) -> None:
        with self._lock:
            while self._kept and self._kept[0].at_ms < before_ms:
                self._bytes -= self._kept.popleft().size
            if not self._kept:
                self._kids.clear()
