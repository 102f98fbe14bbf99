"""`sql`: a query of the user's own to the views, read only, for where no psql is at hand."""

from __future__ import annotations

import sys
from datetime import datetime
from typing import Annotated, Any

import typer

from ..exits import Exit, Stopped
from .context import AsJson, settings

ROWS_MAX = 1_000
"""Rows of an answer; more is for psql, which `docs/sql.md` tells how to connect."""

PLAIN = (str, int, float, bool, list, dict, bytes, datetime)


def sql(
    query: Annotated[
        str,
        typer.Argument(
            metavar="QUERY", help="One query to sessions, ledger and so on; '-' reads it."
        ),
    ],
    *,
    as_json: AsJson = False,
) -> None:
    """Ask the views in SQL: a read-only transaction in which their names need no schema.

    The views are sessions, approvals, ledger, activities, timers, outcomes, refusals, attributes, lag; docs/sql.md has ten questions.
    """
    from .context import queries
    from .output import note, table, write_json

    asked = sys.stdin.read() if query == "-" else query
    with queries(settings()) as views:
        answer = views.select(asked, limit=ROWS_MAX)
    if answer.wrong:
        raise Stopped(Exit.USAGE, answer.wrong)
    if as_json:
        rows = [map(_plain, row) for row in answer.rows]
        write_json([dict(zip(answer.names, row, strict=True)) for row in rows])
        return
    table(answer.names, answer.rows)
    if not answer.rows:
        note("no rows")
    elif answer.more:
        note(f"the first {ROWS_MAX} rows: the query has more, so narrow it or say LIMIT")


def _plain(value: Any) -> Any:
    """A value of Postgres as JSON can hold it: intervals, numerics and what else it has are texts."""
    return value if value is None or isinstance(value, PLAIN) else str(value)
