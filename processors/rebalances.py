"""What a processor is told about its group during a poll."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ..events.log.protocol import Place


@dataclass(slots=True)
class Changes:
    """What the group told during a poll; flags only, since callbacks run inside the client."""

    assigned: set[int] = field(default_factory=set)
    gone: set[int] = field(default_factory=set)

    def __bool__(self) -> bool:
        return bool(self.assigned or self.gone)


class Listener:
    """See `RebalanceListener`; `take` gives what came since the last time."""

    def __init__(self) -> None:
        self.changes = Changes()

    def assigned(self, places: Sequence[Place]) -> None:
        """These are this member's now."""
        self.changes.assigned.update(p.partition for p in places)

    def revoked(self, places: Sequence[Place]) -> None:
        """These are another's soon."""
        self.changes.gone.update(p.partition for p in places)
        self.changes.assigned.difference_update(p.partition for p in places)

    def lost(self, places: Sequence[Place]) -> None:
        """These are another's already."""
        self.revoked(places)

    def take(self) -> Changes:
        """What came, once."""
        taken, self.changes = self.changes, Changes()
        return taken
