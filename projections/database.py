"""Connections to Postgres, the schemas of a namespace in it, and how they are made."""

from __future__ import annotations

import re
import zlib
from importlib import resources
from typing import Any, Literal

import psycopg
from psycopg import sql

from ..events.errors import InvalidKey
from ..events.topics import NAMESPACE

VERSION = 2
"""Of the rows. Another one is filled beside this one, then the views are switched."""

NAME_MAX = 58
"""Postgres cuts names at 63 bytes without a word; the version's suffix needs some."""

ANSWER_MAX_MS = 30_000
CONNECT_MAX_S = 10

_TAKEN = re.compile(r"pg_.*|public|information_schema|.*_v[0-9]+")


class Schemas:
    """The two schemas of a namespace: `<namespace>` with the views, `<namespace>_v2` with the rows."""

    def __init__(self, namespace: str) -> None:
        if (
            NAMESPACE.fullmatch(namespace) is None
            or len(namespace) > NAME_MAX
            or _TAKEN.fullmatch(namespace)
        ):
            raise InvalidKey(
                f"namespace {namespace!r} cannot name a schema: use up to {NAME_MAX} of a-z 0-9 . _ -, "
                "not starting with 'pg_', not 'public', and not ending like a version ('_v1')"
            )
        self.views = namespace
        self.tables = f"{namespace}_v{VERSION}"
        self.channel = f"{namespace}.moved"
        self.listen = sql.SQL("LISTEN {}").format(sql.Identifier(self.channel))
        self.moved_notice = sql.SQL("SELECT pg_notify({}, '')").format(sql.Literal(self.channel))

    def fill(self, template: str) -> sql.Composed:
        """A statement with `{tables}` and `{views}` in place."""
        parts = re.split(r"(\{tables\}|\{views\})", template)
        names = {"{tables}": sql.Identifier(self.tables), "{views}": sql.Identifier(self.views)}
        return sql.Composed([names[part] if part in names else sql.SQL(part) for part in parts])


def connect(url: str, *, access: Literal["read", "write"] = "write") -> psycopg.Connection[Any]:
    """A connection in autocommit; no statement on it runs longer than `ANSWER_MAX_MS`."""
    read_only = "on" if access == "read" else "off"
    return psycopg.connect(
        url,
        autocommit=True,
        connect_timeout=CONNECT_MAX_S,
        options=f"-c statement_timeout={ANSWER_MAX_MS} -c TimeZone=UTC -c jit=off "
        f"-c default_transaction_read_only={read_only}",
        application_name="wakeful",
    )


def install(url: str, namespace: str) -> None:
    """Makes the schemas, tables and views of the namespace where they are missing; a repeat changes nothing."""
    schemas = Schemas(namespace)
    statements = schemas.fill(
        resources.files(__package__).joinpath("schema.sql").read_text("utf-8")
    )
    with connect(url) as connection, connection.transaction():
        # Two that start at once would both find nothing and one would fail.
        connection.execute("SELECT pg_advisory_xact_lock(%s)", (zlib.crc32(b"wakeful/install"),))
        connection.execute(statements)


def drop(url: str, namespace: str) -> None:
    """Removes everything of the namespace; the log can fill it again."""
    names = [Schemas(namespace).views, *(f"{namespace}_v{n}" for n in range(1, VERSION + 1))]
    with connect(url) as connection:
        for name in names:
            statement = sql.SQL("DROP SCHEMA IF EXISTS {} CASCADE").format(sql.Identifier(name))
            connection.execute(statement)
