"""Sessions that ended long ago, out of the views and into files: each once, whatever dies when. Topics are untouched.

A generator of places to stop, like the projector's. For each tenant, over and over:

1. *Claim*: some thousand sessions are put into `archived`, in one transaction that has whoever fills the views read them
   again. From then on their rows stand still: events that still come for them are passed over.
2. *Write*: the rows of some of them go into a part, a gzip file of JSON lines, under a name made of its digest.
3. *Take out*: one transaction notes the part in `archives` and drops the rows that it has.
4. *Tell*: the tenant's manifest is written anew from `archives`. What no manifest names was left by a run that died
   between 2 and 3, and has nothing that is not in the views or in another part.

A run begins with what an earlier one has claimed and not taken out. A rebuild leaves archived sessions out; while some
are claimed and not taken out, or an archive runs, none begins.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import psycopg

from ..events.blob_store import FsspecBlobs
from ..events.errors import Rejected
from .connection import connect
from .exclusion import check_holding, hold
from .rebuild_tables import exists
from .rows import TABLES, Key
from .schemas import Schemas

CLAIM_MAX = 5_000
"""Sessions that are claimed at once: with each claim the projector reads some records again."""

PART_MAX = 500
"""Sessions of one part, and of one transaction that drops rows."""

FINISHED = ("Completed", "Failed", "Cancelled")

FORMAT = 1
"""Of parts and manifests."""

_TENANTS = """
WITH RECURSIVE of AS (
    (SELECT tenant FROM {live}.sessions ORDER BY tenant LIMIT 1)
    UNION ALL
    SELECT (SELECT s.tenant FROM {live}.sessions s WHERE s.tenant > of.tenant ORDER BY s.tenant LIMIT 1)
    FROM of WHERE of.tenant IS NOT NULL
)
SELECT tenant FROM of WHERE tenant IS NOT NULL
UNION SELECT tenant FROM {lock}.archived WHERE part IS NULL
UNION SELECT of_tenant FROM {lock}.archives WHERE store = %(store)s
ORDER BY 1
"""

_READ_AGAIN = "UPDATE {live}.positions SET generation = generation + 1"

_CLAIM = """
INSERT INTO {lock}.archived (tenant, session_id, status, seq, finished_at_ms, archived_at)
SELECT s.tenant, s.session_id, s.status, s.seq, s.updated_at_ms, now()
FROM unnest(%(statuses)s::text[]) AS f(status)
CROSS JOIN LATERAL (
    SELECT * FROM {live}.sessions s
    WHERE s.tenant = %(tenant)s AND s.status = f.status AND s.updated_at_ms < %(before_ms)s
    ORDER BY s.updated_at_ms, s.session_id LIMIT %(most)s
) AS s
LIMIT %(most)s
ON CONFLICT DO NOTHING
"""

_CLAIMED = """
SELECT session_id, finished_at_ms FROM {lock}.archived
WHERE tenant = %(tenant)s AND part IS NULL ORDER BY session_id LIMIT %(most)s
"""

_UNDER_WAY = "SELECT 1 FROM {lock}.archived WHERE part IS NULL LIMIT 1"

_PART = """
INSERT INTO {lock}.archives
    (part, store, of_tenant, name, sha256, bytes, sessions, rows, finished_since_ms, finished_until_ms, written_at)
SELECT coalesce(max(part), 0) + 1, %(store)s, %(tenant)s, %(name)s, %(sha256)s, %(bytes)s, %(sessions)s, %(rows)s,
    %(since_ms)s, %(until_ms)s, now()
FROM {lock}.archives
RETURNING part
"""

_ARCHIVED = """
UPDATE {lock}.archived SET part = %(part)s WHERE tenant = %(tenant)s AND session_id = ANY (%(ids)s) AND part IS NULL
"""

_PARTS = """
SELECT name, sha256, bytes, sessions, rows, finished_since_ms, finished_until_ms,
    to_char(written_at, 'YYYY-MM-DD"T"HH24:MI:SS"Z"') AS written_at
FROM {lock}.archives WHERE store = %(store)s AND of_tenant = %(tenant)s ORDER BY part
"""


class AnotherRuns(Rejected):
    """An archive or a rebuild of these views runs already."""


@dataclass(slots=True)
class Told:
    """How far it is: sessions and parts so far, and of which tenant the last ones are."""

    sessions: int = 0
    parts: int = 0
    tenant: str = ""


@dataclass(frozen=True, slots=True)
class _Part:
    """A part as it is written, and which sessions it has."""

    name: str
    data: bytes
    rows: int
    ids: Sequence[str]
    since_ms: int
    until_ms: int


class Archive:
    """One run, of all tenants: what ended before a time of the log, in milliseconds, goes to the store at this URL."""

    def __init__(
        self,
        url: str,
        namespace: str,
        store: FsspecBlobs,
        *,
        before_ms: int,
        rest: Callable[[], object] = lambda: None,
    ) -> None:
        """`rest` is called after each claim, so that whoever fills the views gets on meanwhile."""
        self._url, self._schemas = url, Schemas(namespace)
        self._store = store
        self._before_ms = before_ms
        self._rest = rest
        self.told = Told()

    def steps(self) -> Iterator[str]:
        """Runs to the end; each name is a place to stop. `AnotherRuns`, `BlobUnavailable`; run again, it goes on."""
        with self._only_one() as connection:
            listed = connection.execute(self._schemas.fill(_TENANTS), {"store": self._store.url})
            tenants = [str(tenant) for (tenant,) in listed]
            for tenant in tenants:
                self.told.tenant = tenant
                while True:
                    yield from self._take_out(connection, tenant)
                    if not self._claim(connection, tenant):
                        break
                    yield "a.claimed"
                    self._rest()
                self._tell(connection, tenant)
                yield "a.told"

    def _claim(self, connection: psycopg.Connection[Any], tenant: str) -> int:
        """The positions come first: whoever fills the views holds them when it stores rows, and reads anew afterwards."""
        with connection.transaction():
            connection.execute(self._schemas.fill(_READ_AGAIN))
            return connection.execute(
                self._schemas.fill(_CLAIM),
                {
                    "tenant": tenant,
                    "statuses": list(FINISHED),
                    "before_ms": self._before_ms,
                    "most": CLAIM_MAX,
                },
            ).rowcount

    def _take_out(self, connection: psycopg.Connection[Any], tenant: str) -> Iterator[str]:
        while True:
            claimed = connection.execute(
                self._schemas.fill(_CLAIMED), {"tenant": tenant, "most": PART_MAX}
            ).fetchall()
            if not claimed:
                return
            part = self._read(connection, tenant, claimed)
            self._store.write(part.name, part.data)
            yield "a.written"
            self._drop(connection, tenant, part)
            self.told.sessions += len(part.ids)
            self.told.parts += 1
            yield "a.taken_out"
            self._tell(connection, tenant)
            yield "a.told"

    def _read(
        self, connection: psycopg.Connection[Any], tenant: str, claimed: list[tuple[str, int]]
    ) -> _Part:
        ids = [one for one, _ in claimed]
        lines: list[str] = []
        for name, table in TABLES.items():
            query = self._schemas.fill(
                f"SELECT row_to_json(t)::text FROM {{live}}.{name} t "  # noqa: S608 - the names are ours
                f"WHERE tenant = %s AND session_id = ANY (%s) ORDER BY {', '.join(table.key)}"
            )
            lines += [
                f'{{"table":"{name}","row":{row}}}\n'
                for (row,) in connection.execute(query, (tenant, ids))
            ]
        data = gzip.compress("".join(lines).encode(), mtime=0)
        times = [at for _, at in claimed]
        name = f"{tenant}/sessions-{sha256(data).hexdigest()[:32]}.ndjson.gz"
        return _Part(name, data, len(lines), ids, min(times), max(times) + 1)

    def _drop(self, connection: psycopg.Connection[Any], tenant: str, part: _Part) -> None:
        values: dict[str, object] = {
            "store": self._store.url,
            "tenant": tenant,
            "name": part.name,
            "sha256": sha256(part.data).hexdigest(),
            "bytes": len(part.data),
            "sessions": len(part.ids),
            "rows": part.rows,
            "since_ms": part.since_ms,
            "until_ms": part.until_ms,
            "ids": list(part.ids),
        }
        check_holding(self._holding, "what it took out so far is in its files")
        with connection.transaction():
            (values["part"],) = connection.execute(
                self._schemas.fill(_PART), values
            ).fetchone() or (0,)
            connection.execute(self._schemas.fill(_ARCHIVED), values)
            beside = ("{beside}",) if exists(connection, self._schemas.beside) else ()
            for schema in ("{live}", *beside):  # a rebuild that was begun, and goes on later
                for name in TABLES:
                    drop = f"DELETE FROM {schema}.{name} WHERE tenant = %(tenant)s AND session_id = ANY (%(ids)s)"  # noqa: S608
                    connection.execute(self._schemas.fill(drop), values)

    def _tell(self, connection: psycopg.Connection[Any], tenant: str) -> None:
        with connection.cursor(row_factory=psycopg.rows.dict_row) as cursor:
            parts = cursor.execute(
                self._schemas.fill(_PARTS), {"store": self._store.url, "tenant": tenant}
            ).fetchall()
        if parts:
            told = {
                "format": FORMAT,
                "namespace": self._schemas.views,
                "tenant": tenant,
                "parts": parts,
            }
            data = json.dumps(told, indent=1).encode() + b"\n"
            self._store.write(f"{tenant}/manifest.json", data)

    @contextmanager
    def _only_one(self) -> Iterator[psycopg.Connection[Any]]:
        """As a rebuild excludes another: neither may find the rows half there."""
        with (
            closing(connect(self._url)) as connection,
            closing(connect(self._url)) as self._holding,
        ):
            connection.execute(self._schemas.fill("SET ROLE {owner}"))
            hold(self._holding, connection, self._schemas, AnotherRuns)
            yield connection


def archived_sessions(url: str, namespace: str) -> frozenset[Key]:
    """The sessions that were claimed or taken out, of all tenants."""
    schemas = Schemas(namespace)
    with closing(connect(url, role=schemas.owner, access="read")) as connection:
        found = connection.execute(schemas.fill("SELECT tenant, session_id FROM {lock}.archived"))
        return frozenset((tenant, session_id) for tenant, session_id in found)


def check_none_begun(connection: psycopg.Connection[Any], schemas: Schemas) -> None:
    """`Rejected` where an archive was begun and not ended: a rebuild would not give its rows. The caller is alone."""
    there = connection.execute("SELECT to_regclass(%s)", (f'"{schemas.lock}".archived',)).fetchone()
    if there is None or there[0] is None:
        return
    if connection.execute(schemas.fill(_UNDER_WAY)).fetchone() is not None:
        raise Rejected(
            "an archive of sessions was begun and did not end: run 'wakeful projections archive' again, to its end, first"
        )
