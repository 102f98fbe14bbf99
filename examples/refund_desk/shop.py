"""The shop's own orders, in Postgres: what the agent looks up. Nothing in here knows of Wakeful."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql
from pydantic import BaseModel

ORDERS = Path(__file__).with_name("orders.sql")
CONNECT_LIMIT_S = 5
ANSWER_LIMIT_MS = 5_000


class Order(BaseModel):
    """What a customer has paid for."""

    id: str
    item: str
    cents: int


class Shop:
    """The orders in one schema of one database."""

    def __init__(self, url: str, schema: str) -> None:
        self._url = url
        self._schema = sql.Identifier(schema)

    def create(self) -> None:
        """Makes the schema with its orders; a repeat changes nothing."""
        with self._connection() as connection:
            connection.execute(sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(self._schema))
            connection.execute(ORDERS.read_bytes())

    def find(self, order_id: str, customer: str) -> Order | None:
        """The order, if it is this customer's; nobody is told of the orders of others."""
        asked = "SELECT id, item, cents FROM orders WHERE id = %s AND customer = %s"
        with self._connection() as connection:
            row = connection.execute(asked, (order_id, customer)).fetchone()
        return row and Order(id=row[0], item=row[1], cents=row[2])

    def drop(self) -> None:
        """Removes the schema; a repeat changes nothing."""
        with self._connection() as connection:
            connection.execute(sql.SQL("DROP SCHEMA IF EXISTS {} CASCADE").format(self._schema))

    @contextmanager
    def _connection(self) -> Iterator[psycopg.Connection[Any]]:
        """One transaction, committed at its end."""
        limit = f"-c statement_timeout={ANSWER_LIMIT_MS} -c client_min_messages=warning"
        with psycopg.connect(
            self._url, connect_timeout=CONNECT_LIMIT_S, options=limit
        ) as connection:
            connection.execute(sql.SQL("SET search_path TO {}").format(self._schema))
            yield connection
