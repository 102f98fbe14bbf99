"""Which commands the log has of late, by session and id: by this a repeat is known before anything has come of the first.

Read when somebody asks, up to the end that the log has by then, so that what was confirmed to anybody before is found.
Lost with the process, and read again by the next one.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from ...commands.check import Refusal
from ...commands.identity import Identity
from ...commands.wire import command_hash, read_command
from ...events.errors import Transient, Undecodable
from ...events.headers import find
from ...events.keys import partition_of
from ...events.log.protocol import (
    EndOfPartition,
    Isolation,
    Log,
    LogFault,
    OffsetGone,
    Place,
    Reader,
    Record,
)

WINDOW_MS = 3 * 60_000
"""What lies further back is looked up in the views."""

ENTRIES_MAX = 200_000

LEAP_MAX = 100_000
"""Records that are read on from where the reader stands; before more it looks where the window begins."""

RECORDS_MAX = 1_000
POLL_MS = 100
EMPTY_POLLS_MAX = 50


@dataclass(frozen=True, slots=True)
class Found:
    """A command in the log: where, and the hash that a repeat of it has. The hash is null where it is kept no longer."""

    place: Place
    offset: int
    at_ms: int | None
    hash: bytes | None
    actor: str | None


class Recent:
    """See the module; safe to use from several threads."""

    def __init__(self, log: Log, topic: str, identity: Identity, now_ms: Callable[[], int]) -> None:
        self._log, self._topic = log, topic
        self._identity = identity
        self._now_ms = now_ms
        self._lock = threading.Lock()
        self._reader: Reader | None = None
        self._next: dict[Place, int] = {}
        self._places: OrderedDict[bytes, tuple[Place, int]] = OrderedDict()

    def find(self, key: bytes, command_id: str) -> Found | None:
        """The first command of this session with this id within the window; one that nobody vouches for is none."""
        place = Place(self._topic, partition_of(key, self._log.partitions(self._topic)))
        with self._lock:
            self._read_to_the_end(place)
            at = self._places.get(_name(key, command_id))
        return None if at is None else self.at(key, command_id, *at)

    def at(self, key: bytes, command_id: str, place: Place, offset: int) -> Found | None:
        """The command of this session and id that lies there; null where it is another, or not there any more."""
        record = _record_at(self._log, place, offset)
        if record is None or record.key != key:
            return None
        try:
            command, stored = read_command(record.value, record.headers)
        except Undecodable:
            return None
        if command.header.command_id != command_id:
            return None
        if isinstance(self._identity.check(command, stored, record), Refusal):
            return None
        actor = command.header.actor
        return Found(place, offset, record.timestamp_ms, command_hash(stored), actor)

    def close(self) -> None:
        """Frees the reader."""
        with self._lock:
            self._close()

    def _read_to_the_end(self, wanted: Place) -> None:
        end = self._log.ends([wanted], Isolation.UNCOMMITTED)[wanted][1]
        if end - self._next.get(wanted, 0) > LEAP_MAX:
            self._close()  # more than the window, likely: what lies before it is not read
        silent = 0
        while self._reader is None or self._next[wanted] < end:
            reader = self._reader or self._opened()
            try:
                polled = reader.poll(RECORDS_MAX, POLL_MS)
            except OffsetGone:  # retention has been here: on from what is left
                self._close()
                polled = []
            except LogFault:
                self._close()
                raise
            silent = 0 if polled else silent + 1
            if silent > EMPTY_POLLS_MAX:
                raise Transient(f"no answer while reading {wanted.topic}: try again")
            for item in polled:
                self._take(item)

    def _opened(self) -> Reader:
        """From the window's start on, everywhere, or from where it was read to; what is known already stays."""
        places = [Place(self._topic, n) for n in range(self._log.partitions(self._topic))]
        starts = self._log.offsets_at(places, max(0, self._now_ms() - WINDOW_MS))
        self._next = {place: max(at, self._next.get(place, 0)) for place, at in starts.items()}
        self._reader = self._log.reader(Isolation.UNCOMMITTED)
        self._reader.assign(self._next)
        return self._reader

    def _close(self) -> None:
        if self._reader is not None:
            self._reader.close()
            self._reader = None

    def _take(self, item: Record | EndOfPartition) -> None:
        place = Place(item.topic, item.partition)
        if isinstance(item, EndOfPartition):
            self._next[place] = max(self._next[place], item.offset)
            return
        self._next[place] = item.offset + 1
        try:
            name = find(item.headers, "ce_id")
        except Undecodable:
            return
        if name is not None and name not in self._places:
            self._places[name] = place, item.offset
            if len(self._places) > ENTRIES_MAX:
                self._places.popitem(last=False)


def _name(key: bytes, command_id: str) -> bytes:
    """What the client writes into the header `ce_id`."""
    return f"{key.decode('ascii')}/{command_id}".encode()


def _record_at(log: Log, place: Place, offset: int) -> Record | None:
    first, end = log.ends([place], Isolation.UNCOMMITTED)[place]
    if not first <= offset < end:
        return None
    reader = log.reader(Isolation.UNCOMMITTED)
    try:
        reader.assign({place: offset})
        for _ in range(EMPTY_POLLS_MAX):
            for item in reader.poll(1, POLL_MS):
                found = isinstance(item, Record) and item.offset == offset
                return item if found and isinstance(item, Record) else None
    finally:
        reader.close()
    raise Transient(f"no answer while reading {place.topic}: try again")
