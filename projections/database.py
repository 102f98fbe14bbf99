"""Connections to Postgres, the schemas of a namespace in it, and how they are made, shown and dropped.

The rows of version 3 are in `<namespace>_v3`, and a rebuild fills `<namespace>_v3b` beside it. People query
`<namespace>`, whose views show one of them. Where an older version is shown, it stays until the new one has caught up.
"""

from __future__ import annotations

import re
import zlib
from importlib import resources
from typing import Any, Literal

import psycopg
from psycopg import sql

from ..events.errors import InvalidKey, Rejected
from ..events.topics import NAMESPACE

VERSION = 3
"""Of the rows. Another one is filled beside this one, then the views are switched."""

NAME_MAX = 58
"""Postgres cuts names at 63 bytes without a word; the version's suffix needs some."""

ANSWER_MAX_MS = 30_000
CONNECT_MAX_S = 10

_TAKEN = re.compile(r"pg_.*|public|information_schema|.*_v[0-9]+b?")

_SHOWN = """
SELECT DISTINCT of.nspname
FROM pg_rewrite r
JOIN pg_depend d ON d.classid = 'pg_rewrite'::regclass AND d.objid = r.oid AND d.refclassid = 'pg_class'::regclass
JOIN pg_class t ON t.oid = d.refobjid AND t.relkind = 'r'
JOIN pg_namespace of ON of.oid = t.relnamespace
WHERE r.ev_class = to_regclass(format('%%I.positions', %s::text))
"""

_OLDER = "SELECT nspname FROM pg_namespace WHERE nspname = ANY (%s) ORDER BY nspname"


class Schemas:
    """The schemas of a namespace: `views` is what people query, `tables` has the rows, or those `beside` them."""

    def __init__(self, namespace: str, *, beside: bool = False) -> None:
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
        self.live = f"{namespace}_v{VERSION}"
        self.beside = f"{self.live}b"
        self.tables = self.beside if beside else self.live
        self.channel = f"{namespace}.moved"
        self.listen = sql.SQL("LISTEN {}").format(sql.Identifier(self.channel))
        self.moved_notice = sql.SQL("SELECT pg_notify({}, '')").format(sql.Literal(self.channel))

    def fill(self, template: str) -> sql.Composed:
        """A statement with `{tables}`, `{live}`, `{beside}` and `{views}` in place."""
        names = {
            "{tables}": self.tables,
            "{live}": self.live,
            "{beside}": self.beside,
            "{views}": self.views,
        }
        parts = re.split(r"(\{[a-z]+\})", template)
        return sql.Composed(
            [sql.Identifier(names[part]) if part in names else sql.SQL(part) for part in parts]
        )

    def script(self, name: str) -> sql.Composed:
        """One of the files of statements beside this module."""
        return self.fill(resources.files(__package__).joinpath(name).read_text("utf-8"))


def connect(
    url: str, *, access: Literal["read", "write"] = "write", limit_ms: int = ANSWER_MAX_MS
) -> psycopg.Connection[Any]:
    """A connection in autocommit; no statement on it runs longer than the limit."""
    read_only = "on" if access == "read" else "off"
    return psycopg.connect(
        url,
        autocommit=True,
        connect_timeout=CONNECT_MAX_S,
        options=f"-c statement_timeout={limit_ms} -c TimeZone=UTC -c jit=off "
        f"-c default_transaction_read_only={read_only}",
        application_name="wakeful",
    )


def install(url: str, namespace: str) -> None:
    """Makes the schemas, tables and views of the namespace where they are missing; a repeat changes nothing.

    Views that show an older version are left as they are: `show` switches them once the rows are there. `Rejected`
    where they show a newer one.
    """
    schemas = Schemas(namespace)
    with connect(url) as connection, connection.transaction():
        alone(connection)
        now = shown(connection, schemas)
        if now is not None and _number(now) > VERSION:
            raise Rejected(
                f"the views in {namespace!r} are of version {_number(now)} and this program makes {VERSION}: "
                "use the program that made them"
            )
        connection.execute(schemas.script("schema.sql"))
        if now is None or now == schemas.live:
            connection.execute(schemas.script("views.sql"))


def show(url: str, namespace: str) -> list[str]:
    """Lets the views show this version's rows, and drops older ones; their schemas. A repeat changes nothing."""
    schemas = Schemas(namespace)
    with connect(url) as connection, connection.transaction():
        alone(connection)
        connection.execute(schemas.script("views.sql"))
        return drop_older(connection, schemas)


def is_shown(url: str, namespace: str) -> bool:
    """Whether the views show this version's rows."""
    schemas = Schemas(namespace)
    with connect(url, access="read") as connection:
        return shown(connection, schemas) == schemas.live


def shown(connection: psycopg.Connection[Any], schemas: Schemas) -> str | None:
    """The schema whose rows the views show; null where there are no views."""
    found = connection.execute(_SHOWN, (schemas.views,)).fetchone()
    return None if found is None else str(found[0])


def alone(connection: psycopg.Connection[Any]) -> None:
    """Until the transaction ends nobody else makes or switches views: two at once would both find nothing."""
    connection.execute("SELECT pg_advisory_xact_lock(%s)", (zlib.crc32(b"wakeful/install"),))


def drop_older(connection: psycopg.Connection[Any], schemas: Schemas) -> list[str]:
    """Drops the rows of older versions; the schemas that there were."""
    older = [f"{schemas.views}_v{n}{b}" for n in range(1, VERSION) for b in ("", "b")]
    found = [str(name) for (name,) in connection.execute(_OLDER, (older,))]
    for name in found:
        connection.execute(sql.SQL("DROP SCHEMA {} CASCADE").format(sql.Identifier(name)))
    return found


def drop(url: str, namespace: str) -> None:
    """Removes everything of the namespace; the log can fill it again."""
    schemas = Schemas(namespace)
    with connect(url) as connection:
        for name in (schemas.views, schemas.live, schemas.beside):
            statement = sql.SQL("DROP SCHEMA IF EXISTS {} CASCADE").format(sql.Identifier(name))
            connection.execute(statement)
        drop_older(connection, schemas)


def _number(schema: str) -> int:
    return int(schema.rpartition("_v")[2].rstrip("b"))
