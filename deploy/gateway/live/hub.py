"""The one reader of committed events of a process: it follows all partitions from their ends on, and hands out what is asked for.

```
reader thread   poll ─▶ record ─▶ its tenant or session is subscribed? ─▶ decoded once ─▶ into each queue ─▶ wake
                  └ fault: a new reader goes on where the last one was, so nothing is missed
```

Whoever subscribes is handed all that is committed afterwards. What lies before is read from the log (`history.py`).
"""

from __future__ import annotations

import threading
from collections.abc import Iterator

import structlog

from ....events.codec import decode_event
from ....events.errors import InvalidKey, Undecodable
from ....events.keys import split_key
from ....events.log.protocol import Isolation, Log, LogFault, OffsetGone, Place, Reader, Record
from ....events.topics import Topics
from ...telling.words import event_json
from .framing import data_of
from .subscriptions import Subscription, Told, wake

RECORDS_MAX = 1_000
POLL_MS = 100

PAUSES_S = (0.1, 0.5, 2.0)
"""Waits between faults in a row."""

BACK = 50
"""Offsets below the ends at which it begins, to learn where the last record lies: behind it are marks of transactions, and
whoever reads up to them waits for the next record, or for the broker to say that there is none."""

READY_S = 5.0
"""How long the first stream waits until the reader knows where it stands."""

logger = structlog.get_logger("wakeful.gateway")


class Hub:
    """See the module. `subscribe` and `unsubscribe` from any thread; the reader starts with the first stream."""

    def __init__(self, log: Log, topics: Topics) -> None:
        self._log, self._topics = log, topics
        self._lock = threading.Lock()
        self._by_session: dict[tuple[str, str], set[Subscription]] = {}
        self._by_tenant: dict[str, set[Subscription]] = {}
        self._ready, self._stopped = threading.Event(), threading.Event()
        self._positions: dict[Place, int] = {}
        self._wanted: dict[Place, int] = {}
        """Where it is to be before anybody subscribes."""
        self._ends: dict[Place, int] = {}
        """Behind the last record that was handed out, in each partition."""
        self._thread: threading.Thread | None = None

    def is_ready(self, timeout_s: float = READY_S) -> bool:
        """Starts the reader; whether it has its positions, so that whoever subscribes misses nothing."""
        with self._lock:
            if self._thread is None and not self._stopped.is_set():
                self._thread = threading.Thread(target=self._work, name="live", daemon=True)
                self._thread.start()
        return self._ready.wait(timeout_s)

    def subscribe(self, one: Subscription) -> dict[Place, int] | None:
        """Hands it all that lies at these positions and above, and is committed; null where the reader has none."""
        with self._lock:
            if not self._ready.is_set():
                return None
            self._set_of(one).add(one)
            return dict(self._ends)

    def unsubscribe(self, one: Subscription) -> None:
        """Hands it nothing any more; a repeat changes nothing."""
        with self._lock:
            self._drop(one)

    def close(self) -> None:
        """Ends the reader."""
        self._stopped.set()
        with self._lock:
            thread = self._thread
        if thread is not None:
            thread.join(READY_S)

    def _set_of(self, one: Subscription) -> set[Subscription]:
        wanted = one.wanted
        if wanted.session_id is None:
            return self._by_tenant.setdefault(wanted.tenant, set())
        return self._by_session.setdefault((wanted.tenant, wanted.session_id), set())

    def _drop(self, one: Subscription) -> None:
        wanted, session_id = one.wanted, one.wanted.session_id
        found = self._set_of(one)
        found.discard(one)
        if found:
            return
        if session_id is None:
            del self._by_tenant[wanted.tenant]
        else:
            del self._by_session[wanted.tenant, session_id]

    # In the reader's thread.

    def _work(self) -> None:
        faults = 0
        while not self._stopped.is_set():
            try:
                for _ in self._follow():
                    faults = 0
            except OffsetGone as gone:
                logger.warning("events were deleted before they were shown", cause=str(gone))
                self._start_over()
            except LogFault as fault:
                logger.info("live events are late: asking again", cause=str(fault))
            except Exception:
                logger.exception("live events met a fault of their own: all streams begin anew")
                self._start_over()
            self._stopped.wait(PAUSES_S[min(faults, len(PAUSES_S) - 1)])
            faults += 1

    def _follow(self) -> Iterator[None]:
        """Reads for as long as that works; a step for each answer."""
        reader = self._log.reader(Isolation.COMMITTED)
        try:
            self._assign(reader)
            while not self._stopped.is_set():
                touched: set[Subscription] = set()
                for item in reader.poll(RECORDS_MAX, POLL_MS):
                    if isinstance(item, Record):
                        touched |= self._hand_out(item)
                    else:
                        self._reached(Place(item.topic, item.partition), item.offset)
                if not self._ready.is_set():
                    self._check_ready()
                wake(touched)
                yield
        finally:
            reader.close()

    def _assign(self, reader: Reader) -> None:
        if not self._positions:
            events = self._topics.events
            places = [Place(events, number) for number in range(self._log.partitions(events))]
            ends = self._log.ends(places, Isolation.COMMITTED)
            self._positions = {
                place: max(first, end - BACK) for place, (first, end) in ends.items()
            }
            self._wanted = {place: end for place, (_, end) in ends.items()}
            self._ends = dict(self._wanted)
        reader.assign(self._positions)
        self._check_ready()

    def _check_ready(self) -> None:
        if all(self._positions[place] >= end for place, end in self._wanted.items()):
            self._ready.set()

    def _hand_out(self, record: Record) -> set[Subscription]:
        """Who was given it, or was told that it lags; where nobody asks for it, it is not even decoded."""
        place = Place(record.topic, record.partition)
        with self._lock:
            self._positions[place] = self._ends[place] = record.offset + 1
            asking = self._asking(record.key)
        if not asking:
            return set()
        told = told_of(record)
        takers = {one for one in asking if told is not None and one.wanted.takes(told)}
        for one in takers:
            if told is not None and not one.push(told):
                self.unsubscribe(one)
        return takers

    def _reached(self, place: Place, offset: int) -> None:
        """Below it lies nothing that was not handed out: marks of transactions are no records."""
        with self._lock:
            self._positions[place] = max(offset, self._positions[place])

    def _asking(self, key: bytes | None) -> list[Subscription]:
        if not (self._by_session or self._by_tenant):
            return []
        try:
            tenant, session_id = split_key(key)
        except InvalidKey:
            return []
        return [*self._by_session.get((tenant, session_id), ()), *self._by_tenant.get(tenant, ())]

    def _start_over(self) -> None:
        """From the ends on, as they are then; all who subscribed have to come back."""
        with self._lock:
            self._ready.clear()
            self._positions = {}
            left = {one for found in self._by_session.values() for one in found}
            left.update(one for found in self._by_tenant.values() for one in found)
            self._by_session, self._by_tenant = {}, {}
        for one in left:
            one.lag()
        wake(left)


def told_of(record: Record) -> Told | None:
    """The event of a record as `wakeful tail --json` shows it; null where it cannot be read, which holds its session."""
    try:
        event = decode_event(record.value, record.headers)
    except Undecodable:
        return None
    data = data_of(event_json(event, partition=record.partition, offset=record.offset))
    return Told(event, Place(record.topic, record.partition), record.offset, data)
