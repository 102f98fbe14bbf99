"""Connections to Postgres, the schemas of a namespace in it, and how they are made, shown and dropped.

The rows of version 9 are in `<namespace>_v9`, and a rebuild fills `<namespace>_v9b` beside it. People query
`<namespace>`, whose views show one of them. Where an older version is shown, it stays until the new one has caught up.
"""

from __future__ import annotations

import re
from contextlib import closing
from functools import cache
from hashlib import sha256
from typing import Any

import psycopg
from psycopg import sql

from ..events.errors import Rejected
from .connection import connect
from .exclusion import alone
from .schemas import VERSION, Schemas, script_text
from .tenants import (
    KEPT,
    become_owner,
    close_schema,
    drop_role,
    drop_roles,
    guard,
    guard_views,
    prepare,
    take_over,
)

SCRIPTS = ("schema.sql", "views.sql")

LOCK_TOLD = (
    "Wakeful: locked by whoever makes or rebuilds the views; nobody else may use it. Made by"
)

_SHOWN = """
SELECT DISTINCT of.nspname
FROM pg_rewrite r
JOIN pg_depend d ON d.classid = 'pg_rewrite'::regclass AND d.objid = r.oid AND d.refclassid = 'pg_class'::regclass
JOIN pg_class t ON t.oid = d.refobjid AND t.relkind = 'r'
JOIN pg_namespace of ON of.oid = t.relnamespace
WHERE r.ev_class = to_regclass(format('%%I.positions', %s::text))
"""

_TOLD = "SELECT obj_description(oid, 'pg_namespace') FROM pg_namespace WHERE nspname = %s"

_THERE = """
SELECT n.nspname, c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = ANY (%(of)s)
UNION ALL
SELECT n.nspname, p.proname FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace WHERE n.nspname = ANY (%(of)s)
"""

_MADE = re.compile(
    r"^CREATE (?:TABLE IF NOT EXISTS|OR REPLACE (?:VIEW|FUNCTION)) \{(\w+)\}\.(\w+)", re.MULTILINE
)
_INDEXED = re.compile(r"^CREATE INDEX IF NOT EXISTS (\w+)\s+ON \{(\w+)\}", re.MULTILINE)

_NAMEABLE = """
SELECT c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = %s AND c.relname = ANY (%s) AND c.relkind = 'r'
"""
"""Tables that readers could name, from before they lay where nobody can."""

_OLDER = "SELECT nspname FROM pg_namespace WHERE nspname = ANY (%s) ORDER BY nspname"


def install(url: str, namespace: str) -> None:
    """Makes the schemas, tables and views of the namespace where they are missing; a repeat changes nothing.

    Views that show an older version are left as they are: `show` switches them once the rows are there. `Rejected`
    where they show a newer one, and where this login may not make the roles; `Busy` where somebody is in the way. Where
    all is there, nothing is asked for that a reader could keep from us.
    """
    schemas = Schemas(namespace)
    with closing(connect(url)) as connection:
        prepare(connection, schemas)
        with alone(url, connection, schemas):
            take_over(connection, schemas)
            become_owner(connection, schemas)
            for name in older_schemas(connection, schemas):
                close_schema(connection, schemas, name)
            now = shown(connection, schemas)
            if now is not None and _number(now) > VERSION:
                raise Rejected(
                    f"the views in {namespace!r} are of version {_number(now)} and this program makes {VERSION}: "
                    "use the program that made them"
                )
            if now == schemas.live and is_made(connection, schemas):
                guard(connection, schemas)
                guard_views(connection, schemas)
                return
            make_tables(connection, schemas)
            if now is None or now == schemas.live:
                make_views(connection, schemas)


def make_tables(connection: psycopg.Connection[Any], schemas: Schemas) -> None:
    """The tables, each under row-level security. The caller is the owner; a repeat changes nothing."""
    for (name,) in connection.execute(_NAMEABLE, (schemas.views, list(KEPT))).fetchall():
        connection.execute(schemas.fill(f"ALTER TABLE {{views}}.{name} SET SCHEMA {{lock}}"))
    connection.execute(schemas.script("schema.sql"))
    guard(connection, schemas)


def make_views(connection: psycopg.Connection[Any], schemas: Schemas) -> None:
    """The views over these tables, and who may ask them. The caller is the owner; a repeat changes nothing."""
    connection.execute(schemas.script("views.sql"))
    guard_views(connection, schemas)
    made = sql.Literal(f"{LOCK_TOLD} {fingerprint()}")
    connection.execute(schemas.fill("COMMENT ON SCHEMA {lock} IS ") + made)


def is_made(connection: psycopg.Connection[Any], schemas: Schemas) -> bool:
    """Whether tables and views were made by these statements, and none of them is gone."""
    told = connection.execute(_TOLD, (schemas.lock,)).fetchone()
    if told is None or str(told[0]).rpartition(" ")[2] != fingerprint():
        return False
    schema_of = {"views": schemas.views, "tables": schemas.tables, "lock": schemas.lock}
    found = connection.execute(_THERE, {"of": list(schema_of.values())})
    return {(schema_of[at], name) for at, name in made_names()} <= set(found.fetchall())


def show(url: str, namespace: str) -> list[str]:
    """Lets the views show this version's rows, and drops older ones; their schemas. A repeat changes nothing.

    `Busy` where somebody is in the way, and nothing was done.
    """
    schemas = Schemas(namespace)
    with (
        closing(connect(url, role=schemas.owner)) as connection,
        alone(url, connection, schemas),
    ):
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


@cache
def fingerprint() -> str:
    """Of the statements that make tables and views."""
    return sha256("\0".join(map(script_text, SCRIPTS)).encode()).hexdigest()[:16]


@cache
def made_names() -> frozenset[tuple[str, str]]:
    """The tables, indexes, views and functions that they make, each with `views`, `tables` or `lock`, where it is."""
    texts = [script_text(one) for one in SCRIPTS]
    made = {(at, name) for text in texts for at, name in _MADE.findall(text)}
    return frozenset(made | {(at, name) for text in texts for name, at in _INDEXED.findall(text)})


def older_schemas(connection: psycopg.Connection[Any], schemas: Schemas) -> list[str]:
    """The schemas with rows of older versions that there are."""
    return [str(name) for (name,) in connection.execute(_OLDER, (list(schemas.older),))]


def drop_older(connection: psycopg.Connection[Any], schemas: Schemas) -> list[str]:
    """Drops the rows of older versions; the schemas that there were."""
    found = older_schemas(connection, schemas)
    for name in found:
        connection.execute(sql.SQL("DROP SCHEMA {} CASCADE").format(sql.Identifier(name)))
    return found


def drop(url: str, namespace: str) -> None:
    """Removes everything of the namespace, logins for its tenants as well; the log can fill it again."""
    schemas = Schemas(namespace)
    with connect(url) as connection:
        logins = login_names(connection, schemas)
        for name in (schemas.views, schemas.live, schemas.beside, schemas.lock):
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
