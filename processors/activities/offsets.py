"""Which offset may be committed: the low watermark of each partition, while results come out of order.

An offset is committed only when every task below it is settled: its result is acknowledged by the broker, was
found in the log, or the record went to dead letters. Committing too little costs a look-up; too much loses work.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ...events.log.protocol import Place


class Ticket:
    """One delivered record: settled once, for the assignment it was delivered under and no other."""

    __slots__ = ("offset", "watermark")

    def __init__(self, watermark: Watermark, offset: int) -> None:
        self.watermark = watermark
        self.offset = offset

    def settle(self) -> None:
        """Marks the record as done; a repeat changes nothing."""
        self.watermark.settle(self.offset)


class Watermark:
    """One assignment of one partition: `fresh_from` is its end when this worker was given it; `lost` once it is over."""

    __slots__ = ("_next", "_open", "fresh_from", "lost", "place")

    def __init__(self, place: Place, position: int, fresh_from: int) -> None:
        self.place = place
        self.fresh_from = fresh_from
        self.lost = False
        self._next = position
        self._open: dict[int, None] = {}

    def take(self, offset: int) -> Ticket:
        """Opens the record at `offset`; records come in order."""
        self._open[offset] = None
        self._next = offset + 1
        return Ticket(self, offset)

    def settle(self, offset: int) -> None:
        """Closes it."""
        self._open.pop(offset, None)

    @property
    def position(self) -> int:
        """The next offset to be taken."""
        return self._next

    @property
    def all_fresh(self) -> bool:
        """Whether everything from here on was never delivered to anybody."""
        return self._next >= self.fresh_from

    @property
    def low(self) -> int:
        """Everything below is settled."""
        return min(self._open, default=self._next)


class Offsets:
    """The watermarks of the partitions this worker has now, and what of them is not committed yet."""

    def __init__(self) -> None:
        self._marks: dict[Place, Watermark] = {}
        self._committed: dict[Place, int] = {}

    def assign(self, place: Place, position: int, fresh_from: int) -> None:
        """Starts anew for a partition that was just given to this worker."""
        self._marks[place] = Watermark(place, position, fresh_from)
        self._committed[place] = position

    def drop(self, places: Iterable[Place]) -> None:
        """Forgets partitions that are taken away; tickets still out settle nothing any more."""
        for place in places:
            mark = self._marks.pop(place, None)
            if mark is not None:
                mark.lost = True
            self._committed.pop(place, None)

    def mark(self, place: Place) -> Watermark | None:
        """The partition's watermark; null where it is not (or no longer) this worker's."""
        return self._marks.get(place)

    @property
    def places(self) -> list[Place]:
        """The partitions this worker has."""
        return list(self._marks)

    def old(self) -> dict[Place, tuple[int, int]]:
        """Per partition, from where to where tasks may have been delivered before and are not taken yet."""
        return {
            place: (mark.position, mark.fresh_from)
            for place, mark in self._marks.items()
            if not mark.all_fresh
        }

    def all_fresh(self) -> bool:
        """Whether no partition has tasks left that were delivered before."""
        return all(mark.all_fresh for mark in self._marks.values())

    def due(self) -> dict[Place, int]:
        """What a commit would move forward."""
        return {
            place: low
            for place, mark in self._marks.items()
            if (low := mark.low) > self._committed[place]
        }

    def committed(self, offsets: Mapping[Place, int]) -> None:
        """Remembers what the broker has taken."""
        for place, offset in offsets.items():
            if place in self._committed:
                self._committed[place] = offset
