"""What Postgres lets every login do besides reading, though nobody gave it that right: found, told, and taken away.

Most are rights of everybody (`PUBLIC`), in the whole database: whoever else uses it loses them as well, but for
superusers, the owner of the views and services. So they are taken by themselves only where nobody else has anything in
the database; else `wakeful access confine` takes them, once somebody has decided that. Some belong to a superuser: where
ours is none, they stay, and are told with the statement that takes them.

One is no right: CREATE RULE waits for a table, catalogs as well, before Postgres asks whether that is allowed, and
everybody else waits behind it. So no statement that makes something is begun for a login: an event trigger refuses it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import psycopg
from psycopg import sql

from .schemas import Schemas

FUNCTIONS = {
    "make large objects": "^(lo_.*|lowrite|loread)$",
    "take advisory locks, as many as there is memory for": "^pg_(try_)?advisory_.*$",
    "write to the server's log of changes (WAL), as much as there is disk for": "^pg_logical_emit_message$",
    "use up transaction ids": "^(pg_current_xact_id|txid_current)$",
    "leave files of snapshots while a transaction lasts": "^pg_export_snapshot$",
}
"""Functions by what they let a login do, as regular expressions of their names. Of ours none calls them.

They are all of those that change anything and that Postgres lets everybody call, but for those that ask for a right on
what they change (`nextval`, `brin_summarize_range`), for notices, and for what ends or sets one's own sessions.
"""

_FUNCTIONS = """
SELECT string_agg(p.oid::regprocedure::text, ', ' ORDER BY p.proname, p.oid)
FROM pg_proc p WHERE p.pronamespace = 'pg_catalog'::regnamespace AND p.proname ~ %s
    AND has_function_privilege(%s, p.oid, 'EXECUTE')
"""

_RIGHTS = """
SELECT has_database_privilege(%(people)s, current_database(), 'TEMPORARY'), EXISTS (
    SELECT FROM pg_namespace WHERE nspname = 'public' AND has_schema_privilege(%(people)s, oid, 'CREATE')
)
"""

_OTHERS = """
SELECT EXISTS (
    SELECT FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname !~ '^(pg_|information_schema$)' AND NOT (
        right(pg_get_userbyid(c.relowner), 4) = '_own'
        AND starts_with(n.nspname, left(pg_get_userbyid(c.relowner), -4))
    ) AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.objid = c.oid AND d.deptype = 'e')
)
"""

_REFUSED_HERE = "SELECT FROM pg_event_trigger WHERE evtname = %s AND evtenabled <> 'D'"

_REFUSE = """
CREATE OR REPLACE FUNCTION {lock}.refuse_people() RETURNS event_trigger
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF EXISTS (
        SELECT FROM pg_auth_members m JOIN pg_roles g ON g.oid = m.roleid JOIN pg_roles r ON r.oid = m.member
        WHERE g.rolname = {people_named} AND r.rolname = session_user AND NOT r.rolsuper AND NOT m.admin_option
    ) THEN
        RAISE insufficient_privilege USING MESSAGE = 'permission denied: a login for one tenant makes nothing';
    END IF;
END $$;
DROP EVENT TRIGGER IF EXISTS {people};
CREATE EVENT TRIGGER {people} ON ddl_command_start EXECUTE FUNCTION {lock}.refuse_people()
"""


class Freedom(NamedTuple):
    """Something that each login may do; `statement` takes it away, from logins alone or (`others`) from everybody."""

    may: str
    statement: str
    others: bool = True


def freedoms(connection: psycopg.Connection[Any], schemas: Schemas) -> list[Freedom]:
    """What the logins may do here besides reading; nothing where there are no roles."""
    known = connection.execute("SELECT FROM pg_roles WHERE rolname = %s", (schemas.people,))
    if not known.rowcount:
        return []
    found = []
    temporary, makes = connection.execute(_RIGHTS, schemas.roles).fetchone() or (False, False)
    database = sql.Identifier(connection.info.dbname).as_string(connection)
    if temporary:
        revoke = f"REVOKE TEMPORARY ON DATABASE {database} FROM PUBLIC"
        found.append(Freedom("make temporary tables", revoke))
    if makes:
        found.append(Freedom("make tables in public", "REVOKE CREATE ON SCHEMA public FROM PUBLIC"))
    for may, names in FUNCTIONS.items():
        row = connection.execute(_FUNCTIONS, (names, schemas.people)).fetchone()
        if row is not None and row[0] is not None:
            revoke = f"REVOKE EXECUTE ON FUNCTION {row[0]} FROM PUBLIC"
            found.append(Freedom(may, revoke))
    if not connection.execute(_REFUSED_HERE, (schemas.people,)).rowcount:
        found.append(Freedom("keep everybody waiting", _refuse(connection, schemas), others=False))
    return found


def others_live_here(connection: psycopg.Connection[Any]) -> bool:
    """Whether somebody has tables or views in this database that are no namespace's of ours."""
    row = connection.execute(_OTHERS).fetchone()
    return row is None or bool(row[0])


def confine(
    connection: psycopg.Connection[Any], schemas: Schemas, *, others: bool
) -> list[Freedom]:
    """Takes away what our login may, with `others` also from everybody; what is left.

    What our login may not take stays. The owner of the views and services go on to make temporary tables, if our login may
    see to that. A repeat takes nothing more. The caller is alone, in a transaction, and not the owner.
    """
    for freedom in freedoms(connection, schemas):
        if freedom.others and not others:
            continue
        try:
            with connection.transaction():
                if freedom.statement.startswith("REVOKE TEMPORARY"):
                    kept = freedom.statement.replace("REVOKE", "GRANT").rpartition(" FROM ")[0]
                    connection.execute(sql.SQL(kept) + schemas.fill(" TO {owner}, {app}"))
                connection.execute(freedom.statement.encode())
        except psycopg.errors.InsufficientPrivilege:
            continue  # it stays, and is told
    return freedoms(connection, schemas)


def _refuse(connection: psycopg.Connection[Any], schemas: Schemas) -> str:
    before, after = _REFUSE.strip().split("{people_named}")
    named = sql.Literal(schemas.people)
    return (schemas.fill(before) + named + schemas.fill(after)).as_string(connection)
