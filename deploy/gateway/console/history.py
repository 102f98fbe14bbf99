"""A session's events for its page: read from the log once, then only what came since. Losing it costs one more read."""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass, field

from ....events.codec import decode_event
from ....events.errors import Undecodable
from ....events.keys import partition_of, session_key
from ....events.log.protocol import Isolation, Place
from ....events.records import Event
from ...telling.reading import to_the_end
from .visits import Visit

SESSIONS_MAX = 64
"""Sessions whose events are remembered; of more, those that were looked at longest ago are read anew."""

EVENTS_MAX = 20_000
"""The last so many events of a session are told; a fold of fewer than all is no state."""

SKEW_MS = 1_000
"""The log's clocks differ a little."""


@dataclass(slots=True)
class _Read:
    """What was read of one session: its events, and where to go on; one thread at a time reads on."""

    next_offset: int | None = None
    events: list[Event] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)


class Histories:
    """Safe to use from several threads."""

    def __init__(self) -> None:
        self._read: OrderedDict[tuple[str, str], _Read] = OrderedDict()
        self._lock = threading.Lock()

    def events(self, visit: Visit, session_id: str, opened_ms: int, seq: int) -> list[Event]:
        """The events up to this number or further, the oldest first; the last `EVENTS_MAX` of them."""
        tenant = visit.principal.tenant
        found = self._of(tenant, session_id)
        with found.lock:
            if not found.events or found.events[-1].envelope.seq < seq:
                _read_on(visit, session_key(tenant, session_id), found, opened_ms)
            return list(found.events)

    def _of(self, tenant: str, session_id: str) -> _Read:
        with self._lock:
            found = self._read.setdefault((tenant, session_id), _Read())
            self._read.move_to_end((tenant, session_id))
            while len(self._read) > SESSIONS_MAX:
                self._read.popitem(last=False)
            return found


def _read_on(visit: Visit, key: bytes, found: _Read, opened_ms: int) -> None:
    log, topic = visit.services.log, visit.services.topics.events
    place = Place(topic, partition_of(key, log.partitions(topic)))
    start = found.next_offset
    if start is None:
        start = log.offsets_at([place], max(0, opened_ms - SKEW_MS))[place]
    end = log.ends([place], Isolation.COMMITTED)[place][1]
    for record in to_the_end(log, {place: start}):
        end = max(end, record.offset + 1)
        if record.key != key:
            continue
        try:
            event = decode_event(record.value, record.headers)
        except Undecodable:
            continue  # the session is held for it, which its row says
        if not found.events or event.envelope.seq > found.events[-1].envelope.seq:
            found.events.append(event)
    del found.events[:-EVENTS_MAX]
    found.next_offset = end
