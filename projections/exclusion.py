"""One at a time: whoever makes, switches or rebuilds views holds a lock that readers can neither take nor keep from us.

Advisory locks are everybody's, and so is every table that somebody may name: without a right to read it, PREPARE keeps
a lock on it until the transaction ends. So there are tables for this in a schema of their own, `<namespace>_lock`,
where nobody but the owner may name anything (what was archived lies there, too). Rules:

- Nobody waits for ever. What is not had in `WAIT_MS` is an error that says who has it, and what to do.
- A login for one tenant that stands in the way longer than `GRACE_S` loses its connection, where ours may end it:
  it only reads, and asks again. Nobody else's connection is ended.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, NamedTuple

import psycopg
from psycopg import sql

from ..events.errors import Rejected, Transient
from .connection import connect
from .schemas import Schemas

WAIT_MS = 10_000
"""How long a lock is waited for: others who ask the views wait behind us meanwhile."""

GRACE_S = 3.0
"""How long a tenant's login may stand in our way."""

LOOK_S = 0.2
"""Between two looks at who stands in our way, and before the first: most work is done by then."""

LOOK_MAX_MS = 2_000
"""How long one look may take."""

Work = Literal["installs", "rebuilds"]
"""What is done by one at a time: `installs` make or switch views and logins, in a transaction; `rebuilds` take hours."""

LONG_S: Mapping[Work, float] = {"installs": 60.0, "rebuilds": 86_400.0}
"""From when on work is taken to have got stuck."""

LINGERING_S = 600.0
"""From when on an open transaction of a tenant's login is told: the next version of the views may have to wait for it."""

_TABLES = """
SELECT c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = %s AND c.relkind = 'r'
"""

_MAKE = """
CREATE SCHEMA IF NOT EXISTS {lock};
CREATE TABLE IF NOT EXISTS {lock}.installs ();
CREATE TABLE IF NOT EXISTS {lock}.rebuilds ();
COMMENT ON SCHEMA {lock} IS 'Wakeful: locked by whoever makes or rebuilds the views. Nobody else may use it.';
"""

_PEOPLE = """
SELECT a.pid, a.usename::text, a.application_name, a.xact_start, a.usename <> session_user AND EXISTS (
    SELECT FROM pg_auth_members m JOIN pg_roles g ON g.oid = m.roleid
    WHERE g.rolname = %(people)s AND m.member = a.usesysid AND NOT m.admin_option
)
FROM pg_stat_activity a
"""

_BLOCKERS = f"{_PEOPLE} WHERE a.pid = ANY (pg_blocking_pids(%(pid)s)) ORDER BY a.pid"

_HOLDERS = f"""{_PEOPLE} WHERE a.pid IN (
    SELECT l.pid FROM pg_locks l JOIN pg_class c ON c.oid = l.relation JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = %(lock)s AND c.relname = %(work)s AND l.granted AND l.mode = 'ExclusiveLock'
        AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
) AND coalesce(a.xact_start <= now() - make_interval(secs => %(seconds)s), true) ORDER BY a.pid
"""  # noqa: S608 - the texts are ours

_LINGERING = f"""{_PEOPLE} WHERE a.datname = current_database()
    AND a.xact_start < now() - make_interval(secs => %(seconds)s) ORDER BY a.xact_start
"""


class Busy(Transient):
    """Somebody else has a lock that was not given back in time; the message names them and what to do."""


class Holder(NamedTuple):
    """A connection to the database. `since` is when its transaction began, null where our login is not told.

    `tenants` says that it is a login made for one tenant.
    """

    pid: int
    role: str
    application: str
    since: datetime | None
    tenants: bool

    def __str__(self) -> str:
        since = f"since {self.since:%Y-%m-%d %H:%M:%S}Z" if self.since is not None else ""
        named = f"as {self.application!r}" if self.application else ""
        return ", ".join(
            part for part in (f"process {self.pid} of role {self.role!r}", named, since) if part
        )


GONE_MS = 1_000
"""How long the database may take to notice that an earlier run is gone; one that still runs holds on for longer."""

_FOR_HOURS = """
SELECT set_config(name, '0', false) FROM pg_settings
WHERE name IN ('idle_in_transaction_session_timeout', 'transaction_timeout')
"""
"""A transaction may do nothing for as long as a rebuild takes; the second setting is of Postgres 17."""


@dataclass(slots=True)
class Seen:
    """Who was last seen in the way of a connection; `kept` says why one of them was not ended, or nobody looks any more."""

    blockers: Sequence[Holder] = ()
    kept: str = ""


def make_locks(connection: psycopg.Connection[Any], schemas: Schemas) -> None:
    """Makes what is locked, where it is missing. The caller is the owner, in a transaction."""
    found = {str(name) for (name,) in connection.execute(_TABLES, (schemas.lock,))}
    if not found >= {"installs", "rebuilds"}:
        connection.execute(schemas.fill(_MAKE))


def take(connection: psycopg.Connection[Any], schemas: Schemas, work: Work) -> None:
    """Until the transaction ends nobody else does this work. Waits as long as `lock_timeout` says.

    The mode is none that a backup or a look waits for.
    """
    connection.execute(schemas.fill(f"LOCK TABLE {{lock}}.{work} IN EXCLUSIVE MODE"))


def holders(
    connection: psycopg.Connection[Any], schemas: Schemas, work: Work, *, seconds: float = 0.0
) -> list[Holder]:
    """Who does this work now, for longer than this as far as our login is told; nobody where there are no views."""
    asked = {"people": schemas.people, "lock": schemas.lock, "work": work, "seconds": seconds}
    return [Holder(*row) for row in connection.execute(_HOLDERS, asked)]


def lingering(
    connection: psycopg.Connection[Any], schemas: Schemas, *, seconds: float
) -> list[Holder]:
    """Logins of tenants whose transaction is open for longer than this, as far as our login is told."""
    asked = {"people": schemas.people, "seconds": seconds}
    found = [Holder(*row) for row in connection.execute(_LINGERING, asked)]
    return [one for one in found if one.tenants]


@contextmanager
def alone(url: str, connection: psycopg.Connection[Any], schemas: Schemas) -> Iterator[None]:
    """A transaction in which nobody else makes or switches views: two at once would both find nothing. See `unhindered`."""
    with unhindered(url, connection, schemas):
        take(connection, schemas, "installs")
        yield


@contextmanager
def unhindered(url: str, connection: psycopg.Connection[Any], schemas: Schemas) -> Iterator[None]:
    """A transaction whose locks are each had in `WAIT_MS`, or `Busy` is raised and nothing was done."""
    with cleared(url, connection, schemas, grace_s=GRACE_S) as seen:
        try:
            with connection.transaction():
                limit_waiting(connection, WAIT_MS)
                yield
        except (psycopg.errors.LockNotAvailable, psycopg.errors.DeadlockDetected) as error:
            raise Busy(
                f"the views in {schemas.views!r} cannot be changed now: {told(seen)}"
            ) from error


def hold(
    holding: psycopg.Connection[Any],
    connection: psycopg.Connection[Any],
    schemas: Schemas,
    refusal: type[Rejected],
) -> None:
    """Keeps other rebuilds and archives away until `holding` is closed: by a transaction that reads nothing.

    Raises `refusal`, naming who does such work now, as far as `connection` is told.
    """
    holding.execute(_FOR_HOURS)
    holding.execute("BEGIN")
    limit_waiting(holding, GONE_MS)
    try:
        take(holding, schemas, "rebuilds")
    except psycopg.errors.LockNotAvailable as held:
        by = holders(connection, schemas, "rebuilds")
        who = "; ".join(map(str, by)) or "its end is not noticed yet"
        end = ", ".join(f"pg_terminate_backend({one.pid})" for one in by)
        raise refusal(
            f"a rebuild or an archive of the views in {schemas.views!r} runs already ({who}): wait for it"
            + (f", or end it with SELECT {end}" if end else ", or run it again")
        ) from held


def check_holding(holding: psycopg.Connection[Any], undone: str) -> None:
    """Before what cannot be taken back: `Transient` where the connection that excludes others is gone without a word."""
    try:
        holding.execute("SELECT")
    except psycopg.Error as error:
        raise Transient(
            f"the connection that keeps other rebuilds away was lost ({str(error).splitlines()[0]}): {undone}; run it again"
        ) from error


def limit_waiting(connection: psycopg.Connection[Any], wait_ms: int) -> None:
    """In this transaction no lock is waited for longer."""
    connection.execute(sql.SQL("SET LOCAL lock_timeout = {}").format(sql.Literal(wait_ms)))


def told(seen: Seen) -> str:
    """Who is in the way and what to do, in words."""
    kept = f" ({seen.kept})" if seen.kept else ""
    if not seen.blockers:
        is_there = f"is in the way{kept}" if kept else "was in the way, and is gone"
        return f"somebody {is_there}: run it again"
    end = ", ".join(f"pg_terminate_backend({one.pid})" for one in seen.blockers)
    who = f"{'; '.join(map(str, seen.blockers))}{kept}"
    return f"in the way is {who}: wait for it, or end it with SELECT {end}, then run it again"


@contextmanager
def cleared(
    url: str, connection: psycopg.Connection[Any], schemas: Schemas, *, grace_s: float
) -> Iterator[Seen]:
    """Meanwhile, whoever stands in this connection's way is noted, and a tenant's login has no longer than this for it.

    A thread looks, on a connection of its own, which is made only where this takes longer than a moment. While ours waits
    in the queue nobody who comes later is let in before, so a login that comes back at once gains nothing.
    """
    seen, ended = Seen(), threading.Event()
    arguments = (url, connection.info.backend_pid, schemas, grace_s, seen, ended)
    thread = threading.Thread(target=_clear, args=arguments, name="clearing", daemon=True)
    thread.start()
    try:
        yield seen
    finally:
        ended.set()
        thread.join()


def _clear(
    url: str, pid: int, schemas: Schemas, grace_s: float, seen: Seen, ended: threading.Event
) -> None:
    blocked_s: float | None = None
    if ended.wait(LOOK_S):
        return
    try:
        with closing(connect(url, limit_ms=LOOK_MAX_MS)) as looking:
            asked = {"people": schemas.people, "pid": pid}
            while not ended.is_set():
                found = [Holder(*row) for row in looking.execute(_BLOCKERS, asked)]
                seen.blockers = found or seen.blockers
                if not found:
                    blocked_s = None
                elif blocked_s is None:
                    blocked_s = time.monotonic()
                if blocked_s is not None and time.monotonic() - blocked_s >= grace_s:
                    _end(looking, [one for one in found if one.tenants], seen)
                ended.wait(LOOK_S)
    except psycopg.Error as error:
        seen.kept = f"nobody can look: {str(error).splitlines()[0]}"


def _end(looking: psycopg.Connection[Any], found: Sequence[Holder], seen: Seen) -> None:
    for one in found:
        try:
            looking.execute("SELECT pg_terminate_backend(%s)", (one.pid,))
        except psycopg.errors.InsufficientPrivilege:
            seen.kept = f"{looking.info.user!r} may not end it"
