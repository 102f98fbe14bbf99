"""The real clocks. Everything else is given one."""

from __future__ import annotations

import time


class SystemClock:
    """See `processors.clock.Clock`."""

    def now_ms(self) -> int:
        """Milliseconds since 1970."""
        return time.time_ns() // 1_000_000

    def steady_ms(self) -> int:
        """Milliseconds since some moment; never goes back."""
        return time.monotonic_ns() // 1_000_000
