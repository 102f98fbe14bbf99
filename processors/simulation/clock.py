"""Virtual time: the log's, and each process's own wrong idea of it."""

from __future__ import annotations

from collections.abc import Callable

from ..clock import unhurried

START_MS = 1_700_000_000_000


class VirtualClock:
    """The log's clock; only the world moves it."""

    def __init__(self) -> None:
        self.ms = START_MS

    def now_ms(self) -> int:
        """Milliseconds since 1970."""
        return self.ms


LEAPS_AFTER_MS = 2_000
LEAP_MS = 3 * 3_600_000
"""Longer than any task of the simulation may wait."""


def leapt(clock: VirtualClock) -> Callable[[], int]:
    """What a worker goes by on a machine whose clock is right at first, and a while later far ahead."""
    leaps_ms = clock.ms + LEAPS_AFTER_MS

    def wall_ms() -> int:
        return clock.ms + (LEAP_MS if clock.ms >= leaps_ms else 0)

    return unhurried(wall_ms, lambda: clock.ms / 1000)


class SkewedClock:
    """One machine's clock: its wall is off by `skew_ms`, its steady clock is not."""

    def __init__(self, clock: VirtualClock, skew_ms: int) -> None:
        self._clock = clock
        self.skew_ms = skew_ms

    def now_ms(self) -> int:
        """See `Clock`."""
        return self._clock.ms + self.skew_ms

    def steady_ms(self) -> int:
        """See `Clock`."""
        return self._clock.ms
