"""A query of the user's own: read only, with a limit of time and of rows, in a transaction that is always rolled back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg.rows import tuple_row

from .schemas import FOR_TENANT, Schemas

VIEWS = (
    *("sessions", "approvals", "ledger", "activities", "timers", "outcomes", "refusals", "lag"),
    *("gaps", "positions", "stretches", "attributes", "terms", "jobs", "children", "resources"),
    *("archived", "archives"),
)


@dataclass(frozen=True, slots=True)
class Asked:
    """The columns, the rows, and whether there were more; or in words what was `wrong` with the query."""

    names: tuple[str, ...] = ()
    rows: tuple[tuple[Any, ...], ...] = ()
    more: bool = False
    wrong: str = ""


def select(
    connection: psycopg.Connection[Any],
    schemas: Schemas,
    query: str,
    *,
    limit: int,
    tenant: str | None = None,
) -> Asked:
    """Runs one query with the views' schema first on the path; what Postgres says against it is told, not raised.

    Where the connection is a reader's, it is shown this tenant's rows.
    """
    if not query.strip():
        return Asked(wrong=f"the query is empty: ask {', '.join(VIEWS)}")
    try:
        with (
            connection.transaction(force_rollback=True),
            connection.cursor(row_factory=tuple_row) as cursor,
        ):
            cursor.execute(schemas.fill("SET LOCAL search_path TO {views}"))
            if tenant is not None:
                cursor.execute(FOR_TENANT, (tenant,))
            cursor.execute("SET TRANSACTION READ ONLY")
            cursor.execute(query.encode(), prepare=True)  # one statement, never several
            if cursor.description is None:
                return Asked(wrong="this gives no rows: ask with SELECT")
            found = cursor.fetchmany(limit + 1)
            names = tuple(column.name for column in cursor.description)
    except psycopg.errors.QueryCanceled:
        return Asked(wrong="the query took too long and was stopped: narrow it, or say LIMIT")
    except (psycopg.OperationalError, psycopg.InterfaceError):
        raise
    except psycopg.Error as refused:
        return Asked(wrong=_words(refused, query))
    return Asked(names, tuple(found[:limit]), len(found) > limit)


def _words(refused: psycopg.Error, query: str) -> str:
    """What Postgres says, where in the query, and what there is to ask."""
    diagnosis = refused.diag
    told = diagnosis.message_primary or " ".join(str(refused).split())
    if diagnosis.statement_position:
        at = int(diagnosis.statement_position) - 1
        near = " ".join(query[at : at + 40].split())
        told += f", at {near!r}" if near else ", at its end"
    if isinstance(refused, psycopg.errors.SyntaxError) and "multiple commands" in told:
        return "this is more than one statement, and one is answered: ask one statement at a time"
    hint = f" ({diagnosis.message_hint})" if diagnosis.message_hint else ""
    if isinstance(refused, psycopg.errors.UndefinedTable):
        return f"{told}{hint}: the views are {', '.join(VIEWS)}"
    if isinstance(refused, psycopg.errors.ReadOnlySqlTransaction):
        return f"{told}: the views are only read here"
    return f"{told}{hint}: correct the query, docs/sql.md has examples"
