"""Secrets that somebody planted, looked for in every record and row: none may be there."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from ...events.log.protocol import Record
from ..rows import Key, Row
from .evidence import Violation
from .invariants import NO_SECRETS
from .slices import Source

CANARY_MIN = 8
"""Characters of a canary: shorter ones are found by chance."""


class Canaries:
    """Looks through what an audit reads; `found` has what the last reading met."""

    def __init__(self, planted: Sequence[str]) -> None:
        short = [number for number, one in enumerate(planted, 1) if len(one) < CANARY_MIN]
        if short:
            raise ValueError(f"line {short[0]} has fewer than {CANARY_MIN} characters")
        self._planted = [(number, one, one.encode()) for number, one in enumerate(planted, 1)]
        self.found: list[Violation] = []

    def watch(self, source: Source) -> Source:
        """The same source, each record and row of which is looked through as it is read."""
        rows = source.rows
        return replace(
            source,
            records=lambda: self._records(source.records),
            rows=None if rows is None else lambda: self._rows(rows),
        )

    def _records(self, records: Callable[[], Iterable[Record]]) -> Iterator[Record]:
        self.found.clear()
        for record in records():
            told = b"\0".join(part for part in (record.key, record.value) if part is not None)
            told += b"\0".join(value for _, value in record.headers)
            for number, _, secret in self._planted:
                if secret in told:
                    where = f"{record.topic} {record.partition}/{record.offset}"
                    session = (record.key or b"").decode(errors="backslashreplace")
                    self._add(number, session, record.offset, where)
            yield record

    def _rows(
        self, rows: Callable[[], Iterable[tuple[str, Key, Row]]]
    ) -> Iterator[tuple[str, Key, Row]]:
        for table, key, row in rows():
            told = "\0".join(_text(value) for value in row.values())
            for number, secret, _ in self._planted:
                if secret in told:
                    self._add(number, "/".join(map(str, key[:2])), None, f"a row of {table}")
            yield table, key, row

    def _add(self, number: int, session: str, offset: int | None, where: str) -> None:
        told = f"the secret in line {number} is in {where}"
        self.found.append(Violation(NO_SECRETS, session, offset, told))


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
