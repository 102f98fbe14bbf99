"""Faults of the payment service, and which request is hit: the same seed hits the same requests, by their number.

| fault | charged | what the client sees |
|---|---|---|
| `error` | no | 503 |
| `error-after` | yes | 500 |
| `hang` | no | nothing, until it goes away or `hang_ms` is over |
| `drop` | yes | the connection closes: the acknowledgement is lost |
| `late` | yes, `late_ms` later, if the service still runs | the connection closes at once |
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args

Fault = Literal["error", "error-after", "hang", "drop", "late"]

FAULTS: tuple[Fault, ...] = get_args(Fault)

WAIT_MS_MAX = 600_000
"""Bound of every wait: a thread waits in each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Which share of the requests is hit by what; `ValueError` names what cannot be.

    Refunds share one number line: `shares` add up to 1 at most. Look-ups have a line of their own. Each refund
    that is not hit is answered `slow_ms` after it was charged.
    """

    seed: int = 0
    shares: Mapping[Fault, float] = field(default_factory=dict)
    look_up_errors: float = 0.0
    slow_ms: int = 0
    late_ms: int = 1_000
    hang_ms: int = 60_000

    def __post_init__(self) -> None:
        shares = [*self.shares.items(), ("look-up errors", self.look_up_errors)]
        for name, share in shares:
            if not 0 <= share <= 1:
                raise ValueError(f"the share of {name} is {share}: it must be 0 to 1")
        total = sum(self.shares.values())
        if total > 1 + 1e-9:  # 0.1 + 0.2 + 0.7 is a little more than 1
            raise ValueError(f"the shares of faults add up to {total:g}: at most 1")
        for name, wait in (("slow", self.slow_ms), ("late", self.late_ms), ("hang", self.hang_ms)):
            if not 0 <= wait <= WAIT_MS_MAX:
                raise ValueError(f"{name} is {wait} ms: it must be 0 to {WAIT_MS_MAX}")

    def for_refund(self, number: int) -> Fault | None:
        """What hits the refund with this number."""
        draw = self._draw("refund", number)
        for fault in FAULTS:
            draw -= self.shares.get(fault, 0.0)
            if draw < 0:
                return fault
        return None

    def for_look_up(self, number: int) -> Fault | None:
        """What hits the look-up with this number."""
        return "error" if self._draw("look-up", number) < self.look_up_errors else None

    def _draw(self, line: str, number: int) -> float:
        """From 0 to below 1, as evenly as a hash."""
        digest = hashlib.blake2b(f"{self.seed}/{line}/{number}".encode(), digest_size=6).digest()
        return int.from_bytes(digest, "big") / 2**48
