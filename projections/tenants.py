"""Who may see which rows: roles of the namespace, and row-level security on every table. A database refuses, not a WHERE.

Three roles without login, named after the namespace:

- `<namespace>_own` owns everything and writes all tenants' rows: the projector, the rebuild, the audit. Row-level
  security is forced on it, too; a policy of its own lets it through, so nothing rests on being a superuser.
- `<namespace>_app` is for services that are trusted to say for whom they ask: `wakeful.tenant`, set for one
  transaction. Not set, or empty, it is shown nothing.
- `<namespace>_sql` is for people with a login of their own (see `logins`): the tenant follows from the login, in a
  table that they cannot write. Whatever they set or become, `session_user` stays who they are.

Statistics are off for these rows: an estimate of EXPLAIN would tell of other tenants' values.
"""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from typing import Any

import psycopg
from psycopg import sql

from ..events.errors import Rejected, Transient
from .exclusion import make_locks
from .schemas import SETTING, Schemas

SERVER_MIN = 15
"""Views that ask with the rights of whoever asks came with this version."""

KEPT = ("archived", "archives")
"""Tables that are not from the log, and that a rebuild leaves; they lie beside the locks, where no reader may name them."""

OPERATORS_ONLY = frozenset({"gaps", "archives"})
"""What tells of records of all tenants, in words that may quote them."""

RACES_MAX = 20
"""How often roles and locks are looked at again because others make the same at that moment."""

RACE_S = 0.1
"""Between two such looks."""

RACED = (
    psycopg.errors.UniqueViolation,
    psycopg.errors.DuplicateObject,
    psycopg.errors.DuplicateSchema,
    psycopg.errors.DuplicateTable,
    psycopg.errors.UndefinedObject,
    psycopg.errors.InvalidParameterValue,
    psycopg.errors.InternalError_,
)
"""What Postgres says to the second of two that make or drop the same at once: that it is there, is not there (of a role that is
set as a parameter, too), or "tuple concurrently updated"."""

_BY_SETTING = f"tenant = nullif(current_setting('{SETTING}', true), '')"
_BY_LOGIN = "tenant = (SELECT l.tenant FROM {views}.logins l WHERE l.login = session_user::text)"

_ATTRIBUTES = """
SELECT rolname, rolcanlogin OR rolsuper OR rolbypassrls OR rolcreaterole FROM pg_roles WHERE rolname = ANY (%s)
"""

_ENTITLED = """
SELECT pg_has_role(%(owner)s, 'USAGE') AND pg_has_role(%(app)s, 'USAGE'),
    has_database_privilege(%(owner)s, current_database(), 'CREATE')
"""

_TABLES = """
SELECT c.relname, c.relrowsecurity AND c.relforcerowsecurity, EXISTS (
        SELECT FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attname = 'tenant' AND NOT a.attisdropped
    ), ARRAY(SELECT p.polname::text FROM pg_policy p WHERE p.polrelid = c.oid ORDER BY 1)
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = %s AND c.relkind IN ('r', 'p') ORDER BY 1
"""

_COLUMNS = "SELECT attname FROM pg_attribute WHERE attrelid = %s::regclass AND attnum > 0 AND NOT attisdropped"

_STRANGERS = """
SELECT c.relname, c.relkind FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = %s AND c.relkind = 'v' AND c.relname = ANY (%s) AND pg_get_userbyid(c.relowner) <> %s
"""

_OWNED = (
    "SELECT nspname FROM pg_namespace WHERE nspname = ANY (%s) AND pg_get_userbyid(nspowner) <> %s"
)

_SHOWN_TO = """
SELECT c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = %s AND c.relkind = 'v' AND c.relname = ANY (%s) AND NOT has_table_privilege(%s, c.oid, 'SELECT')
"""

_UNGUARDED = """
SELECT format('view %%s asks with the rights of %%s', c.relname, pg_get_userbyid(c.relowner)::text)
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = %(views)s AND c.relkind IN ('v', 'm')
    AND NOT coalesce(c.reloptions::text[] && ARRAY['security_invoker=true', 'security_invoker=on'], false)
UNION ALL
SELECT format('table %%s shows its rows to everybody', c.relname)
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE (n.nspname IN (%(views)s, %(live)s) OR n.nspname = %(lock)s AND c.relname = ANY (%(kept)s))
    AND c.relkind IN ('r', 'p') AND NOT (c.relrowsecurity AND c.relforcerowsecurity)
ORDER BY 1
"""


def prepare(connection: psycopg.Connection[Any], schemas: Schemas) -> None:
    """Makes the roles, and what is locked, where they are missing; the connection is in no transaction.

    `Rejected` names the statements to be run by somebody who may, where this login may not. A repeat changes nothing.
    Nothing excludes others yet: where two make the same at once, one of them looks again.
    """
    if connection.info.server_version < SERVER_MIN * 10_000:
        raise Rejected(
            f"the database is Postgres {connection.info.server_version // 10_000}: use {SERVER_MIN} or newer, whose views "
            "can ask with the rights of the reader"
        )
    for tries in range(1, RACES_MAX + 1):
        try:
            _prepare(connection, schemas)
            return
        except RACED as error:
            if tries == RACES_MAX:
                raise Transient(
                    f"others make or drop the roles of {schemas.views!r} all the while: after {tries} tries they are not "
                    f"all there ({str(error).splitlines()[0]}); run it again"
                ) from error
            time.sleep(RACE_S)


def _prepare(connection: psycopg.Connection[Any], schemas: Schemas) -> None:
    for name in missing_roles(connection, schemas):
        _make_role(connection, schemas, name)
    entitled, creates = connection.execute(_ENTITLED, schemas.roles).fetchone() or (False, False)
    try:
        with connection.transaction():
            if not entitled:
                grant = schemas.fill("GRANT {owner}, {app} TO ")
                connection.execute(grant + sql.SQL("CURRENT_USER"))
            if not creates:
                connection.execute(_may_create(connection, schemas))
            become_owner(connection, schemas)
            make_locks(connection, schemas)
    except psycopg.errors.InsufficientPrivilege as error:
        raise _refused(connection, schemas, error) from error


def take_over(connection: psycopg.Connection[Any], schemas: Schemas) -> None:
    """What an older version has made as its login becomes the owner's; its views go on to be answered.

    The caller is alone, in a transaction, and not the owner. `Rejected` as of `prepare`.
    """
    try:
        with connection.transaction():
            _take_over(connection, schemas)
    except psycopg.errors.InsufficientPrivilege as error:
        raise _refused(connection, schemas, error) from error


def missing_roles(connection: psycopg.Connection[Any], schemas: Schemas) -> list[str]:
    """The roles that are not there; `Rejected` where one of these names is somebody who could do more."""
    names = list(schemas.roles.values())
    found = dict(connection.execute(_ATTRIBUTES, (names,)).fetchall())
    for name, unfit in found.items():
        if unfit:
            raise Rejected(
                f"role {name!r} may log in, or more than read: it cannot keep tenants apart; rename it, or choose "
                "another WAKEFUL_NAMESPACE"
            )
    return [name for name in names if name not in found]


def unguarded(connection: psycopg.Connection[Any], schemas: Schemas) -> list[str]:
    """What in the namespace shows rows of all tenants to whoever may read it, in words: views that others put there."""
    names = {"views": schemas.views, "live": schemas.live, "lock": schemas.lock, "kept": list(KEPT)}
    return [str(told) for (told,) in connection.execute(_UNGUARDED, names)]


def guard(connection: psycopg.Connection[Any], schemas: Schemas) -> None:
    """Puts every table under row-level security, found from the catalog; a repeat changes nothing, and takes no lock.

    Readers may not name the tables, only the views over them: whoever may name a table can have others wait for it, the
    projector as well. The caller is the owner, in a transaction.
    """
    _guard_logins(connection, schemas)
    _guard_archives(connection, schemas)
    for table, forced, tenanted, policies in connection.execute(_TABLES, (schemas.tables,)):
        wanted = _policies(table, tenanted=tenanted)
        if not forced or policies != sorted(wanted):
            _guard_table(connection, schemas, f"{{tables}}.{table}", wanted, policies)
            if tenanted:
                _blind(connection, schemas, schemas.tables, table)
    close_schema(connection, schemas, schemas.tables)


def close_schema(connection: psycopg.Connection[Any], schemas: Schemas, name: str) -> None:
    """No reader may name what is in this schema; views over it answer as before. The caller is the owner."""
    revoke = sql.SQL("REVOKE ALL ON SCHEMA {}").format(sql.Identifier(name))
    connection.execute(revoke + schemas.fill(" FROM {app}, {people}, PUBLIC"))


def guard_views(connection: psycopg.Connection[Any], schemas: Schemas) -> None:
    """Lets readers ask the views, but for those that are the operators'. The caller is the owner."""
    names = [name for name in schemas.view_names if name not in OPERATORS_ONLY]
    for (name,) in connection.execute(_SHOWN_TO, (schemas.views, names, schemas.people)):
        connection.execute(schemas.fill(f"GRANT SELECT ON {{views}}.{name} TO {{app}}, {{people}}"))
    connection.execute(schemas.fill("GRANT USAGE ON SCHEMA {views} TO {app}, {people}"))


def become_owner(connection: psycopg.Connection[Any], schemas: Schemas) -> None:
    """Until the transaction ends, all is done as the owner."""
    connection.execute(schemas.fill("SET LOCAL ROLE {owner}"))


def drop_roles(connection: psycopg.Connection[Any], schemas: Schemas) -> None:
    """Removes the roles; those that another database of the server uses stay. Its schemas are gone before."""
    for name in schemas.roles.values():
        if connection.execute("SELECT FROM pg_roles WHERE rolname = %s", (name,)).rowcount:
            drop_role(connection, name)


def drop_role(connection: psycopg.Connection[Any], name: str) -> bool:
    """Removes a role and what it was granted here; whether it is gone: it stays where it has something elsewhere."""
    drop = sql.SQL("DROP ROLE {}").format(sql.Identifier(name))
    owned = sql.SQL("DROP OWNED BY {}").format(sql.Identifier(name))
    return _done(connection, drop) or _done(connection, owned, drop)


def _done(connection: psycopg.Connection[Any], *statements: sql.Composed) -> bool:
    """Whether it could be done; tried again where others do the same at once, in whichever database of this server."""
    for _ in range(RACES_MAX):
        try:
            return _done_at_once(connection, statements)
        except psycopg.errors.InternalError_:  # "tuple concurrently deleted"
            time.sleep(RACE_S)
    return _done_at_once(connection, statements)


def _done_at_once(connection: psycopg.Connection[Any], statements: Sequence[sql.Composed]) -> bool:
    try:
        with connection.transaction():
            for statement in statements:
                connection.execute(statement)
    except (
        psycopg.errors.DependentObjectsStillExist,
        psycopg.errors.InsufficientPrivilege,
        psycopg.errors.UndefinedObject,
    ):
        return False
    return True


def _make_role(connection: psycopg.Connection[Any], schemas: Schemas, name: str) -> None:
    try:
        with connection.transaction():
            connection.execute(sql.SQL("CREATE ROLE {} NOLOGIN").format(sql.Identifier(name)))
    except (psycopg.errors.DuplicateObject, psycopg.errors.UniqueViolation):
        pass  # made meanwhile for another database of this server, whose roles are the same
    except psycopg.errors.InsufficientPrivilege as error:
        raise _refused(connection, schemas, error) from error


def _refused(
    connection: psycopg.Connection[Any], schemas: Schemas, error: psycopg.Error
) -> Rejected:
    user, database = connection.info.user, connection.info.dbname
    lines = [f'CREATE ROLE "{name}" NOLOGIN' for name in schemas.roles.values()]
    lines.append(f'GRANT "{schemas.owner}", "{schemas.app}" TO "{user}"')
    lines.append(f'GRANT CREATE ON DATABASE "{database}" TO "{schemas.owner}"')
    told = str(error).splitlines()[0]
    return Rejected(
        f"{user!r} may not set up who sees which tenant ({told}): let a superuser run, where it is not so yet, "
        f"{'; '.join(lines)}"
    )


def _may_create(connection: psycopg.Connection[Any], schemas: Schemas) -> sql.Composed:
    database = sql.Identifier(connection.info.dbname)
    grant = sql.SQL("GRANT CREATE ON DATABASE {} TO ").format(database)
    return grant + schemas.fill("{owner}")


def _take_over(connection: psycopg.Connection[Any], schemas: Schemas) -> None:
    names = [schemas.views, schemas.live, schemas.beside, *schemas.older]
    for (name,) in connection.execute(_OWNED, (names, schemas.owner)).fetchall():
        schema = sql.Identifier(name)
        owner = sql.Identifier(schemas.owner)
        connection.execute(sql.SQL("ALTER SCHEMA {} OWNER TO {}").format(schema, owner))
        if name != schemas.views:
            grant = sql.SQL("GRANT SELECT ON ALL TABLES IN SCHEMA {} TO {}")
            connection.execute(grant.format(schema, owner))
    listed = (schemas.views, list(schemas.view_names), schemas.owner)
    for name, _ in connection.execute(_STRANGERS, listed).fetchall():
        connection.execute(schemas.fill(f"ALTER VIEW {{views}}.{name} OWNER TO {{owner}}"))
    asked = f'"{schemas.views}".reached(text)'
    if _owner_of_function(connection, asked) not in (None, schemas.owner):
        connection.execute(schemas.fill("ALTER FUNCTION {views}.reached(text) OWNER TO {owner}"))


def _owner_of_function(connection: psycopg.Connection[Any], signature: str) -> str | None:
    found = connection.execute(
        "SELECT pg_get_userbyid(proowner) FROM pg_proc WHERE oid = to_regprocedure(%s)",
        (signature,),
    ).fetchone()
    return None if found is None else str(found[0])


def _policies(table: str, *, tenanted: bool) -> dict[str, str]:
    """Policies of a table by name: for whom, and which rows."""
    wanted = {"projector": "TO {owner} USING (true) WITH CHECK (true)"}
    if tenanted:
        wanted["by_setting"] = f"FOR SELECT TO {{app}} USING ({_BY_SETTING})"
        wanted["by_login"] = f"FOR SELECT TO {{people}} USING ({_BY_LOGIN})"
    elif table not in OPERATORS_ONLY:
        wanted["nobodys"] = "FOR SELECT TO {app}, {people} USING (true)"
    return wanted


def _guard_logins(connection: psycopg.Connection[Any], schemas: Schemas) -> None:
    """People read their own line, which is what the other policies ask for, and nobody else's."""
    wanted = {
        "projector": "TO {owner} USING (true) WITH CHECK (true)",
        "by_login": "FOR SELECT TO {people} USING (login = session_user::text)",
    }
    for table, forced, _, policies in connection.execute(_TABLES, (schemas.views,)):
        if table == "logins" and (not forced or policies != sorted(wanted)):
            _guard_table(connection, schemas, "{views}.logins", wanted, policies)


def _guard_archives(connection: psycopg.Connection[Any], schemas: Schemas) -> None:
    """What was archived is each tenant's own, as its rows were."""
    for table, forced, tenanted, policies in connection.execute(_TABLES, (schemas.lock,)):
        wanted = _policies(table, tenanted=tenanted)
        if table in KEPT and (not forced or policies != sorted(wanted)):
            _guard_table(connection, schemas, f"{{lock}}.{table}", wanted, policies)
            if tenanted:
                _blind(connection, schemas, schemas.lock, table)


def _guard_table(
    connection: psycopg.Connection[Any],
    schemas: Schemas,
    table: str,
    wanted: dict[str, str],
    there: Sequence[str],
) -> None:
    statements = [
        f"ALTER TABLE {table} ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY",
        *(f'DROP POLICY "{name}" ON {table}' for name in there),
        *(f"CREATE POLICY {name} ON {table} {rule}" for name, rule in wanted.items()),
    ]
    readers = re.findall(r"\{(?:app|people)\}", " ".join(wanted.values()))
    if readers:
        statements.append(f"GRANT SELECT ON {table} TO {', '.join(sorted(set(readers)))}")
    for statement in statements:
        connection.execute(schemas.fill(statement))


def _blind(connection: psycopg.Connection[Any], schemas: Schemas, schema: str, table: str) -> None:
    """No samples of these rows: the planner's estimates are told to anybody who may ask for one tenant's."""
    name = f'"{schema}"."{table}"'
    columns = [str(column) for (column,) in connection.execute(_COLUMNS, (name,))]
    off = ", ".join(f"ALTER COLUMN {column} SET STATISTICS 0" for column in columns)
    connection.execute(schemas.fill(f"ALTER TABLE {name} {off}"))
