"""Connections to Postgres, the schemas of a namespace in it, and how they are made, shown and dropped.

The rows of version 6 are in `<namespace>_v6`, and a rebuild fills `<namespace>_v6b` beside it. People query
`<namespace>`, whose views show one of them. Where an older version is shown, it stays until the new one has caught up.
"""

from __future__ import annotations

import zlib
from typing import Any, Literal

import psycopg
from psycopg import sql

from ..events.errors import Rejected
from .schemas import VERSION, Schemas
from .tenants import become_owner, drop_role, drop_roles, guard, guard_views, prepare

ANSWER_MAX_MS = 30_000
CONNECT_MAX_S = 10

_SHOWN = """
SELECT DISTINCT of.nspname
FROM pg_rewrite r
JOIN pg_depend d ON d.classid = 'pg_rewrite'::regclass AND d.objid = r.oid AND d.refclassid = 'pg_class'::regclass
JOIN pg_class t ON t.oid = d.refobjid AND t.relkind = 'r'
JOIN pg_namespace of ON of.oid = t.relnamespace
WHERE r.ev_class = to_regclass(format('%%I.positions', %s::text))
"""

_OLDER = "SELECT nspname FROM pg_namespace WHERE nspname = ANY (%s) ORDER BY nspname"


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


def install(url: str, namespace: str) -> None:
    """Makes the schemas, tables and views of the namespace where they are missing; a repeat changes nothing.

    Views that show an older version are left as they are: `show` switches them once the rows are there. `Rejected`
    where they show a newer one, and where this login may not make the roles.
    """
    schemas = Schemas(namespace)
    with connect(url) as connection, connection.transaction():
        alone(connection)
        prepare(connection, schemas)
        become_owner(connection, schemas)
        now = shown(connection, schemas)
        if now is not None and _number(now) > VERSION:
            raise Rejected(
                f"the views in {namespace!r} are of version {_number(now)} and this program makes {VERSION}: "
                "use the program that made them"
            )
        make_tables(connection, schemas)
        if now is None or now == schemas.live:
            make_views(connection, schemas)


def make_tables(connection: psycopg.Connection[Any], schemas: Schemas) -> None:
    """The tables, each under row-level security. The caller is the owner; a repeat changes nothing."""
    connection.execute(schemas.script("schema.sql"))
    guard(connection, schemas)


def make_views(connection: psycopg.Connection[Any], schemas: Schemas) -> None:
    """The views over these tables, and who may ask them. The caller is the owner; a repeat changes nothing."""
    connection.execute(schemas.script("views.sql"))
    guard_views(connection, schemas)


def show(url: str, namespace: str) -> list[str]:
    """Lets the views show this version's rows, and drops older ones; their schemas. A repeat changes nothing."""
    schemas = Schemas(namespace)
    with connect(url, role=schemas.owner) as connection, connection.transaction():
        alone(connection)
        make_views(connection, schemas)
        return drop_older(connection, schemas)


def is_shown(url: str, namespace: str) -> bool:
    """Whether the views show this version's rows."""
    schemas = Schemas(namespace)
    with connect(url, access="read") as connection:
        return shown(connection, schemas) == schemas.live


def missing_views(url: str, namespace: str) -> list[str]:
    """The views of this version that are not there, by name."""
    schemas = Schemas(namespace)
    with connect(url, access="read") as connection:
        rows = connection.execute(
            "SELECT viewname::text FROM pg_views WHERE schemaname = %s", (schemas.views,)
        )
        there = {name for (name,) in rows}
    return [name for name in schemas.view_names if name not in there]


def shown(connection: psycopg.Connection[Any], schemas: Schemas) -> str | None:
    """The schema whose rows the views show; null where there are no views."""
    found = connection.execute(_SHOWN, (schemas.views,)).fetchone()
    return None if found is None else str(found[0])


def alone(connection: psycopg.Connection[Any]) -> None:
    """Until the transaction ends nobody else makes or switches views: two at once would both find nothing."""
    connection.execute("SELECT pg_advisory_xact_lock(%s)", (zlib.crc32(b"wakeful/install"),))


def drop_older(connection: psycopg.Connection[Any], schemas: Schemas) -> list[str]:
    """Drops the rows of older versions; the schemas that there were."""
    found = [str(name) for (name,) in connection.execute(_OLDER, (list(schemas.older),))]
    for name in found:
        connection.execute(sql.SQL("DROP SCHEMA {} CASCADE").format(sql.Identifier(name)))
    return found


def drop(url: str, namespace: str) -> None:
    """Removes everything of the namespace, logins for its tenants as well; the log can fill it again."""
    schemas = Schemas(namespace)
    with connect(url) as connection:
        logins = login_names(connection, schemas)
        for name in (schemas.views, schemas.live, schemas.beside):
            statement = sql.SQL("DROP SCHEMA IF EXISTS {} CASCADE").format(sql.Identifier(name))
            connection.execute(statement)
        drop_older(connection, schemas)
        for login in logins:
            drop_role(connection, login)
        drop_roles(connection, schemas)


def login_names(connection: psycopg.Connection[Any], schemas: Schemas) -> list[str]:
    """The logins that were made for one tenant each."""
    there = connection.execute("SELECT to_regclass(%s)", (f'"{schemas.views}".logins',)).fetchone()
    if there is None or there[0] is None:
        return []
    return [
        str(name)
        for (name,) in connection.execute(schemas.fill("SELECT login FROM {views}.logins"))
    ]


def _number(schema: str) -> int:
    return int(schema.rpartition("_v")[2].rstrip("b"))
