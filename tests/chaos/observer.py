"""A reader of committed events that runs beside all faults: it must see each (session, seq) once, in order, and nothing that is gone later."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from time import monotonic

from wakeful.deploy.telling.reading import to_the_end
from wakeful.events.codec import decode_event
from wakeful.events.errors import Transient
from wakeful.events.log.protocol import Isolation, Log, LogFault, Place, Record

Seen = dict[tuple[str, str, int], tuple[int, int, bytes]]
"""By tenant, session and number: partition, offset and the value."""

AGAIN_S = 0.5
CATCHES_UP_S = 30.0
POLL_MS = 200


class Observer:
    """Runs in a thread of its own, on clients of its own, from the first event on."""

    def __init__(self, log: Log, topic: str, partitions: int) -> None:
        """`log` is nobody else's, and closed with `stop`."""
        self._log = log
        self._positions = {Place(topic, number): 0 for number in range(partitions)}
        self._topic, self._partitions = topic, partitions
        self._last: dict[tuple[str, str], int] = {}
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="observer", daemon=True)
        self.seen: Seen = {}
        self.told: list[str] = []
        self._thread.start()

    def stop(self) -> list[str]:
        """Reads the topic anew once all is quiet, and tells what differs from what was seen, with all that was told before."""
        again = dict(self._all())
        limit = monotonic() + CATCHES_UP_S
        while again.keys() - self.seen.keys() and self._thread.is_alive() and monotonic() < limit:
            self._over.wait(AGAIN_S)
        self._over.set()
        self._thread.join()
        self._log.close()
        for key in again.keys() | self.seen.keys():
            now, then = again.get(key), self.seen.get(key)
            if now != then:
                self.told.append(
                    f"event {key} was seen at {then and then[:2]}, and is at {now and now[:2]}"
                )
        return self.told

    def _run(self) -> None:
        try:
            while not self._over.is_set():
                self._read()
        except Exception as error:
            self.told.append(f"the observer broke off: {error!r}")

    def _read(self) -> None:
        """Until the log cannot be read; then the next reader goes on from there."""
        reader = self._log.reader(Isolation.COMMITTED)
        try:
            reader.assign(self._positions)
            while not self._over.is_set():
                for item in reader.poll(500, POLL_MS):
                    if isinstance(item, Record):
                        self._see(item)
        except (LogFault, Transient):
            self._over.wait(AGAIN_S)
        finally:
            reader.close()

    def _see(self, record: Record) -> None:
        place = Place(record.topic, record.partition)
        if record.offset < self._positions[place]:
            self.told.append(f"{place} went back to {record.offset}")
            return
        self._positions[place] = record.offset + 1
        envelope = decode_event(record.value, record.headers).envelope
        session = envelope.tenant, envelope.session_id
        key = (*session, envelope.seq)
        if key in self.seen:
            self.told.append(
                f"event {key} is there twice: {self.seen[key][:2]} and {record.offset}"
            )
        elif envelope.seq != self._last.get(session, 0) + 1:
            self.told.append(f"event {key} comes after {self._last.get(session, 0)}")
        self._last[session] = envelope.seq
        self.seen[key] = record.partition, record.offset, record.value or b""

    def _all(self) -> Iterator[tuple[tuple[str, str, int], tuple[int, int, bytes]]]:
        starts = {Place(self._topic, number): 0 for number in range(self._partitions)}
        for record in to_the_end(self._log, starts):
            envelope = decode_event(record.value, record.headers).envelope
            key = envelope.tenant, envelope.session_id, envelope.seq
            yield key, (record.partition, record.offset, record.value or b"")
