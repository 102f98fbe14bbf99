"""Time as the engine's shells see it; the core sees only the log's."""

from __future__ import annotations

from typing import Protocol


class Clock(Protocol):
    """Two readings: the wall's, for comparing with the log's time, and a steady one, for intervals."""

    def now_ms(self) -> int:
        """Milliseconds since 1970."""

    def steady_ms(self) -> int:
        """Milliseconds since some moment; never goes back."""
