"""An export as an SQLite database, for an auditor to ask: what happened, and what the views would show.

A database of its own and not a namespace, since nothing in it can happen: a namespace with these events would fire their
timers, and hand their activities out. It has the tables of the views (`sessions`, `ledger`, `approvals`, …), made from the
events of the export by the same code as the live ones, and `records`: each record with its place, decoded as JSON.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from ...commands.wire import decode_command
from ...events.codec import (
    ATTEMPTS,
    decode_event,
    decode_outcome,
    decode_snapshot,
    decode_task,
)
from ...events.errors import Undecodable
from ...events.headers import fingerprint_in
from ...events.log.protocol import Headers, Record
from ...projections.audit import rebuild_rows
from ...projections.audit.history import History
from ...projections.audit.slices import Tell, kind_of, put_aside, quiet, slices_of
from ...projections.rows import STRETCHES, TABLES
from ..telling.words import as_json
from .exported import Export

BATCH = 1_000

PRIVATE = 0o600
"""It holds what the export holds, which is for its owner alone as well."""

VIEWS = {name: table for name, table in TABLES.items() if name != STRETCHES}
"""Where events lie in the live log is no part of it."""

_RECORDS = """
CREATE TABLE records (topic TEXT, partition INTEGER, "offset" INTEGER, at_ms INTEGER, kind TEXT, key TEXT, type TEXT,
    tenant TEXT, session_id TEXT, seq INTEGER, body TEXT, PRIMARY KEY (topic, partition, "offset"));
CREATE INDEX records_of_session ON records (session_id, tenant, seq);
"""


def make_database(export: Export, path: Path, tell: Tell = quiet) -> dict[str, int]:
    """Makes the database, whole or not at all and for its owner alone; gives how many rows each table has."""
    unfinished = path.with_name(f"{path.name}.unfinished")
    unfinished.unlink(missing_ok=True)
    unfinished.touch(mode=PRIVATE)
    try:
        with TemporaryDirectory(prefix="wakeful-audit-") as folder:
            connection = sqlite3.connect(unfinished)
            try:
                counts = _fill(connection, export, Path(folder), tell)
                connection.commit()
            finally:
                connection.close()
        unfinished.replace(path)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise
    return counts


def _fill(
    connection: sqlite3.Connection, export: Export, folder: Path, tell: Tell
) -> dict[str, int]:
    connection.executescript(_RECORDS)
    for name, table in VIEWS.items():
        columns = ", ".join(f'"{column}"' for column in table.all_columns)
        connection.execute(f"CREATE TABLE {name} ({columns})")
    topics = export.about.topics
    counts = {"records": 0, **dict.fromkeys(VIEWS, 0)}
    rows: list[tuple[Any, ...]] = []
    for record in export.records():
        rows.append(_row(kind_of(topics, record.topic), record))
        if len(rows) >= BATCH:
            counts["records"] += _insert(connection, "records", rows)
            tell("reading", counts["records"], export.expected)
            rows = []
    counts["records"] += _insert(connection, "records", rows)
    aside = put_aside(export.source(), folder, tell)
    for evidence in slices_of(aside):
        history = History.read(evidence, None)
        for name, count in _views(connection, history):
            counts[name] += count
    return counts


def _views(connection: sqlite3.Connection, history: History) -> Iterator[tuple[str, int]]:
    rebuilt = rebuild_rows(fact.event for fact in history.facts)
    for name, table in VIEWS.items():
        columns = tuple(table.all_columns)
        rows = [tuple(row[column] for column in columns) for row in rebuilt[name].values()]
        yield name, _insert(connection, name, rows)


def _insert(connection: sqlite3.Connection, table: str, rows: list[tuple[Any, ...]]) -> int:
    if rows:
        marks = ", ".join("?" * len(rows[0]))
        connection.executemany(f"INSERT INTO {table} VALUES ({marks})", rows)  # noqa: S608 our own names
    return len(rows)


def _row(kind: str, record: Record) -> tuple[Any, ...]:
    type_, tenant, session_id, seq, body = _decoded(kind, record)
    key = (record.key or b"").decode(errors="backslashreplace")
    place = (record.topic, record.partition, record.offset, record.timestamp_ms)
    return (*place, kind, key, type_, tenant, session_id, seq, body)


Decode = Callable[[bytes | None, Headers], Any]

DECODERS: dict[str, Decode] = {
    "commands": decode_command,
    "events": decode_event,
    "activities": decode_task,
    "outcomes": decode_outcome,
    "snapshots": decode_snapshot,
    "attempts": lambda value, headers: ATTEMPTS.decode(value, fingerprint_in(headers)),
}


def _decoded(kind: str, record: Record) -> Iterable[Any]:
    """Type, tenant, session, number and body of a record; what cannot be read has its reason for a body."""
    decode = DECODERS.get(kind)
    if decode is None or record.value is None:
        return None, None, None, None, None
    try:
        found = decode(record.value, record.headers)
    except Undecodable as error:
        return None, None, None, None, json.dumps({"undecodable": error.message})
    lead = getattr(found, "envelope", None) or getattr(found, "header", None) or found
    body = getattr(found, "body", found)
    return (
        type(body).__name__,
        getattr(lead, "tenant", None),
        getattr(lead, "session_id", None),
        getattr(lead, "seq", None),
        json.dumps(as_json(found), ensure_ascii=False),
    )
