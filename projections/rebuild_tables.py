"""The two sets of tables of a rebuild, in SQL: made, compared row for row, and switched in one transaction."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from hashlib import sha256
from importlib import resources
from typing import Any, NamedTuple

import psycopg
from psycopg import sql

from ..events.log.protocol import Place
from .database import drop_older, make_tables, make_views
from .exclusion import alone, limit_waiting, take
from .rows import TABLES, Key
from .schemas import Schemas
from .views import REFUSED

LOCK_MAX_MS = 500
"""How long a switch waits for a lock. Less than Postgres waits before it looks for a deadlock: we step back, no reader."""

_FOLD = (
    *(
        "approvals",
        "attributes",
        "chains",
        "children",
        "escaping",
        "jobs",
        "ledger",
        "outcomes",
        "project",
        "projector",
    ),
    *("refused", "resources", "rows", "sessions", "stretches", "timers", "values"),
)
"""Modules that decide what rows come of the log."""

_GAPS_KEY = {"topic": "text", "partition": "integer", "log_offset": "bigint"}
COMPARED: dict[str, tuple[Mapping[str, str], tuple[str, ...]]] = {
    **{name: (table.key, tuple(table.all_columns)) for name, table in TABLES.items()},
    "gaps": (_GAPS_KEY, (*_GAPS_KEY, "reason", "detail")),
}
"""Tables with their keys and all columns. Positions are the same when they are compared; ends are no part of a rebuild."""

_POSITIONS = "SELECT topic, partition, next_offset FROM {tables}.positions"

_REFUSED = """
SELECT topic, partition, log_offset, detail, count(*) OVER () FROM {tables}.gaps WHERE reason = %s
ORDER BY topic, partition, log_offset LIMIT %s
"""

_TAKE_OVER = """
UPDATE {beside}.positions b SET epoch = l.epoch, generation = l.generation + 1
FROM {live}.positions l WHERE l.topic = b.topic AND l.partition = b.partition;
INSERT INTO {beside}.ends SELECT * FROM {live}.ends ON CONFLICT DO NOTHING;
"""

_RELATIONS = """
SELECT c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = %s AND c.relkind = 'r' ORDER BY c.relname
"""


class Difference(NamedTuple):
    """One row that a rebuild gives otherwise."""

    table: str
    key: Key
    told: str


def fingerprint() -> str:
    """Of the code that makes rows: what other code has begun is not gone on with."""
    package = resources.files(__package__)
    parts = [package.joinpath(f"{name}.py").read_bytes() for name in _FOLD]
    parts.append(package.joinpath("schema.sql").read_bytes())
    return sha256(b"\0".join(parts)).hexdigest()[:16]


def exists(connection: psycopg.Connection[Any], schema: str) -> bool:
    """Whether there is such a schema."""
    found = connection.execute("SELECT 1 FROM pg_namespace WHERE nspname = %s", (schema,))
    return found.fetchone() is not None


def made_by(connection: psycopg.Connection[Any], schemas: Schemas) -> str | None:
    """The fingerprint of the code that began the rebuilt tables; null where there are none."""
    found = connection.execute(
        "SELECT obj_description(oid) FROM pg_namespace WHERE nspname = %s", (schemas.beside,)
    ).fetchone()
    return None if found is None else str(found[0]).rpartition(" ")[2]


def make(url: str, connection: psycopg.Connection[Any], namespace: str) -> None:
    """Empty tables beside the live ones, in place of whatever is there; `Busy` where somebody is in the way."""
    beside = Schemas(namespace, beside=True)
    with alone(url, connection, beside):
        discard(connection, beside)
        make_tables(connection, beside)
        told = f"Wakeful: rows that a rebuild fills, to take the place of the live ones. Made by {fingerprint()}"
        connection.execute(
            sql.SQL("COMMENT ON SCHEMA {} IS {}").format(
                sql.Identifier(beside.beside), sql.Literal(told)
            )
        )


def discard(connection: psycopg.Connection[Any], schemas: Schemas) -> None:
    """Drops the rebuilt tables; nothing where there are none."""
    connection.execute(
        sql.SQL("DROP SCHEMA IF EXISTS {} CASCADE").format(sql.Identifier(schemas.beside))
    )


def positions(connection: psycopg.Connection[Any], schemas: Schemas) -> dict[Place, int]:
    """Up to where the log is in these tables."""
    found = connection.execute(schemas.fill(_POSITIONS)).fetchall()
    return {Place(topic, partition): offset for topic, partition, offset in found}


def refused(
    connection: psycopg.Connection[Any], schemas: Schemas, shown_max: int
) -> tuple[int, list[Difference]]:
    """How many records the database refused for these tables, and the first of them."""
    found = connection.execute(schemas.fill(_REFUSED), (REFUSED, shown_max)).fetchall()
    shown = [Difference("gaps", tuple(key), f"refused: {told}") for *key, told, _ in found]
    return (found[0][-1] if found else 0), shown


def lock(connection: psycopg.Connection[Any], schemas: Schemas, *, wait_ms: int) -> bool:
    """Stops whoever fills the live tables, until the transaction ends; whether there are live tables."""
    limit_waiting(connection, wait_ms)
    take(connection, schemas, "installs")
    if not exists(connection, schemas.live):
        return False
    connection.execute(schemas.fill("LOCK TABLE {live}.positions IN ACCESS EXCLUSIVE MODE"))
    return True


def switch(connection: psycopg.Connection[Any], namespace: str, *, live: bool) -> None:
    """Puts the rebuilt tables in the place of the live ones, within the caller's transaction, which holds `lock`.

    What others built on the views stays. What they built on the tables themselves makes it fail, and nothing happens.
    """
    here, beside = Schemas(namespace), Schemas(namespace, beside=True)
    if live:
        connection.execute(here.fill(_TAKE_OVER))
    make_views(connection, beside)
    if live:
        names = [
            sql.Identifier(here.live, n) for (n,) in connection.execute(_RELATIONS, (here.live,))
        ]
        connection.execute(sql.SQL("DROP TABLE {}").format(sql.SQL(", ").join(names)))
        connection.execute(here.fill("DROP FUNCTION {live}.log_time(bigint)"))
        connection.execute(here.fill("DROP SCHEMA {live}"))
    connection.execute(here.fill("ALTER SCHEMA {beside} RENAME TO {live}"))
    make_tables(connection, here)
    drop_older(connection, here)
    connection.execute(here.moved_notice)


def differences(
    live: psycopg.Connection[Any],
    beside: psycopg.Connection[Any],
    namespace: str,
    sessions: Collection[Key] | None = None,
) -> Iterator[Difference | str]:
    """Where the rows of two sets of tables differ, each read by its own connection; a table's name once it is compared.

    With `sessions` only theirs, and gaps all the same. Both are read in the order of their key, so memory does not grow.
    """
    one, other = Schemas(namespace), Schemas(namespace, beside=True)
    for name, (kinds, columns) in COMPARED.items():
        only = None if name == "gaps" else sessions
        numbers = {n for n, kind in enumerate(kinds.values()) if kind != "text"}
        mine, theirs = (_copy(schemas, name, columns, kinds, only) for schemas in (one, other))
        yield from _merge(
            name,
            columns,
            _rows(live, mine, len(kinds), numbers),
            _rows(beside, theirs, len(kinds), numbers),
        )
        yield name


Line = tuple[tuple[Any, ...], Sequence[str | None]]


def _copy(
    schemas: Schemas,
    name: str,
    columns: Collection[str],
    key: Collection[str],
    sessions: Collection[Key] | None,
) -> sql.Composed:
    parts = [schemas.fill(f"COPY (SELECT {', '.join(columns)} FROM {{tables}}.{name} ")]  # noqa: S608 - the names are ours
    if sessions is not None:
        wanted = json.dumps([{"tenant": tenant, "session_id": one} for tenant, one in sessions])
        parts += [
            schemas.fill("JOIN json_to_recordset("),
            sql.Composed([sql.Literal(wanted)]),
            schemas.fill("::json) AS x(tenant text, session_id text) USING (tenant, session_id) "),
        ]
    parts.append(schemas.fill(f"ORDER BY {', '.join(key)}) TO STDOUT"))
    return sql.Composed(parts)


def _rows(
    connection: psycopg.Connection[Any], query: sql.Composed, width: int, numbers: Collection[int]
) -> Iterator[Line]:
    """Rows as texts, each with its key in the order in which Postgres sorts it."""
    with connection.cursor() as cursor, cursor.copy(query) as copy:
        for row in copy.rows():
            key = tuple(
                int(part) if n in numbers else str(part).encode()
                for n, part in enumerate(row[:width])
            )
            yield key, row


def _merge(
    table: str, columns: Sequence[str], live: Iterator[Line], beside: Iterator[Line]
) -> Iterator[Difference]:
    mine, theirs = next(live, None), next(beside, None)
    while mine is not None or theirs is not None:
        if theirs is None or (mine is not None and mine[0] < theirs[0]):
            assert mine is not None
            yield Difference(table, _shown(mine[0]), "a rebuild does not give this row")
            mine = next(live, None)
        elif mine is None or theirs[0] < mine[0]:
            yield Difference(table, _shown(theirs[0]), "only a rebuild gives this row")
            theirs = next(beside, None)
        else:
            if mine[1] != theirs[1]:
                yield Difference(table, _shown(mine[0]), _told(columns, mine[1], theirs[1]))
            mine, theirs = next(live, None), next(beside, None)


def _shown(key: tuple[Any, ...]) -> Key:
    return tuple(part.decode() if isinstance(part, bytes) else part for part in key)


def _told(columns: Sequence[str], live: Sequence[str | None], rebuilt: Sequence[str | None]) -> str:
    both = zip(columns, live, rebuilt, strict=True)
    return "; ".join(
        f"{column} is {mine!r:.200}, a rebuild gives {theirs!r:.200}"
        for column, mine, theirs in both
        if mine != theirs
    )
