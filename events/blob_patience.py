"""A store with patience and a memory: what does not answer is asked again for a moment, what was read is kept.

Every call ends within its limit, whatever the store does: one that does not come back is left behind in its thread.
After a limit has passed in vain the store has a rest in which calls fail at once, so that many callers, such as the
commands of one transaction, do not wait one after another.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from typing import TypeVar

from .blob_store import FsspecBlobs
from .blobs import SETTING, Blobs
from .errors import BlobUnavailable
from .limits import KIB

LIMIT_MS = 10_000
"""How long a worker or a client asks. A processor has less: it holds a transaction open."""

TRANSACTION_LIMIT_MS = 1_500
"""How long a processor asks, of all the time that one of its transactions may take."""

REST_MS = 5_000
"""After a limit has passed in vain, so long nothing is asked."""

PAUSE_MS = 50
"""Before the second call; it doubles with each."""

MEMORY_BYTES_MAX = 64 * 1024 * KIB
"""Bytes of blobs in memory: a session that was evicted, or a turn that is rebuilt, does not fetch them again."""

LEFT_BEHIND_MAX = 16
"""Calls that never came back; with so many, no other is begun."""

T = TypeVar("T")


class PatientBlobs:
    """See the module; for any thread. Of the store's faults only `BlobUnavailable` is worth another call."""

    def __init__(
        self,
        blobs: Blobs,
        *,
        limit_ms: int = LIMIT_MS,
        rest_ms: int = REST_MS,
        kept_bytes_max: int = MEMORY_BYTES_MAX,
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._blobs = blobs
        self._limit_s = limit_ms / 1000
        self._rest_s = rest_ms / 1000
        self._kept_bytes_max = kept_bytes_max
        self._monotonic = monotonic
        self._sleep = sleep
        self._lock = threading.Lock()
        self._kept: OrderedDict[str, bytes] = OrderedDict()
        self._kept_bytes = 0
        self._rests_until = float("-inf")
        self._left_behind = 0

    def put(self, ref: str, data: bytes) -> None:
        """See `Blobs`. The store is asked each time: somebody may have deleted what this memory holds."""
        self._patiently(lambda: self._blobs.put(ref, data))
        self._keep(ref, data)

    def get(self, ref: str) -> bytes:
        """See `Blobs`. What is kept is not proved to be in the store still; its reader proves that it is right."""
        with self._lock:
            kept = self._kept.get(ref)
            if kept is not None:
                self._kept.move_to_end(ref)
                return kept
        data = self._patiently(lambda: self._blobs.get(ref))
        self._keep(ref, data)
        return data

    def doubt(self, ref: str) -> None:
        """See `Blobs`."""
        with self._lock:
            self._kept_bytes -= len(self._kept.pop(ref, b""))
        self._blobs.doubt(ref)

    def forget(self) -> None:
        """Empties the memory."""
        with self._lock:
            self._kept.clear()
            self._kept_bytes = 0

    def _keep(self, ref: str, data: bytes) -> None:
        with self._lock:
            before = self._kept.pop(ref, b"")
            self._kept[ref] = data
            self._kept_bytes += len(data) - len(before)
            while self._kept_bytes > self._kept_bytes_max:
                self._kept_bytes -= len(self._kept.popitem(last=False)[1])

    def _patiently(self, call: Callable[[], T]) -> T:
        now = self._monotonic()
        if now < self._rests_until:
            left_s = self._rests_until - now
            raise BlobUnavailable(
                f"the store did not answer a moment ago, and is not asked for another {left_s:.1f} s: "
                f"try again then, and check {SETTING} if it stays so"
            )
        give_up, pause = now + self._limit_s, PAUSE_MS / 1000
        while True:
            try:
                return self._within(call, give_up - self._monotonic())
            except BlobUnavailable:
                if self._monotonic() + pause >= give_up:
                    self._rests_until = self._monotonic() + self._rest_s
                    raise
            self._sleep(pause)
            pause *= 2

    def _within(self, call: Callable[[], T], limit_s: float) -> T:
        """What the call gives, if it does so in time; its thread is let go otherwise."""
        if self._left_behind >= LEFT_BEHIND_MAX:
            raise BlobUnavailable(
                f"{LEFT_BEHIND_MAX} calls of the store have not come back, and no other is begun: "
                f"check that {SETTING} can be reached, or start this process again"
            )
        answer: Future[T] = Future()

        def run() -> None:
            try:
                answer.set_result(call())
            except BaseException as error:  # noqa: BLE001 raised again by whoever waits
                answer.set_exception(error)

        threading.Thread(target=run, name="blob", daemon=True).start()
        try:
            return answer.result(max(0.0, limit_s))
        except FutureTimeoutError:
            if answer.done():
                raise
        self._count_left_behind(1)
        answer.add_done_callback(lambda _: self._count_left_behind(-1))
        raise BlobUnavailable(
            f"no answer of the store within {self._limit_s:g} s: check that {SETTING} can be reached"
        )

    def _count_left_behind(self, by: int) -> None:
        with self._lock:
            self._left_behind += by


def open_blobs(url: str, *, limit_ms: int = LIMIT_MS) -> PatientBlobs:
    """The store at this URL, as processes and clients use it. Nothing is opened before the first call."""
    return PatientBlobs(FsspecBlobs(url), limit_ms=limit_ms)
