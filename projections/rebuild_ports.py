"""What a rebuild hands to its projector: a reader that stops at given positions, and views that note what they touch."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from ..events.log.protocol import EndOfPartition, Place, Reader, Record
from .rows import SESSIONS, Key, Row
from .views import Batch, Views


class Bounded:
    """A reader that delivers only what lies below its limits, and calls each limit the end of its partition.

    So a projector over it comes to stand exactly at the limits: a record's offset plus one, or behind a marker.
    """

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._limits: dict[Place, int] = {}
        self._at: dict[Place, int] = {}
        self._told: set[Place] = set()

    def limit(self, limits: Mapping[Place, int]) -> None:
        """Reads on up to here; what was delivered before is not delivered again."""
        self._limits = dict(limits)
        self._told.clear()
        self._follow()

    def assign(self, positions: Mapping[Place, int]) -> None:
        """See `Reader.assign`."""
        self._at = dict(positions)
        self._told.clear()
        self._follow()

    def poll(self, records_max: int, timeout_ms: int) -> list[Record | EndOfPartition]:
        """See `Reader.poll`; returns at once where every limit is reached."""
        found: list[Record | EndOfPartition] = []
        if self._below():
            for item in self._reader.poll(records_max, timeout_ms):
                place = Place(item.topic, item.partition)
                limit = self._limits.get(place, 0)
                if item.offset >= limit:
                    self._at[place] = max(self._at.get(place, 0), limit)
                elif isinstance(item, Record):
                    found.append(item)
                    self._at[place] = item.offset + 1
        reached = [
            place
            for place, at in self._at.items()
            if at >= self._limits.get(place, 0) and place not in self._told
        ]
        if reached:
            self._told.update(reached)
            found += [EndOfPartition(*place, self._limits.get(place, 0)) for place in reached]
            self._follow()
        return found

    def close(self) -> None:
        """See `Reader.close`."""
        self._reader.close()

    def _below(self) -> dict[Place, int]:
        return {place: at for place, at in self._at.items() if at < self._limits.get(place, 0)}

    def _follow(self) -> None:
        if self._at:
            self._reader.assign(self._below())


class Noting:
    """Views that remember which sessions were stored, until they are asked."""

    def __init__(self, views: Views) -> None:
        self._views = views
        self._sessions: set[Key] = set()

    def take(self) -> set[Key]:
        """The sessions that were stored since the last call."""
        taken, self._sessions = self._sessions, set()
        return taken

    def claim(self, places: Collection[Place]) -> dict[Place, int]:
        """See `Views.claim`."""
        return self._views.claim(places)

    def recall(self) -> dict[Place, int]:
        """See `Views.recall`."""
        return self._views.recall()

    def rows(self, table: str, keys: Collection[Key]) -> dict[Key, Row]:
        """See `Views.rows`."""
        return self._views.rows(table, keys)

    def apply(self, batch: Batch) -> None:
        """See `Views.apply`. A batch that is turned away later has touched nothing, and is noted all the same."""
        self._sessions.update(
            (row["tenant"], row["session_id"]) for row in batch.rows.get(SESSIONS, ())
        )
        self._views.apply(batch)

    def send_commit(self) -> None:
        """See `Views.send_commit`."""
        self._views.send_commit()

    def await_commit(self) -> None:
        """See `Views.await_commit`."""
        self._views.await_commit()

    def close(self) -> None:
        """See `Views.close`."""
        self._views.close()
