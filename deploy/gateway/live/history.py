"""What lies before a subscription, read from the log in pages, so that nothing is kept open for a client that is slow."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ....events.errors import Transient
from ....events.log.protocol import (
    EndOfPartition,
    Isolation,
    Log,
    OffsetGone,
    Place,
    Record,
)
from .hub import told_of
from .subscriptions import Told

PAGE_EVENTS = 200
PAGE_BYTES = 256 * 1024
PAGE_RECORDS = 50_000
"""Of others, that are passed over: a page ends by then, and its client hears a heartbeat."""

POLL_RECORDS, POLL_MS = 500, 200
EMPTY_POLLS_MAX = 25
"""Polls without an answer before a page is given up, and asked for again."""


class History:
    """Committed records from some positions to the ends as of when it was made. For one thread at a time."""

    def __init__(
        self, log: Log, starts: Mapping[Place, int], wants: Callable[[Record], bool]
    ) -> None:
        """`OffsetGone` where a start lies below what the log still has; else a `LogFault` where it does not answer."""
        self._log, self._wants = log, wants
        ends = log.ends(list(starts), Isolation.COMMITTED)
        self.ends = {place: end for place, (_, end) in ends.items()}
        self.positions = dict(starts)
        for place, (first, _) in ends.items():
            if starts[place] < first:
                raise OffsetGone(f"{place.topic}[{place.partition}] begins at {first} by now")

    @property
    def done(self) -> bool:
        """Whether all of it was read."""
        return not self._left()

    def page(self) -> list[Told]:
        """The next events, in order per partition; a fault leaves it where it was, and the next call asks again."""
        left = self._left()
        found: list[Told] = []
        if not left:
            return found
        reader = self._log.reader(Isolation.COMMITTED)
        positions, size, passed, silent = dict(self.positions), 0, 0, 0
        try:
            reader.assign(left)
            while len(found) < PAGE_EVENTS and size < PAGE_BYTES and passed < PAGE_RECORDS:
                polled = reader.poll(POLL_RECORDS, POLL_MS)
                silent = 0 if polled else silent + 1
                if silent > EMPTY_POLLS_MAX:
                    raise Transient(f"no answer while reading {next(iter(left)).topic}")
                for item in polled:
                    place = Place(item.topic, item.partition)
                    if item.offset >= self.ends[place]:
                        positions[place] = self.ends[place]
                        continue
                    if isinstance(item, EndOfPartition):
                        continue
                    positions[place] = item.offset + 1
                    passed += 1
                    if self._wants(item) and (told := told_of(item)) is not None:
                        found.append(told)
                        size += len(told.data)
                if all(positions[place] >= self.ends[place] for place in left):
                    break
        finally:
            reader.close()
        self.positions = positions
        return found

    def _left(self) -> dict[Place, int]:
        return {place: at for place, at in self.positions.items() if at < self.ends[place]}
