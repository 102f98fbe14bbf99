"""A worker's seat in its queue's group."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Seat:
    """The group, and under which name a member comes back.

    With `instance` (unlike that of any other running member) it gets its partitions back at once when it was killed
    and joins again; others get them when its session is over, also after it left in good order. Without, a member
    that leaves gives them to others at once, and one that was killed keeps everybody waiting for its session's end.
    """

    group: str
    instance: str | None = None
