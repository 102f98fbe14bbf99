"""Where rows are kept, as a protocol: what the projector needs from Postgres, and nothing more.

Two implementations keep the same rules: `postgres.PostgresViews` and `memory.MemoryViews`.

- `apply` and the commit are one transaction: rows, gaps and positions together, or nothing.
- A position moves only from the value and epoch this holder knows; else `Moved`, and nothing was applied.
- After `ViewsLost` whether a commit was applied is unknown. `recall` finds out; nobody guesses.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from ..events.errors import Corrupt, Rejected, Transient
from ..events.log.protocol import Place
from .rows import Key, Row

REFUSED = "refused"
"""The reason of a gap whose rows the database would not take."""


class ViewsLost(Transient):
    """The connection failed or the answer did not come: reconnect, read the positions, seek."""


class Moved(Transient):
    """A position is not where this holder left it: an earlier commit landed late, or somebody took over."""


class RowsRefused(Rejected):
    """The database will never take these rows; nothing was applied."""


class Superseded(Corrupt):
    """Another projector took these partitions over: this one ends."""


@dataclass(frozen=True, slots=True)
class Gap:
    """A record of the log that is not, or not wholly, in the views, and why; people see it, and lag does not count it."""

    topic: str
    partition: int
    offset: int
    reason: str
    detail: str


@dataclass(frozen=True, slots=True)
class Batch:
    """One transaction: whole rows per table, gaps, and per partition its position before and after.

    `times` has the newest time of a record per partition, on the log's clock; none where only the end moved.
    """

    moves: Mapping[Place, tuple[int, int]]
    rows: Mapping[str, Sequence[Row]] = field(default_factory=dict)
    gaps: Sequence[Gap] = ()
    times: Mapping[Place, int] = field(default_factory=dict)


class Views(Protocol):
    """One holder's connection to the views of one namespace."""

    def claim(self, places: Collection[Place]) -> dict[Place, int]:
        """Takes the partitions over (their epochs rise) and tells the next offset of each; 0 if new."""

    def recall(self) -> dict[Place, int]:
        """Reconnects, and tells the next offsets under the epochs claimed; `Superseded` if they rose.

        Waits for a commit of ours that is still under way, so that the answer is final.
        """

    def rows(self, table: str, keys: Collection[Key]) -> dict[Key, Row]:
        """The rows that exist among these keys."""

    def apply(self, batch: Batch) -> None:
        """Opens a transaction, moves the positions, and stores rows whose `seq` is above the stored one."""

    def send_commit(self) -> None:
        """Sends the commit; from here on only `await_commit` or `recall` knows."""

    def await_commit(self) -> None:
        """Returns once the commit is known to be done."""

    def close(self) -> None:
        """Frees the connection; what was not committed is gone."""
