"""What lies before a subscription, read from the log in pages, so that nothing is kept open for a client that is slow."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ....events.errors import Transient
from ....events.log.protocol import Place, Reader, Record
from ...telling.stretches import Readers
from .hub import told_of
from .subscriptions import Told

PAGE_EVENTS = 200
PAGE_BYTES = 256 * 1024
PAGE_RECORDS = 50_000
"""Of others, that are passed over: a page ends by then, and its client hears a heartbeat."""

POLL_RECORDS, POLL_MS = 500, 200
EMPTY_POLLS_MAX = 25
"""Polls without an answer before a page is given up, and asked for again."""


Part = Mapping[Place, tuple[int, int]]
"""Where to begin in each partition, and where to end: what lies there and above is not read."""


class History:
    """Committed records of some parts of the log, one part after another. For one thread at a time."""

    def __init__(
        self, readers: Readers, parts: Sequence[Part], wants: Callable[[Record], bool]
    ) -> None:
        self._readers, self._wants = readers, wants
        self._parts = [dict(part) for part in parts]

    @property
    def done(self) -> bool:
        """Whether all of it was read."""
        while self._parts and not any(at < end for at, end in self._parts[0].values()):
            del self._parts[0]
        return not self._parts

    def page(self) -> list[Told]:
        """The next events, in order per partition; a fault leaves it where it was, and the next call asks again.

        `OffsetGone` where the log does not have them any more, `Transient` or a `LogFault` where it does not answer.
        """
        if self.done:
            return []
        with self._readers.lent() as reader:
            found, self._parts[0] = self._read(reader, self._parts[0])
        return found

    def _read(self, reader: Reader, part: Part) -> tuple[list[Told], dict[Place, tuple[int, int]]]:
        found: list[Told] = []
        left, size, passed, silent = dict(part), 0, 0, 0
        reader.assign({place: at for place, (at, end) in part.items() if at < end})
        while len(found) < PAGE_EVENTS and size < PAGE_BYTES and passed < PAGE_RECORDS:
            polled = reader.poll(POLL_RECORDS, POLL_MS)
            silent = 0 if polled else silent + 1
            if silent > EMPTY_POLLS_MAX:
                raise Transient(f"no answer while reading {next(iter(left)).topic}")
            for item in polled:
                place = Place(item.topic, item.partition)
                end = left[place][1]
                if item.offset >= end:
                    left[place] = (end, end)
                elif isinstance(item, Record):
                    left[place] = (item.offset + 1, end)
                    passed += 1
                    if self._wants(item) and (told := told_of(item)) is not None:
                        found.append(told)
                        size += len(told.data)
            if all(at >= end for at, end in left.values()):
                break
        return found, left
