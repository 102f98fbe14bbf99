"""Connections to Postgres: how each is opened, and how long a statement on it may take."""

from __future__ import annotations

from typing import Any, Literal

import psycopg
from psycopg import sql

ANSWER_MAX_MS = 30_000
CONNECT_MAX_S = 10


def connect(
    url: str,
    *,
    role: str | None = None,
    access: Literal["read", "write"] = "write",
    limit_ms: int = ANSWER_MAX_MS,
) -> psycopg.Connection[Any]:
    """A connection in autocommit; no statement on it runs longer than the limit. All is done as `role`, if one is given."""
    read_only = "on" if access == "read" else "off"
    connection = psycopg.connect(
        url,
        autocommit=True,
        connect_timeout=CONNECT_MAX_S,
        client_encoding="UTF8",  # any text can be sent; what the database cannot hold, the database refuses
        options=f"-c statement_timeout={limit_ms} -c TimeZone=UTC -c jit=off "
        f"-c default_transaction_read_only={read_only}",
        application_name="wakeful",
    )
    if role is not None:
        try:
            connection.execute(sql.SQL("SET ROLE {}").format(sql.Identifier(role)))
        except BaseException:
            connection.close()
            raise
    return connection
