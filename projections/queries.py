"""Questions to the views, for the command line and the HTTP API. Answers are dicts with the views' columns."""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import datetime
from types import TracebackType
from typing import Any, Self

import psycopg
from psycopg.rows import dict_row

from ..events.errors import Transient
from ..events.log.protocol import Place
from .asked import Asked, select
from .connection import connect
from .schemas import FOR_TENANT, Schemas
from .tokens import token_of

LIMIT_MAX = 1_000
"""Rows of one answer."""

LOOK_AGAIN_S = 0.2
"""Between two looks at the positions; a notice from the projector comes earlier."""

WALKING = FOR_TENANT + "".join(
    f", set_config('enable_{way}', 'off', true)"
    for way in ("seqscan", "bitmapscan", "sort", "hashjoin", "mergejoin")
)
"""For this tenant, and along indexes alone, until the transaction ends."""

Answer = dict[str, Any]


_SESSIONS = """
SELECT * FROM {views}.sessions
WHERE (%(tenant)s::text IS NULL OR tenant = %(tenant)s)
    AND (%(status)s::text IS NULL OR status = %(status)s)
    AND (%(session_id)s::text IS NULL OR session_id = %(session_id)s)
ORDER BY updated_at DESC, tenant, session_id
LIMIT %(limit)s
"""

_FOUND = """
SELECT s.* FROM {views}.sessions s JOIN {views}.terms t ON t.tenant = s.tenant AND t.session_id = s.session_id
WHERE (%(tenant)s::text IS NULL OR t.tenant = %(tenant)s) AND t.term = %(term)s
    AND (%(status)s::text IS NULL OR s.status = %(status)s)
ORDER BY t.since_ms DESC, s.tenant, s.session_id
LIMIT %(limit)s
"""

_APPROVALS = """
SELECT * FROM {views}.approvals
WHERE (%(tenant)s::text IS NULL OR tenant = %(tenant)s)
    AND (%(session_id)s::text IS NULL OR session_id = %(session_id)s)
    AND (%(status)s::text IS NULL OR status = %(status)s)
ORDER BY requested_at, tenant, session_id, turn, step, proposal_id
LIMIT %(limit)s
"""

_APPROVAL = """
SELECT * FROM {views}.approvals
WHERE tenant = %(tenant)s AND session_id = %(session_id)s AND proposal_id = %(proposal_id)s LIMIT %(limit)s
"""

_STRETCHES = """
SELECT first_seq, last_seq, first_offset, last_offset FROM {views}.stretches
WHERE tenant = %(tenant)s AND session_id = %(session_id)s AND last_seq > %(behind_seq)s ORDER BY first_seq LIMIT %(limit)s
"""

_LEDGER = """
SELECT * FROM (
    SELECT l.*, coalesce(
        l.status = 'uncertain' AND l.on_uncertain = 'wait' AND l.turn = s.turn
            AND s.status NOT IN ('Suspended', 'Completed', 'Failed', 'Cancelled'),
        false
    ) AS in_doubt
    FROM {views}.ledger l LEFT JOIN {views}.sessions s USING (tenant, session_id)
) AS steps
WHERE (%(tenant)s::text IS NULL OR tenant = %(tenant)s)
    AND (%(session_id)s::text IS NULL OR session_id = %(session_id)s)
    AND (%(status)s::text IS NULL OR status = %(status)s)
    AND (in_doubt OR NOT %(in_doubt)s)
ORDER BY tenant, session_id, turn, step
LIMIT %(limit)s
"""

_NEWEST_STEPS = """
SELECT * FROM (
    SELECT * FROM {views}.ledger
    WHERE (%(tenant)s::text IS NULL OR tenant = %(tenant)s)
        AND (%(session_id)s::text IS NULL OR session_id = %(session_id)s)
        AND (%(status)s::text IS NULL OR status = %(status)s)
        AND (%(since)s::timestamptz IS NULL OR requested_at >= %(since)s)
    ORDER BY requested_at DESC, tenant DESC, session_id DESC, turn DESC, step DESC
    LIMIT %(limit)s
) AS newest
ORDER BY requested_at, tenant, session_id, turn, step
"""

_BY_SESSION = """
WHERE (%(tenant)s::text IS NULL OR tenant = %(tenant)s)
    AND (%(session_id)s::text IS NULL OR session_id = %(session_id)s)
"""

_ACTIVITIES = f"""
SELECT * FROM {{views}}.activities {_BY_SESSION}
    AND (NOT %(open)s OR open)
ORDER BY since, tenant, session_id, turn, step, activity_id
LIMIT %(limit)s
"""  # noqa: S608 - the texts are ours

_TIMERS = f"""
SELECT * FROM {{views}}.timers {_BY_SESSION}
ORDER BY due_at, tenant, session_id, kind, id
LIMIT %(limit)s
"""  # noqa: S608 - the texts are ours

_OUTCOMES = f"""
SELECT * FROM {{views}}.outcomes {_BY_SESSION}
    AND (%(command_id)s::text IS NULL OR command_id = %(command_id)s)
ORDER BY tenant, session_id, seq
LIMIT %(limit)s
"""  # noqa: S608 - the texts are ours

_REFUSALS = f"""
SELECT * FROM {{views}}.refusals {_BY_SESSION}
ORDER BY refused_at DESC, tenant, session_id, seq DESC
LIMIT %(limit)s
"""  # noqa: S608 - the texts are ours


class Queries:
    """One read-only connection; not for several threads. Closed by `with`.

    With a tenant the database shows that tenant's rows and no others, whatever a question asks for: each is asked as the
    role for readers, in a transaction that names the tenant; or as a login for one tenant, which has no other role to
    take and is shown its own. Without a tenant it is the operator's, who sees all.
    """

    def __init__(self, url: str, namespace: str, *, tenant: str | None = None) -> None:
        self._schemas = Schemas(namespace)
        self.tenant = tenant
        if tenant is None:
            self._connection = connect(url, role=self._schemas.owner, access="read")
        else:
            self._connection = _as_reader(url, self._schemas)
        self._connection.row_factory = dict_row

    def sessions(
        self,
        *,
        tenant: str | None = None,
        status: str | None = None,
        term: str | None = None,
        limit: int = 100,
    ) -> list[Answer]:
        """Sessions, the one with the latest event first; with a term of attributes the one first that came to it last."""
        if term is not None:
            return self.ask(_FOUND, tenant=tenant, status=status, term=term, limit=limit)
        return self.ask(_SESSIONS, tenant=tenant, status=status, session_id=None, limit=limit)

    def session(self, session_id: str, *, tenant: str | None = None) -> list[Answer]:
        """The session of this name; several where the tenant is left open and more than one has it."""
        return self.ask(
            _SESSIONS, tenant=tenant, status=None, session_id=session_id, limit=LIMIT_MAX
        )

    def approvals(
        self,
        *,
        tenant: str | None = None,
        session_id: str | None = None,
        status: str | None = "requested",
        limit: int = 100,
    ) -> list[Answer]:
        """Proposals, the oldest first: the open ones, unless another status (or none) is asked for."""
        return self.ask(
            _APPROVALS, tenant=tenant, session_id=session_id, status=status, limit=limit
        )

    def approval(self, session_id: str, proposal_id: str, *, tenant: str) -> Answer | None:
        """One proposal, open or not; null where there is none."""
        found = self.ask(
            _APPROVAL, tenant=tenant, session_id=session_id, proposal_id=proposal_id, limit=1
        )
        return found[0] if found else None

    def stretches(
        self, session_id: str, *, tenant: str, behind_seq: int = 0, limit: int = 100
    ) -> list[Answer]:
        """Where the session's events behind this one lie, in their order; see `projections.stretches`."""
        return self.ask(
            _STRETCHES, tenant=tenant, session_id=session_id, behind_seq=behind_seq, limit=limit
        )

    def archived(self, session_id: str, *, tenant: str) -> Answer | None:
        """What is known of a session that was taken out of the views; null where it was not."""
        asked = "SELECT * FROM {views}.archived WHERE tenant = %(tenant)s AND session_id = %(session_id)s LIMIT %(limit)s"
        found = self.ask(asked, tenant=tenant, session_id=session_id, limit=1)
        return found[0] if found else None

    def ledger(
        self,
        *,
        tenant: str | None = None,
        session_id: str | None = None,
        status: str | None = None,
        in_doubt: bool = False,
        limit: int = 100,
    ) -> list[Answer]:
        """Consequential steps, in the order of their session; with `in_doubt` those that wait to be resolved.

        Each says in `in_doubt` whether it does: one that is uncertain does not where its workflow was told and has gone
        on, or where its turn is over.
        """
        return self.ask(
            _LEDGER,
            tenant=tenant,
            session_id=session_id,
            status="uncertain" if in_doubt else status,
            in_doubt=in_doubt,
            limit=limit,
        )

    def newest_steps(
        self,
        *,
        tenant: str | None = None,
        session_id: str | None = None,
        status: str | None = None,
        since: datetime | None = None,
        limit: int = 100,
    ) -> list[Answer]:
        """The newest consequential steps, the oldest of them first; with `since` those asked for then or later."""
        return self.ask(
            _NEWEST_STEPS,
            tenant=tenant,
            session_id=session_id,
            status=status,
            since=since,
            limit=limit,
        )

    def activities(
        self,
        *,
        tenant: str | None = None,
        session_id: str | None = None,
        all_of_them: bool = False,
        limit: int = 100,
    ) -> list[Answer]:
        """Calls of tools and models, the longest unchanged first: the open ones, unless all are asked for."""
        return self.ask(
            _ACTIVITIES, tenant=tenant, session_id=session_id, open=not all_of_them, limit=limit
        )

    def timers(
        self, *, tenant: str | None = None, session_id: str | None = None, limit: int = 100
    ) -> list[Answer]:
        """Open deadlines, the next one first."""
        return self.ask(_TIMERS, tenant=tenant, session_id=session_id, limit=limit)

    def outcomes(
        self,
        *,
        tenant: str | None = None,
        session_id: str | None = None,
        command_id: str | None = None,
        limit: int = 100,
    ) -> list[Answer]:
        """What became of commands, in the order of their session."""
        return self.ask(
            _OUTCOMES, tenant=tenant, session_id=session_id, command_id=command_id, limit=limit
        )

    def refusals(
        self, *, tenant: str | None = None, session_id: str | None = None, limit: int = 100
    ) -> list[Answer]:
        """Commands that were not applied, the newest first."""
        return self.ask(_REFUSALS, tenant=tenant, session_id=session_id, limit=limit)

    def gaps(self, *, limit: int = 100) -> list[Answer]:
        """Records of the log that are not in the views."""
        return self.ask(
            "SELECT * FROM {views}.gaps ORDER BY topic, partition, log_offset LIMIT %(limit)s",
            limit=limit,
        )

    def positions(self) -> dict[Place, int]:
        """Up to where the log is in the views."""
        found = self.ask("SELECT * FROM {views}.positions LIMIT %(limit)s", limit=LIMIT_MAX)
        return {Place(row["topic"], row["partition"]): row["next_offset"] for row in found}

    def position(self) -> str:
        """The same as a token, for `tokens.positions_of` and the function `reached` in SQL."""
        return token_of(self.positions())

    def wait_for(self, wanted: Mapping[Place, int], *, timeout_ms: int) -> None:
        """Returns once the views hold what lies below these offsets; `Transient` if that takes too long."""
        deadline_s = time.monotonic() + timeout_ms / 1000
        self._connection.execute(self._schemas.listen)
        try:
            self._wait_for(wanted, timeout_ms, deadline_s)
        finally:
            if not self._connection.closed:
                self._connection.execute(
                    "UNLISTEN *"
                )  # else notices heap up while it asks other things

    def _wait_for(self, wanted: Mapping[Place, int], timeout_ms: int, deadline_s: float) -> None:
        while True:
            positions = self.positions()
            behind = {place: at for place, at in wanted.items() if positions.get(place, 0) < at}
            if not behind:
                return
            left_s = deadline_s - time.monotonic()
            if left_s <= 0:
                place, at = next(iter(behind.items()))
                raise Transient(
                    f"the views are at {positions.get(place, 0)} of {place.topic}/{place.partition}, "
                    f"not at {at}, after {timeout_ms} ms: is the projector running?"
                )
            for _ in self._connection.notifies(timeout=min(left_s, LOOK_AGAIN_S), stop_after=1):
                pass  # a hint to look again, whatever it says

    def select(self, query: str, *, limit: int) -> Asked:
        """A query of the user's own, in a read-only transaction; see `asked.py`."""
        return select(self._connection, self._schemas, query, limit=limit, tenant=self.tenant)

    def ask(self, query: str, **values: object) -> list[Answer]:
        """Rows of a question of ours, at most `limit` of them, in a transaction of its own.

        It is planned for these values each time: a plan for any would not know which of the smaller indexes serve.
        `Transient` where an older version of the views is shown, which lacks what is asked.
        """
        return self._rows(query, values, FOR_TENANT)

    def walk(self, query: str, **values: object) -> list[Answer]:
        """The same for a question that an index answers in its own order: it is not answered in any other way.

        There are no statistics of these rows, and a planner that guesses would read and sort a million of them for fifty.
        """
        return self._rows(query, values, WALKING)

    def _rows(self, query: str, values: dict[str, object], before: str) -> list[Answer]:
        limit = values["limit"]
        if not isinstance(limit, int) or not 1 <= limit <= LIMIT_MAX:
            raise ValueError(f"limit {limit!r}: expected 1 to {LIMIT_MAX}")
        try:
            with self._connection.transaction():
                if self.tenant is not None:
                    self._connection.execute(before, (self.tenant,))
                asked = self._schemas.fill(query)
                return list(self._connection.execute(asked, values, prepare=False))
        except (psycopg.errors.UndefinedColumn, psycopg.errors.UndefinedTable) as error:
            raise Transient(
                "the views show rows of an older version, or none yet: wait until the projector has filled the new ones"
            ) from error

    @property
    def closed(self) -> bool:
        """Whether it is of no use any more: closed here, or by the other side."""
        return self._connection.closed

    def close(self) -> None:
        """Frees the connection."""
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _as_reader(url: str, schemas: Schemas) -> psycopg.Connection[Any]:
    try:
        return connect(url, role=schemas.app, access="read")
    except psycopg.errors.InsufficientPrivilege:
        return connect(url, access="read")  # a person's login: its tenant follows from who it is
