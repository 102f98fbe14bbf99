"""What lies before a subscription, read from the log in pages, so that nothing is kept open for a client that is slow."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from ....events.errors import Transient
from ....events.log.protocol import (
    Isolation,
    Log,
    Place,
    Reader,
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


class Readers:
    """A few readers that are used again and again: to make one takes longer than to read a page. From any thread."""

    def __init__(self, log: Log, idle_max: int) -> None:
        self._log, self._idle_max = log, idle_max
        self._lock = threading.Lock()
        self._idle: list[Reader] = []

    @contextmanager
    def lent(self) -> Iterator[Reader]:
        """One that nobody else uses; one that met a fault is not lent again."""
        with self._lock:
            found = self._idle.pop() if self._idle else None
        reader = found or self._log.reader(Isolation.COMMITTED)
        try:
            yield reader
            reader.assign({})  # else it would go on and fetch
        except BaseException:
            reader.close()
            raise
        with self._lock:
            if len(self._idle) < self._idle_max:
                self._idle.append(reader)
                return
        reader.close()

    def close(self) -> None:
        """Frees those that are not lent."""
        with self._lock:
            idle, self._idle = self._idle, []
        for reader in idle:
            reader.close()


class History:
    """Committed records from some positions to others. For one thread at a time."""

    def __init__(
        self,
        readers: Readers,
        starts: Mapping[Place, int],
        ends: Mapping[Place, int],
        wants: Callable[[Record], bool],
    ) -> None:
        """Each start has an end; what lies at it and above is not read."""
        self._readers, self._wants = readers, wants
        self._ends, self._positions = dict(ends), dict(starts)

    @property
    def done(self) -> bool:
        """Whether all of it was read."""
        return not self._left()

    def page(self) -> list[Told]:
        """The next events, in order per partition; a fault leaves it where it was, and the next call asks again.

        `OffsetGone` where the log does not have them any more, `Transient` or a `LogFault` where it does not answer.
        """
        left = self._left()
        if not left:
            return []
        with self._readers.lent() as reader:
            reader.assign(left)
            found, self._positions = self._read(reader, left)
        return found

    def _read(
        self, reader: Reader, left: Mapping[Place, int]
    ) -> tuple[list[Told], dict[Place, int]]:
        found: list[Told] = []
        positions, size, passed, silent = dict(self._positions), 0, 0, 0
        while len(found) < PAGE_EVENTS and size < PAGE_BYTES and passed < PAGE_RECORDS:
            polled = reader.poll(POLL_RECORDS, POLL_MS)
            silent = 0 if polled else silent + 1
            if silent > EMPTY_POLLS_MAX:
                raise Transient(f"no answer while reading {next(iter(left)).topic}")
            for item in polled:
                place = Place(item.topic, item.partition)
                if item.offset >= self._ends[place]:
                    positions[place] = self._ends[place]
                elif isinstance(item, Record):
                    positions[place] = item.offset + 1
                    passed += 1
                    if self._wants(item) and (told := told_of(item)) is not None:
                        found.append(told)
                        size += len(told.data)
            if all(positions[place] >= self._ends[place] for place in left):
                break
        return found, positions

    def _left(self) -> dict[Place, int]:
        return {place: at for place, at in self._positions.items() if at < self._ends[place]}
