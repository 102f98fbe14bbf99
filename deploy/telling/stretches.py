"""A session's events from where the views say that they lie, without reading what lies between: see `projections.stretches`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from queue import Empty, LifoQueue
from typing import Any

from ...events.codec import decode_event
from ...events.errors import Transient, Undecodable
from ...events.keys import partition_of, session_key
from ...events.log.protocol import Isolation, Log, Place, Reader, Record
from ...events.records import Event
from ...events.topics import Topics
from ...projections.queries import Queries
from .reading import EMPTY_POLLS_MAX, POLL_MS, RECORDS_MAX

STRETCHES_MAX = 100
"""Stretches that are asked for at once."""

FETCH_WAIT_MS = 10
"""Of a reader that is lent: it reads what is there already, and the next who borrows it waits for a fetch that found nothing."""

Stretch = Mapping[str, Any]
"""A row of the view `stretches`."""

Find = Callable[[int], Sequence[Stretch]]
"""The first stretches with events behind this number, in their order; none where there are no more."""


class Readers:
    """Readers that many threads share, each lent to one at a time: to open one costs more than most pages."""

    def __init__(self, log: Log, *, kept_max: int = 8) -> None:
        self._log = log
        self._idle: LifoQueue[Reader] = LifoQueue(kept_max)

    @contextmanager
    def lent(self) -> Iterator[Reader]:
        """A reader of committed records; one that met a fault is not lent again."""
        try:
            reader = self._idle.get_nowait()
        except Empty:
            reader = self._log.reader(Isolation.COMMITTED, fetch_wait_ms=FETCH_WAIT_MS)
        kept = False
        try:
            yield reader
            reader.assign({})
            kept = not self._idle.full()
        finally:
            if kept:
                self._idle.put(reader)
            else:
                reader.close()

    def close(self) -> None:
        """Frees those that are not lent."""
        while not self._idle.empty():
            self._idle.get_nowait().close()


def place_of(log: Log, topic: str, tenant: str, session_id: str) -> Place:
    """Where the session's events are."""
    return Place(topic, partition_of(session_key(tenant, session_id), log.partitions(topic)))


def events_behind(
    reader: Reader,
    place: Place,
    key: bytes,
    find: Find,
    *,
    behind_seq: int = 0,
    behind_offset: int = -1,
    limit: int,
) -> list[tuple[Event, Record]]:
    """The session's events behind this number, in order, each with its record; fewer than the limit where there are no more.

    `behind_offset` is that of the event of this number, where it is known: what lies before is not read again. A record
    that cannot be decoded is left out; its session is held for it. `Transient` where the log falls silent.
    """
    found: list[tuple[Event, Record]] = []
    last = behind_seq
    while len(found) < limit:
        stretches = find(last)
        for stretch in stretches:
            start = max(stretch["first_offset"], behind_offset + 1)
            for record in _between(reader, place, start, stretch["last_offset"]):
                event = _event(record, key)
                if event is not None and event.envelope.seq > last:
                    found.append((event, record))
                    last = event.envelope.seq
                    if len(found) == limit:
                        return found
            last = max(last, stretch["last_seq"])
        if not stretches:
            break
    return found


def newest_events(
    log: Log, topics: Topics, views: Queries, row: Mapping[str, Any], count: int
) -> list[tuple[Event, Record]]:
    """The last events of the session with this row, as far as the views have them, oldest first."""
    tenant, session_id = row["tenant"], row["session_id"]

    def find(seq: int) -> Sequence[Stretch]:
        return views.stretches(session_id, tenant=tenant, behind_seq=seq, limit=STRETCHES_MAX)

    reader = log.reader(Isolation.COMMITTED)
    try:
        return events_behind(
            reader,
            place_of(log, topics.events, tenant, session_id),
            session_key(tenant, session_id),
            find,
            behind_seq=max(0, row["seq"] - count),
            limit=count,
        )
    finally:
        reader.close()


def _event(record: Record, key: bytes) -> Event | None:
    if record.key != key:
        return None
    try:
        return decode_event(record.value, record.headers)
    except Undecodable:
        return None


def _between(reader: Reader, place: Place, first: int, last: int) -> Iterator[Record]:
    """Committed records from one offset to another, both included."""
    if first > last:
        return
    reader.assign({place: first})
    silent, at = 0, first
    while at <= last:
        polled = reader.poll(min(RECORDS_MAX, last - at + 1), POLL_MS)
        silent = 0 if polled else silent + 1
        if silent > EMPTY_POLLS_MAX:
            raise Transient(f"no answer while reading {place.topic}: try again")
        for item in polled:
            at = item.offset + 1
            if isinstance(item, Record):
                if item.offset > last:
                    return
                yield item
            elif item.offset > last:
                return
