"""A measure that costs something, taken once for all who ask within a moment."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, TypeVar

from ...events.log.protocol import Log, Place
from ...projections.lag import lag
from ..telling.reading import to_the_end

Value = TypeVar("Value")

Committed = Callable[[Sequence[Place]], Mapping[Place, int]]
"""The processors' next offset per partition, without those where they never were."""

FRESH_MS = 1_000


class Measured(Generic[Value]):
    """The last value; safe to ask from several threads, of which the first measures and the others wait for it."""

    def __init__(self, measure: Callable[[], Value], now_ms: Callable[[], int]) -> None:
        self._measure, self._now_ms = measure, now_ms
        self._lock = threading.Lock()
        self._last: tuple[int, Value] | None = None

    def get(self) -> Value:
        """The value, `FRESH_MS` old at most."""
        with self._lock:
            now_ms = self._now_ms()
            if self._last is None or now_ms - self._last[0] >= FRESH_MS:
                self._last = now_ms, self._measure()
            return self._last[1]

    def anew(self) -> Value:
        """The value as it is now, for all who ask within a moment as well."""
        with self._lock:
            self._last = self._now_ms(), self._measure()
            return self._last[1]


def readers_lag(
    log: Log, topic: str, positions: Mapping[Place, int], now_ms: int
) -> list[dict[str, Any]]:
    """Per partition what a reader at these positions has not had: how much, in offsets, and how old the oldest of it is."""
    told = []
    for place, offsets in sorted(lag(log, topic, positions).items()):
        waiting = to_the_end(log, {place: positions.get(place, 0)}) if offsets else iter(())
        first = next(waiting, None)  # marks of transactions have offsets, too: then there is none
        seconds = 0.0 if first is None else max(0.0, (now_ms - first.timestamp_ms) / 1000)
        told.append(
            {
                "partition": place.partition,
                "records": 0 if first is None else offsets,
                "seconds": round(seconds, 3),
            }
        )
    return told
