"""The values of one change while it is put together: keys that must be plain, texts that may have to be escaped."""

from __future__ import annotations

from dataclasses import asdict

from ..events import records as r
from ..events.errors import Rejected
from . import escaping
from .rows import Change, Key, Row


class Unprojectable(Rejected):
    """This event cannot become rows; it is recorded as a gap and the projector goes on."""


class Values:
    """What an event sets in the row of this key; texts of the key that Postgres cannot hold raise `Unprojectable`."""

    __slots__ = ("escaped", "key", "row")

    def __init__(self, envelope: r.Envelope, key: Key) -> None:
        for part in key:
            if isinstance(part, str) and not escaping.is_plain(part):
                raise Unprojectable(f"the key {key!r} holds text that postgres cannot")
        self.key = key
        self.row: Row = {"seq": envelope.seq}
        self.escaped: tuple[str, ...] = ()

    def put(self, column: str, held: escaping.Held) -> None:
        """A value that is ready for Postgres."""
        self.row[column] = held.value
        if held.escaped:
            self.escaped += (column,)

    def text(self, column: str, value: str | None) -> None:
        """A text column."""
        if value is None or escaping.is_plain(value):
            self.row[column] = value
        else:
            self.put(column, escaping.text(value))

    def failure(self, column: str, failure: r.Failure) -> None:
        """A failure as people read it; the tool's wish to wait only where it had one."""
        told = asdict(failure)
        if failure.retry_after_ms is None:
            del told["retry_after_ms"]
        self.put(column, escaping.value(told))

    def change(
        self,
        table: str,
        *,
        raises: str | None = None,
        creates: bool = False,
        releases: bool = False,
        heard: int = -1,
    ) -> Change:
        """All of it, for `fold`."""
        return Change(table, self.key, self.row, raises, self.escaped, creates, releases, heard)
