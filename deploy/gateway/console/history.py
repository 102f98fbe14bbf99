"""A session's events for its page: read from where the views say that they lie, once; then only what came since."""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Any

from ....events.keys import session_key
from ....events.records import Event
from ...telling.stretches import STRETCHES_MAX, events_behind, place_of
from ..principals import Principal
from ..services import Services

SESSIONS_MAX = 64
"""Sessions whose events are remembered; of more, those that were looked at longest ago are read anew."""

EVENTS_MAX = 20_000
"""The last so many events of a session are told; a fold of fewer than all is no state."""

AT_ONCE = 1_000
"""Events of one read."""


@dataclass(slots=True)
class _Read:
    """What was read of one session, and where its last event lies; one thread at a time reads on."""

    offset: int = -1
    events: list[Event] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)


class Histories:
    """Safe to use from several threads. Losing what it remembers costs one more read."""

    def __init__(self) -> None:
        self._read: OrderedDict[tuple[str, str], _Read] = OrderedDict()
        self._lock = threading.Lock()

    def events(self, services: Services, who: Principal, session_id: str, seq: int) -> list[Event]:
        """The events up to this number or further, the oldest first; the last `EVENTS_MAX` of them."""
        found = self._of(who.tenant, session_id)
        with found.lock:
            while not found.events or found.events[-1].envelope.seq < seq:
                if not _read_on(services, who, session_id, found):
                    break
            return list(found.events)

    def _of(self, tenant: str, session_id: str) -> _Read:
        with self._lock:
            found = self._read.setdefault((tenant, session_id), _Read())
            self._read.move_to_end((tenant, session_id))
            while len(self._read) > SESSIONS_MAX:
                self._read.popitem(last=False)
            return found


def _read_on(services: Services, who: Principal, session_id: str, found: _Read) -> bool:
    """Reads some more; false where there is none."""
    tenant = who.tenant

    def find(seq: int) -> list[dict[str, Any]]:
        with services.queries(who) as views:
            return views.stretches(session_id, tenant=tenant, behind_seq=seq, limit=STRETCHES_MAX)

    with services.readers.lent() as reader:
        more = events_behind(
            reader,
            place_of(services.log, services.topics.events, tenant, session_id),
            session_key(tenant, session_id),
            find,
            behind_seq=found.events[-1].envelope.seq if found.events else 0,
            behind_offset=found.offset,
            limit=AT_ONCE,
        )
    found.events += [event for event, _ in more]
    del found.events[:-EVENTS_MAX]
    if more:
        found.offset = more[-1][1].offset
    return bool(more)
