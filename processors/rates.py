"""How much in how long, as settings say it."""

from __future__ import annotations

import re
from dataclasses import dataclass

MOST_MAX = 1_000_000_000

_RATE = re.compile(r"([1-9][0-9]{0,9})/(s|min|h)")
_PER_MS = {"s": 1_000, "min": 60_000, "h": 3_600_000}


@dataclass(frozen=True, slots=True)
class Rate:
    """So many at once, and as many again over each `per_ms`."""

    most: int
    per_ms: int

    def __post_init__(self) -> None:
        if not (1 <= self.most <= MOST_MAX and self.per_ms >= 1):
            raise ValueError(
                f"{self.most} in {self.per_ms} ms: expected 1 to {MOST_MAX}, in 1 ms or more"
            )

    @classmethod
    def from_text(cls, text: str) -> Rate:
        """`100/s`, `6000/min` or `20/h`; `ValueError` for another text."""
        found = _RATE.fullmatch(text)
        if found is None:
            raise ValueError(
                f"{text!r} is no rate: expected a number per s, min or h, such as 100/s"
            )
        return cls(int(found[1]), _PER_MS[found[2]])
