"""Logins for people who ask in SQL: each is shown one tenant's rows, and may write nothing.

Who a login is cannot be set by whoever uses it: its tenant stands in a table that only the owner writes, and the policies
ask for `session_user`. So a login whose line is gone is shown nothing from that statement on, connected or not.
"""

from __future__ import annotations

import re
import secrets
from contextlib import closing
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import psycopg
from psycopg import conninfo, sql

from ..events.errors import Rejected
from ..events.keys import check_id
from .confining import Freedom, confine, freedoms, others_live_here
from .connection import connect
from .database import login_names
from .exclusion import Busy, alone, unhindered
from .schemas import Schemas
from .tenants import become_owner, drop_role, missing_roles, prepare

_NAME = re.compile(r"(?!pg_)[a-z_][a-z0-9_]{0,62}")

PASSWORD_BYTES = 24

CONNECTIONS_MAX = 10
"""Of one login at once: a report that goes wrong leaves room for others."""

ENDED_MS = 2_000
"""How long a connection of a login that is revoked may take to end."""


SETTINGS = {
    "default_transaction_read_only": "on",
    "statement_timeout": "5min",
    "idle_in_transaction_session_timeout": "1min",
}
"""What a login begins with. They keep from mishaps alone: whoever logs in may set them otherwise, also for ever."""

ENFORCED = {"temp_file_limit": "1GB"}
"""What only a superuser may set: of the disk, one connection's queries fill no more."""


class Login(NamedTuple):
    """A login, and whose rows it is shown."""

    name: str
    tenant: str


def grant(url: str, namespace: str, name: str, *, tenant: str) -> str:
    """Makes a read-only login for one tenant; its password, which is kept nowhere.

    `Rejected` where the name is no name, or somebody's already: what that one may do is not for us to change; where there
    are no views yet, and where ours may not make logins. `Busy` where somebody is in the way; nothing was done then. Where
    nobody else has a table in this database, what Postgres gives everybody is taken away as well: see `confining`.
    """
    check_id("tenant", tenant)
    if _NAME.fullmatch(name) is None:
        raise Rejected(
            f"login {name!r}: use up to 63 of a-z 0-9 _, not starting with a digit or 'pg_'"
        )
    schemas = Schemas(namespace)
    password = secrets.token_urlsafe(PASSWORD_BYTES)
    with closing(connect(url)) as connection:
        if missing_roles(connection, schemas):
            raise Rejected(
                f"there are no views in {namespace!r} yet: start 'wakeful run' or 'wakeful projector', which makes them"
            )
        prepare(connection, schemas)
        with alone(url, connection, schemas):
            _made(connection, schemas, name, password)
            confine(connection, schemas, others=not others_live_here(connection))
            become_owner(connection, schemas)
            connection.execute(
                schemas.fill("INSERT INTO {views}.logins (login, tenant) VALUES (%s, %s)"),
                (name, tenant),
            )
    return password


def revoke(url: str, namespace: str, name: str) -> bool:
    """Takes the access away; whether the login is gone, too: one that owns something stays, and cannot log in.

    `Rejected` where it has none, as after a repeat; `Busy` where somebody is in the way whom ours may not end. What that
    login asks from then on shows it nothing, and its connections are ended: a cursor that was opened before goes on with
    the rows of then. `Busy`, too, where one could not be ended: the access is gone, and the message says what is left.
    """
    schemas = Schemas(namespace)
    with closing(connect(url)) as connection:
        with unhindered(url, connection, schemas):
            if name not in login_names(connection, schemas):
                raise Rejected(
                    f"login {name!r} has no access to {namespace!r}: see 'wakeful access list'"
                )
            become_owner(connection, schemas)
            connection.execute(schemas.fill("DELETE FROM {views}.logins WHERE login = %s"), (name,))
        if not connection.execute("SELECT FROM pg_roles WHERE rolname = %s", (name,)).rowcount:
            return True
        role = sql.Identifier(name)
        connection.execute(sql.SQL("ALTER ROLE {} NOLOGIN").format(role))
        kept = _disconnected(connection, name)
        connection.execute(schemas.fill("REVOKE {people} FROM ") + role)
        gone, ours = drop_role(connection, name), connection.info.user
    if kept:
        end = ", ".join(f"pg_terminate_backend({pid})" for pid in kept)
        raise Busy(
            f"login {name!r} has no access any more, but what it had asked before goes on in {len(kept)} of its "
            f"connections, which {ours!r} could not end: let a superuser run SELECT {end}"
        )
    return gone


def _disconnected(connection: psycopg.Connection[Any], name: str) -> list[int]:
    """Ends what the login has open, in any database; the processes that go on all the same. No new one can come."""
    found = connection.execute("SELECT pid FROM pg_stat_activity WHERE usename = %s", (name,))
    kept = []
    for (pid,) in found.fetchall():
        try:
            ended = connection.execute("SELECT pg_terminate_backend(%s, %s)", (pid, ENDED_MS))
            if ended.fetchone() != (True,):
                kept.append(pid)
        except psycopg.errors.InsufficientPrivilege:
            kept.append(pid)
    return kept


def confine_logins(url: str, namespace: str) -> list[Freedom]:
    """Takes from everybody in this database what a login could do besides reading; what could not be taken.

    Whoever else uses the database loses it as well: the caller has been told. A repeat changes nothing. `Rejected` as of
    `prepare`; `Busy` where somebody is in the way.
    """
    schemas = Schemas(namespace)
    with closing(connect(url)) as connection:
        prepare(connection, schemas)
        with alone(url, connection, schemas):
            return confine(connection, schemas, others=True)


def left_to_logins(url: str, namespace: str) -> list[Freedom]:
    """What a login may do besides reading; nothing where there are no views."""
    with closing(connect(url, access="read")) as connection:
        return freedoms(connection, Schemas(namespace))


def logins(url: str, namespace: str) -> list[Login]:
    """Who has access to whose rows, by name."""
    schemas = Schemas(namespace)
    with connect(url, role=schemas.owner, access="read") as connection:
        found = connection.execute(
            schemas.fill("SELECT login, tenant FROM {views}.logins ORDER BY login")
        )
        return [Login(*row) for row in found]


def address(url: str, name: str, password: str) -> str:
    """The same server and database as at `url`, in the same form, for another login."""
    if "://" not in url:
        return conninfo.make_conninfo(url, user=name, password=password)
    parts = urlsplit(url)
    where = parts.netloc.rpartition("@")[2]
    return parts._replace(netloc=f"{name}:{password}@{where}").geturl()


def _made(connection: psycopg.Connection[Any], schemas: Schemas, name: str, password: str) -> None:
    try:
        _make(connection, schemas, name, password)
    except (psycopg.errors.DuplicateObject, psycopg.errors.UniqueViolation) as error:
        raise Rejected(
            f"there is a role {name!r} already: choose another name, or revoke it first if it is in "
            "'wakeful access list'"
        ) from error
    except psycopg.errors.InsufficientPrivilege as error:
        raise Rejected(
            f"{connection.info.user!r} may not make logins ({str(error).splitlines()[0]}): set WAKEFUL_POSTGRES to "
            "somebody who may"
        ) from error


def _make(connection: psycopg.Connection[Any], schemas: Schemas, name: str, password: str) -> None:
    """The password travels as what the server keeps of it: no log of statements has it."""
    kept = connection.pgconn.encrypt_password(password.encode(), name.encode(), b"scram-sha-256")
    role = sql.Identifier(name)
    connection.execute(
        sql.SQL("CREATE ROLE {} LOGIN PASSWORD {} CONNECTION LIMIT {}").format(
            role, sql.Literal(kept.decode()), sql.Literal(CONNECTIONS_MAX)
        )
    )
    connection.execute(schemas.fill("GRANT {people} TO ") + role)
    superuser = connection.info.parameter_status("is_superuser") == "on"
    if not superuser:  # else whoever stands in our way could not be ended by us, nor named in full
        connection.execute(sql.SQL("GRANT {} TO CURRENT_USER").format(role))
    for setting, value in (SETTINGS | ENFORCED if superuser else SETTINGS).items():
        connection.execute(
            sql.SQL("ALTER ROLE {} SET {} = {}").format(
                role, sql.Identifier(setting), sql.Literal(value)
            )
        )
    path = schemas.fill(" SET search_path = {views}")
    connection.execute(sql.SQL("ALTER ROLE {}").format(role) + path)
