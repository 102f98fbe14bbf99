"""The rows of the views as they are stored, one after another: for audits, which compare them with the events."""

from __future__ import annotations

from collections.abc import Iterator

from .connection import connect
from .rows import TABLES, Key, Row
from .schemas import Schemas

FETCH_ROWS = 2_000


def stream_rows(
    url: str, namespace: str, session: tuple[str, str] | None = None
) -> Iterator[tuple[str, Key, Row]]:
    """Every row with its table and key, JSON as text; of one session (tenant, id), or of all. All are of one moment."""
    schemas = Schemas(namespace)
    with (
        connect(url, role=schemas.owner) as connection,
        connection.transaction(),
    ):
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        for name, table in TABLES.items():
            columns = tuple(table.all_columns)
            read = ", ".join(
                f"{c}::text" if kind == "jsonb" else c for c, kind in table.all_columns.items()
            )
            where = "" if session is None else "WHERE tenant = %s AND session_id = %s"
            query = schemas.fill(f"SELECT {read} FROM {{tables}}.{name} {where}")  # noqa: S608 our own names
            with connection.cursor(name="audited") as cursor:
                cursor.itersize = FETCH_ROWS
                cursor.execute(query, session)
                for values in cursor:
                    row = dict(zip(columns, values, strict=True))
                    yield name, tuple(row[column] for column in table.key), row
