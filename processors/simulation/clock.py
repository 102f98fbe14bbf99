"""Virtual time: the log's, and each process's own wrong idea of it."""

from __future__ import annotations

START_MS = 1_700_000_000_000


class VirtualClock:
    """The log's clock; only the world moves it."""

    def __init__(self) -> None:
        self.ms = START_MS

    def now_ms(self) -> int:
        """Milliseconds since 1970."""
        return self.ms


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
