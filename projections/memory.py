"""The views in memory, with the guards of the Postgres ones and faults on demand, for tests and the simulation.

`MemoryDatabase` is what survives; each projector has its own `MemoryViews`, its connection. `trouble` is asked at
each call by name and may answer with a `Trouble`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from enum import Enum

from ..events.log.protocol import Place
from .rows import TABLES, Key, Row, Rows, no_rows
from .views import Batch, Gap, Moved, RowsRefused, Superseded, ViewsLost


class Trouble(Enum):
    """What goes wrong at a call."""

    LOST = "the connection is gone; nothing was done"
    ANSWER_LOST = "done, but the answer is lost"
    REFUSED = "the rows are refused"


def no_trouble(call: str) -> Trouble | None:
    """The quiet default."""
    del call
    return None


@dataclass(slots=True)
class MemoryDatabase:
    """Rows, positions with epochs, gaps, and the newest time of a record per partition."""

    rows: Rows = field(default_factory=no_rows)
    positions: dict[Place, tuple[int, int]] = field(default_factory=dict)
    gaps: dict[tuple[str, int, int], Gap] = field(default_factory=dict)
    times: dict[Place, int] = field(default_factory=dict)

    def next_offsets(self) -> dict[Place, int]:
        """The next offset per partition."""
        return {place: next_offset for place, (next_offset, _) in self.positions.items()}


class MemoryViews:
    """One connection to a `MemoryDatabase`."""

    def __init__(
        self, database: MemoryDatabase, trouble: Callable[[str], Trouble | None] = no_trouble
    ) -> None:
        self._database = database
        self._trouble = trouble
        self._epochs: dict[Place, int] = {}
        self._staged: Batch | None = None
        self._answer: ViewsLost | None = None

    def claim(self, places: Collection[Place]) -> dict[Place, int]:
        """See `Views.claim`."""
        trouble = self._before("claim")
        found: dict[Place, int] = {}
        for place in places:
            next_offset, epoch = self._database.positions.get(place, (0, 0))
            self._database.positions[place] = (next_offset, epoch + 1)
            self._epochs[place] = epoch + 1
            found[place] = next_offset
        if trouble is Trouble.ANSWER_LOST:
            raise ViewsLost("claim: the answer is lost")
        return found

    def recall(self) -> dict[Place, int]:
        """See `Views.recall`."""
        self._staged = self._answer = None
        self._before("recall")
        found: dict[Place, int] = {}
        for place, mine in self._epochs.items():
            next_offset, epoch = self._database.positions[place]
            if epoch != mine:
                raise Superseded(
                    f"{place.topic}/{place.partition} is at epoch {epoch}, this projector at {mine}"
                )
            found[place] = next_offset
        return found

    def rows(self, table: str, keys: Collection[Key]) -> dict[Key, Row]:
        """See `Views.rows`."""
        self._before("rows")
        stored = self._database.rows[table]
        return {key: dict(stored[key]) for key in keys if key in stored}

    def apply(self, batch: Batch) -> None:
        """See `Views.apply`."""
        self._before("apply")
        self._guard(batch)
        rows = {table: [dict(row) for row in changed] for table, changed in batch.rows.items()}
        self._staged = Batch(dict(batch.moves), rows, tuple(batch.gaps), dict(batch.times))

    def send_commit(self) -> None:
        """See `Views.send_commit`; the trouble `LOST` here means that the server never saw it."""
        batch, self._staged = self._staged, None
        if batch is None:
            raise ViewsLost("commit without a transaction")
        trouble = self._trouble("send_commit")
        if trouble is Trouble.LOST:
            self._answer = ViewsLost("send_commit: the connection is gone")
            return
        self._guard(batch)
        self._store(batch)
        if trouble is Trouble.ANSWER_LOST:
            self._answer = ViewsLost("send_commit: the answer is lost")

    def await_commit(self) -> None:
        """See `Views.await_commit`."""
        answer, self._answer = self._answer, None
        if answer is not None:
            raise answer
        if self._trouble("await_commit") is not None:
            raise ViewsLost("await_commit: the answer is lost")

    def close(self) -> None:
        """See `Views.close`."""
        self._staged = self._answer = None

    def _before(self, call: str) -> Trouble | None:
        trouble = self._trouble(call)
        if trouble is Trouble.LOST:
            raise ViewsLost(f"{call}: the connection is gone")
        if trouble is Trouble.REFUSED:
            raise RowsRefused(f"{call}: the rows are refused")
        return trouble

    def _guard(self, batch: Batch) -> None:
        for place, (before, _) in batch.moves.items():
            if self._database.positions.get(place) != (before, self._epochs.get(place)):
                raise Moved(f"{place.topic}/{place.partition} is no longer at {before}")

    def _store(self, batch: Batch) -> None:
        for place, (_, after) in batch.moves.items():
            self._database.positions[place] = (after, self._epochs[place])
        for place, time_ms in batch.times.items():
            self._database.times[place] = max(time_ms, self._database.times.get(place, time_ms))
        for name, changed in batch.rows.items():
            table, stored = TABLES[name], self._database.rows[name]
            for row in changed:
                key = tuple(row[column] for column in table.key)
                old = stored.get(key)
                if old is None or row["seq"] > old["seq"]:
                    stored[key] = row
        for gap in batch.gaps:
            self._database.gaps.setdefault((gap.topic, gap.partition, gap.offset), gap)
