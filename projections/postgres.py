"""The views in Postgres: one connection, one transaction per batch, guarded by position and epoch.

Rows travel as one JSON text per table and are stored by one statement, whatever their number. The commit is sent
and awaited apart, so that a crash between the two can be tested as it happens.
"""

from __future__ import annotations

import json
import select
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import psycopg
from psycopg import pq, sql
from pydantic_core import to_json

from ..events.log.protocol import Place
from .connection import ANSWER_MAX_MS, connect
from .rows import SESSIONS, TABLES, Key, Row, Rows
from .schemas import Schemas
from .views import Batch, Gap, Moved, RowsRefused, Superseded, ViewsLost

REFUSED_CLASSES = ("22", "23", "54")
"""SQLSTATE classes that the same rows will meet again: bad data, broken constraint, over a hard limit."""

_CLAIM = """
INSERT INTO {tables}.positions (topic, partition, next_offset, epoch)
SELECT topic, partition, 0, 1
FROM json_to_recordset(%s::json) AS x(topic text, partition integer)
ORDER BY topic, partition
ON CONFLICT (topic, partition) DO UPDATE SET epoch = positions.epoch + 1
RETURNING topic, partition, next_offset, epoch, generation
"""

_RECALL = """
SELECT topic, partition, p.next_offset, p.epoch, p.generation
FROM {tables}.positions p
JOIN json_to_recordset(%s::json) AS x(topic text, partition integer) USING (topic, partition)
ORDER BY topic, partition
FOR UPDATE OF p
"""

_MOVE = """
UPDATE {tables}.positions p
SET next_offset = x.after, last_record_ms = greatest(p.last_record_ms, x.newest_ms)
FROM json_to_recordset(%s::json) AS x(
    topic text, partition integer, before bigint, after bigint, newest_ms bigint, epoch bigint, generation bigint
)
WHERE p.topic = x.topic AND p.partition = x.partition AND p.next_offset = x.before AND p.epoch = x.epoch
    AND p.generation = x.generation
"""

GONE = 1 << 62
"""The `seq` of a session that was archived: as if it had all events that may still come, so none is put into rows."""

_ARCHIVED = """
SELECT tenant, session_id FROM json_to_recordset(%s::json) AS x(tenant text, session_id text)
JOIN {lock}.archived USING (tenant, session_id)
"""

_GAPS = """
INSERT INTO {tables}.gaps (topic, partition, log_offset, reason, detail)
SELECT topic, partition, log_offset, reason, detail
FROM json_to_recordset(%s::json)
    AS x(topic text, partition integer, log_offset bigint, reason text, detail text)
ON CONFLICT DO NOTHING
"""

_STORED_GAPS = """
SELECT topic, partition, log_offset, reason, detail FROM {tables}.gaps ORDER BY topic, partition, log_offset
"""


class PostgresViews:
    """One holder's connection. Not for several threads; after any fault only `recall` or `close` is called.

    `beside` stands for the tables that a rebuild fills beside the live ones. Their generation rises when rebuilt tables
    take the place of live ones: whoever kept rows of the old ones in memory meets `Moved`, and reads them again.
    """

    def __init__(self, url: str, namespace: str, *, beside: bool = False) -> None:
        self._url = url
        self._schemas = Schemas(namespace, beside=beside)
        self._connection: psycopg.Connection[Any] | None = None
        self._epochs: dict[Place, int] = {}
        self._generations: dict[Place, int] = {}
        self._mute = False
        """Gives no notice any more: everybody may fill their queue, and a commit that gives one fails then. Who waits looks
        by the clock, too."""
        self._move, self._gaps, self._claim, self._recall, self._archived = map(
            self._schemas.fill, (_MOVE, _GAPS, _CLAIM, _RECALL, _ARCHIVED)
        )
        self._store = {name: self._schemas.fill(_upsert(name)) for name in TABLES}
        self._load = {name: self._schemas.fill(_select(name)) for name in TABLES}

    @property
    def backend_pid(self) -> int:
        """The process that serves the connection, on the database's machine."""
        return self._connected().info.backend_pid

    def claim(self, places: Collection[Place]) -> dict[Place, int]:
        """See `Views.claim`."""
        found = self._positions(self._claim, places)
        self._epochs = {place: epoch for place, (_, epoch) in found.items()}
        return {place: next_offset for place, (next_offset, _) in found.items()}

    def recall(self) -> dict[Place, int]:
        """See `Views.recall`."""
        found = self._positions(self._recall, self._epochs)
        for place, mine in self._epochs.items():
            epoch = found[place][1] if place in found else None
            if epoch != mine:
                raise Superseded(
                    f"{place.topic}/{place.partition} is at epoch {epoch}, this projector at {mine}: another one runs"
                )
        return {place: next_offset for place, (next_offset, _) in found.items()}

    def rows(self, table: str, keys: Collection[Key]) -> dict[Key, Row]:
        """See `Views.rows`."""
        spec = TABLES[table]
        columns = tuple(spec.all_columns)
        wanted = json.dumps([dict(zip(spec.key, key, strict=True)) for key in keys])
        with _faults():
            found = self._connected().execute(self._load[table], (wanted,)).fetchall()
        width = len(spec.key)
        rows = {tuple(values[:width]): dict(zip(columns, values, strict=True)) for values in found}
        return {**rows, **self._gone(keys)} if table == SESSIONS else rows

    def _gone(self, keys: Collection[Key]) -> dict[Key, Row]:
        """What stands for the rows of those that were archived, also while they are still there."""
        wanted = json.dumps([{"tenant": tenant, "session_id": one} for tenant, one in keys])
        with _faults():
            found = self._connected().execute(self._archived, (wanted,)).fetchall()
        return {
            (tenant, one): {"tenant": tenant, "session_id": one, "seq": GONE}
            for tenant, one in found
        }

    def apply(self, batch: Batch) -> None:
        """See `Views.apply`. All statements travel at once."""
        connection = self._connected()
        moves = [
            {
                **place._asdict(),
                "before": before,
                "after": after,
                "newest_ms": batch.times.get(place),
                "epoch": self._epochs.get(place),
                "generation": self._generations.get(place),
            }
            for place, (before, after) in batch.moves.items()
        ]
        with _faults():
            with connection.pipeline():
                connection.execute("BEGIN")
                moved = connection.execute(self._move, (json.dumps(moves),))
                for table, rows in batch.rows.items():
                    if rows:
                        connection.execute(self._store[table], (to_json(rows).decode(),))
                if batch.gaps:
                    connection.execute(
                        self._gaps, (json.dumps([_gap_row(gap) for gap in batch.gaps]),)
                    )
                if not self._mute:
                    connection.execute(self._schemas.moved_notice)
            if moved.rowcount != len(moves):
                connection.execute("ROLLBACK")
                raise Moved(
                    f"{len(moves) - moved.rowcount} of {len(moves)} positions are not where they were left"
                )

    def send_commit(self) -> None:
        """See `Views.send_commit`."""
        with _faults():
            pgconn = self._connected().pgconn
            pgconn.send_query(b"COMMIT")
            while pgconn.flush():
                _wait(pgconn.socket, select.POLLOUT)

    def await_commit(self) -> None:
        """See `Views.await_commit`."""
        with _faults():
            pgconn = self._connected().pgconn
            answers: list[pq.abc.PGresult] = []
            while True:
                while pgconn.is_busy():
                    _wait(pgconn.socket, select.POLLIN)
                    pgconn.consume_input()
                answer = pgconn.get_result()
                if answer is None:
                    break
                answers.append(answer)
        if any(answer.error_field(pq.DiagnosticField.SQLSTATE) == b"54000" for answer in answers):
            self._mute = True
        if len(answers) != 1 or answers[0].command_status != b"COMMIT":
            told = b", ".join(answer.command_status or answer.error_message for answer in answers)
            raise ViewsLost(
                f"expected COMMIT, the database answered {told.decode(errors='replace')!r}"
            )

    def close(self) -> None:
        """See `Views.close`."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _positions(
        self, statement: sql.Composed, places: Collection[Place]
    ) -> dict[Place, tuple[int, int]]:
        self.close()
        with _faults():
            self._connection = connect(self._url, role=self._schemas.owner)
            asked = json.dumps([place._asdict() for place in places])
            found = self._connection.execute(statement, (asked,)).fetchall()
        self._generations = {Place(topic, number): row[-1] for topic, number, *row in found}
        return {
            Place(topic, partition): (offset, epoch) for topic, partition, offset, epoch, _ in found
        }

    def _connected(self) -> psycopg.Connection[Any]:
        if self._connection is None:
            raise ViewsLost("not connected: recall first")
        return self._connection


@contextmanager
def _faults() -> Iterator[None]:
    """What the driver raises, by what happens next. Mistakes in a statement are nobody's fault: they pass."""
    try:
        yield
    except psycopg.ProgrammingError:
        raise
    except psycopg.Error as error:
        if error.sqlstate is not None and error.sqlstate.startswith(REFUSED_CLASSES):
            raise RowsRefused(f"{error.sqlstate}: {error}") from error
        raise ViewsLost(f"{type(error).__name__}: {error}") from error


def _wait(socket: int, event: int) -> None:
    poller = select.poll()
    poller.register(socket, event)
    if not poller.poll(ANSWER_MAX_MS):
        raise ViewsLost(f"no answer from the database within {ANSWER_MAX_MS} ms")


def _upsert(name: str) -> str:
    """Stores whole rows where they are newer; jsonb travels as text, so that what is JSON stays as written."""
    table = TABLES[name]
    types = table.all_columns
    given = ", ".join(
        f"{column} {'text' if kind == 'jsonb' else kind}" for column, kind in types.items()
    )
    read = ", ".join(
        f"x.{column}::jsonb" if kind == "jsonb" else f"x.{column}" for column, kind in types.items()
    )
    kept = ", ".join(f"{column} = excluded.{column}" for column in table.columns)
    return f"""
INSERT INTO {{tables}}.{name} AS stored ({", ".join(types)})
SELECT {read} FROM json_to_recordset(%s::json) AS x({given})
ON CONFLICT ({", ".join(table.key)}) DO UPDATE SET {kept}
WHERE excluded.seq > stored.seq
"""  # noqa: S608 - the names are ours, not a user's


def _select(name: str) -> str:
    table = TABLES[name]
    read = ", ".join(
        f"t.{column}::text" if kind == "jsonb" else f"t.{column}"
        for column, kind in table.all_columns.items()
    )
    keys = ", ".join(f"{column} {kind}" for column, kind in table.key.items())
    return f"""
SELECT {read} FROM json_to_recordset(%s::json) AS x({keys})
JOIN {{tables}}.{name} t USING ({", ".join(table.key)})
"""  # noqa: S608 - the names are ours, not a user's


def _gap_row(gap: Gap) -> Mapping[str, object]:
    return {
        "topic": gap.topic,
        "partition": gap.partition,
        "log_offset": gap.offset,
        "reason": _plain(gap.reason),
        "detail": _plain(gap.detail),
    }


def _plain(told: str) -> str:
    return told.replace("\0", "\\0").encode("utf-8", "backslashreplace").decode()


def stored_rows(url: str, namespace: str) -> Rows:
    """Every row by its key, JSON as text: what `audit.differences` compares with a rebuild."""
    return {
        name: {tuple(row[column] for column in TABLES[name].key): row for row in rows}
        for name, rows in all_rows(url, namespace).items()
    }


def stored_gaps(url: str, namespace: str) -> list[Gap]:
    """What is not, or not wholly, in these rows, in the order of the log; readers of one tenant may not see it."""
    schemas = Schemas(namespace)
    with connect(url, role=schemas.owner) as connection:
        return [Gap(*row) for row in connection.execute(schemas.fill(_STORED_GAPS))]


def all_rows(url: str, namespace: str) -> dict[str, Sequence[Row]]:
    """Every row of every table, in the order of its key, JSON as text."""
    schemas = Schemas(namespace)
    found: dict[str, Sequence[Row]] = {}
    with connect(url, role=schemas.owner) as connection:
        for name, table in TABLES.items():
            read = ", ".join(
                f"{c}::text" if kind == "jsonb" else c for c, kind in table.all_columns.items()
            )
            order = ", ".join(table.key)
            query = schemas.fill(f"SELECT {read} FROM {{tables}}.{name} ORDER BY {order}")  # noqa: S608
            columns = tuple(table.all_columns)
            found[name] = [
                dict(zip(columns, row, strict=True)) for row in connection.execute(query)
            ]
    return found
