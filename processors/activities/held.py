"""Tasks fetched and not taken yet: those that may have run before wait until the log was asked about them."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ...events.log.protocol import Place, Record
from .offsets import Offsets
from .settled import Settled
from .spans import Span


class Held:
    """In the order of each partition; see `Settled` for what is asked, and `Offsets` for what is old."""

    def __init__(self, settled: Settled, offsets: Offsets) -> None:
        self._settled = settled
        self._offsets = offsets
        self._records: list[Record] = []

    def add(self, records: Sequence[Record]) -> None:
        """Keeps them, behind those of their partitions that are here."""
        self._records += records

    def drop(self, places: Collection[Place]) -> None:
        """Forgets what belongs to others now."""
        self._records = [r for r in self._records if Place(r.topic, r.partition) not in places]

    def look_up(self, log_ms: int) -> int:
        """Learns which of these have a result in the log, if one may have; gives the log's time, as far as known.

        Raises `LogFault` where the log cannot be read now; all stay and are asked about again.
        """
        starts: dict[Place, int] = {}
        for record in self._records:
            if self._waits(record):
                starts.setdefault(Place(record.topic, record.partition), record.offset)
        if starts:
            spans = {
                place: Span(starts.get(place, start), end)
                for place, (start, end) in self._offsets.old().items()
            }
            return self._settled.look_up(spans, log_ms)
        if self._records and self._settled.known and self._offsets.all_fresh():
            self._settled.forget()
        return log_ms

    def take(self) -> list[Record]:
        """Those that wait for nothing. One that does holds back its partition: offsets are opened in order."""
        ready, held = [], []
        waiting: set[Place] = set()
        for record in self._records:
            place = Place(record.topic, record.partition)
            if place in waiting or self._waits(record):
                waiting.add(place)
                held.append(record)
            else:
                ready.append(record)
        self._records = held
        return ready

    def _waits(self, record: Record) -> bool:
        """Whether it was delivered before, and nobody has asked yet what became of it."""
        place = Place(record.topic, record.partition)
        mark = self._offsets.mark(place)
        return (
            mark is not None
            and record.offset < mark.fresh_from
            and not self._settled.answers_for(place, record.offset)
        )
