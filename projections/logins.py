"""Logins for people who ask in SQL: each is shown one tenant's rows, and may write nothing.

Who a login is cannot be set by whoever uses it: its tenant stands in a table that only the owner writes, and the policies
ask for `session_user`. So a login whose line is gone is shown nothing from that statement on, connected or not.
"""

from __future__ import annotations

import re
import secrets
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import psycopg
from psycopg import conninfo, sql

from ..events.errors import Rejected
from ..events.keys import check_id
from .database import alone, connect, login_names
from .schemas import Schemas
from .tenants import become_owner, drop_role, missing_roles

_NAME = re.compile(r"(?!pg_)[a-z_][a-z0-9_]{0,62}")

PASSWORD_BYTES = 24

CONNECTIONS_MAX = 10
"""Of one login at once: a report that goes wrong leaves room for others."""


class Login(NamedTuple):
    """A login, and whose rows it is shown."""

    name: str
    tenant: str


def grant(url: str, namespace: str, name: str, *, tenant: str) -> str:
    """Makes a read-only login for one tenant; its password, which is kept nowhere.

    `Rejected` where the name is no name, or somebody's already: what that one may do is not for us to change.
    """
    check_id("tenant", tenant)
    if _NAME.fullmatch(name) is None:
        raise Rejected(
            f"login {name!r}: use up to 63 of a-z 0-9 _, not starting with a digit or 'pg_'"
        )
    schemas = Schemas(namespace)
    password = secrets.token_urlsafe(PASSWORD_BYTES)
    with connect(url) as connection, connection.transaction():
        alone(connection)
        if missing_roles(connection, schemas):
            raise Rejected(
                f"there are no views in {namespace!r} yet: start 'wakeful run' or 'wakeful projector', which makes them"
            )
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
        become_owner(connection, schemas)
        connection.execute(
            schemas.fill("INSERT INTO {views}.logins (login, tenant) VALUES (%s, %s)"),
            (name, tenant),
        )
    return password


def revoke(url: str, namespace: str, name: str) -> bool:
    """Takes the access away; whether the login is gone, too: one that owns something stays, and cannot log in.

    `Rejected` where it has none. An open connection of that login is shown nothing any more.
    """
    schemas = Schemas(namespace)
    with connect(url) as connection:
        with connection.transaction():
            if name not in login_names(connection, schemas):
                raise Rejected(
                    f"login {name!r} has no access to {namespace!r}: see 'wakeful access list'"
                )
            become_owner(connection, schemas)
            connection.execute(schemas.fill("DELETE FROM {views}.logins WHERE login = %s"), (name,))
        if not connection.execute("SELECT FROM pg_roles WHERE rolname = %s", (name,)).rowcount:
            return True
        role = sql.Identifier(name)
        connection.execute(schemas.fill("REVOKE {people} FROM ") + role)
        connection.execute(sql.SQL("ALTER ROLE {} NOLOGIN").format(role))
        return drop_role(connection, name)


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
    connection.execute(sql.SQL("ALTER ROLE {} SET default_transaction_read_only = on").format(role))
    path = schemas.fill(" SET search_path = {views}")
    connection.execute(sql.SQL("ALTER ROLE {}").format(role) + path)
