"""The values of one change while it is put together: keys that must be plain, texts that may have to be escaped."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from ..events import records as r
from ..events.errors import Rejected
from . import escaping
from .rows import Change, Key, Row


class Unprojectable(Rejected):
    """This event cannot become rows; it is recorded as a gap and the projector goes on."""


class Values:
    """What an event sets in one row of its session; `more` are the parts of the row's key behind the session.

    Texts of a key that Postgres cannot hold raise `Unprojectable`.
    """

    __slots__ = ("escaped", "key", "row")

    def __init__(self, envelope: r.Envelope, *more: Any) -> None:
        key = (envelope.tenant, envelope.session_id, *more)
        for part in key:
            if type(part) is str and not (part.isascii() and "\0" not in part):
                _check_plain(part, key)
        self.key: Key = key
        self.row: Row = {"seq": envelope.seq}
        self.escaped: tuple[str, ...] = ()

    def put(self, column: str, held: escaping.Held) -> None:
        """A value that is ready for Postgres."""
        self.row[column] = held.value
        if held.escaped:
            self.escaped += (column,)

    def text(self, column: str, value: str | None) -> None:
        """A text column."""
        if value is None or (value.isascii() and "\0" not in value):
            self.row[column] = value  # nearly all of them, and this is asked of each
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


def _check_plain(part: str, key: Key) -> None:
    if not escaping.is_plain(part):
        raise Unprojectable(f"the key {key!r} holds text that postgres cannot")
