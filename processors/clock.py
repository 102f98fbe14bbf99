"""Time as the engine's shells see it; the core sees only the log's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol


class Clock(Protocol):
    """Two readings: the wall's, for comparing with the log's time, and a steady one, for intervals."""

    def now_ms(self) -> int:
        """Milliseconds since 1970."""

    def steady_ms(self) -> int:
        """Milliseconds since some moment; never goes back."""


def unhurried(now_ms: Callable[[], int], monotonic: Callable[[], float]) -> Callable[[], int]:
    """The wall's clock, but never further from where it was now than time has passed: it may be put back, and leaps not ahead.

    For what must not happen too early. `monotonic` gives seconds. One that was put right by a leap is behind ever after.
    """
    began_ms, began = now_ms(), monotonic()
    return lambda: min(now_ms(), began_ms + int((monotonic() - began) * 1000))
