"""Rows of the read side as plain dicts, and how changes fold into them.

A `Change` is what one event does to one row. Changes are folded in the order of the log, here and nowhere else:
Postgres and the in-memory views only store whole rows. So a rebuild gives the same rows, and the same event twice
gives nothing (the session row's `seq` tells). JSON columns hold JSON text; times are the log's, in milliseconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

Row = dict[str, Any]
Key = tuple[Any, ...]
"""Tenant and session first, then what tells the session's rows of one table apart."""
Rows = dict[str, dict[Key, Row]]

SESSIONS = "sessions"
APPROVALS = "approvals"
LEDGER = "ledger"
TIMERS = "timers"
ATTRIBUTES = "attributes"
JOBS = "jobs"
CHILDREN = "children"
RESOURCES = "resources"
OUTCOMES = "outcomes"
STRETCHES = "stretches"
ESCAPED = "escaped"
"""The column that names the columns whose value had to be escaped, separated by spaces."""


@dataclass(frozen=True, slots=True)
class Table:
    """One table: its key, then its other columns, with their SQL types as `schema.sql` declares them."""

    name: str
    key: Mapping[str, str]
    columns: Mapping[str, str]

    @property
    def all_columns(self) -> dict[str, str]:
        """Key columns first, then the others."""
        return {**self.key, **self.columns}

    def blank(self, key: Key) -> Row:
        """A row before its first change."""
        row = _BLANKS[self.name].copy()
        row.update(zip(self.key, key, strict=True))
        return row


PLACES = ("stretch_seq", "stretch_offset", "event_offset")
"""Columns of a session that say where its newest events lie: see `stretches`. Events without a place leave them blank."""

_SESSION = {"tenant": "text", "session_id": "text"}
_COMMON = {"seq": "bigint", ESCAPED: "text"}
TABLES: Mapping[str, Table] = {
    table.name: table
    for table in (
        Table(
            SESSIONS,
            _SESSION,
            {
                "workflow": "text",
                "workflow_version": "integer",
                "versions": "jsonb",
                "status": "text",
                "resting_status": "text",
                "held_reason": "text",
                "held_detail": "text",
                "turn": "integer",
                "trigger": "text",
                "trigger_reason": "text",
                "waiting_for": "jsonb",
                "waits": "integer",
                "next_valid": "jsonb",
                "opened_by": "text",
                "opened_at_ms": "bigint",
                "updated_at_ms": "bigint",
                "messages": "integer",
                "last_reply": "jsonb",
                "outcome": "jsonb",
                "failure": "jsonb",
                "cancel_reason": "text",
                "refusals": "integer",
                "command_offset": "bigint",
                "attributes": "jsonb",
                "parent": "text",
                "inherited_taint": "jsonb",
                **dict.fromkeys(PLACES, "bigint"),
                **_COMMON,
            },
        ),
        Table(
            STRETCHES,
            {**_SESSION, "first_seq": "bigint"},
            {"first_offset": "bigint", "last_offset": "bigint", **_COMMON},
        ),
        Table(
            APPROVALS,
            {**_SESSION, "proposal_id": "text"},
            {
                "turn": "integer",
                "step": "integer",
                "action": "text",
                "contract": "text",
                "arguments": "jsonb",
                "digest": "text",
                "approver": "text",
                "status": "text",
                "requested_at_ms": "bigint",
                "expires_at_ms": "bigint",
                "decided_by": "text",
                "decided_on_behalf_of": "text",
                "decided_at_ms": "bigint",
                "comment": "text",
                "answer": "jsonb",
                "quorum": "integer",
                "votes": "integer",
                "requester": "text",
                "supersedes": "text",
                "activity_id": "text",
                "policies": "text",
                "because": "jsonb",
                **_COMMON,
            },
        ),
        Table(
            LEDGER,
            {**_SESSION, "activity_id": "text"},
            {
                "turn": "integer",
                "step": "integer",
                "action": "text",
                "queue": "text",
                "contract": "text",
                "digest": "text",
                "idempotency_key": "text",
                "asked_by": "text",
                "on_behalf_of": "text",
                "approval": "text",
                "proposal_id": "text",
                "attempts": "integer",
                "on_uncertain": "text",
                "untrusted": "boolean",
                "status": "text",
                "since_ms": "bigint",
                "requested_at_ms": "bigint",
                "deadline_ms": "bigint",
                "retry_due_ms": "bigint",
                "started_at_ms": "bigint",
                "progress": "text",
                "progress_at_ms": "bigint",
                "settled_at_ms": "bigint",
                "worker": "text",
                "result_digest": "text",
                "recovered": "boolean",
                "failure": "jsonb",
                "resolved_by": "text",
                "comment": "text",
                "cancel_reason": "text",
                "late_results": "integer",
                "compensates": "text",
                "compensated_by": "text",
                **_COMMON,
            },
        ),
        Table(
            TIMERS,
            {**_SESSION, "timer_id": "text"},
            {
                "turn": "integer",
                "step": "integer",
                "status": "text",
                "set_at_ms": "bigint",
                "due_ms": "bigint",
                "ended_at_ms": "bigint",
                **_COMMON,
            },
        ),
        Table(
            JOBS,
            {**_SESSION, "job_id": "text"},
            {
                "turn": "integer",
                "step": "integer",
                "name": "text",
                "status": "text",
                "awaited_at_ms": "bigint",
                "expires_at_ms": "bigint",
                "ended_at_ms": "bigint",
                "ended_by": "text",
                "result_digest": "text",
                "failure": "jsonb",
                **_COMMON,
            },
        ),
        Table(
            CHILDREN,
            {**_SESSION, "child_id": "text"},
            {
                "turn": "integer",
                "step": "integer",
                "workflow": "text",
                "status": "text",
                "started_at_ms": "bigint",
                "expires_at_ms": "bigint",
                "ended_at_ms": "bigint",
                "result_digest": "text",
                "failure": "jsonb",
                "tainted_by": "jsonb",
                "late_end": "text",
                **_COMMON,
            },
        ),
        Table(
            RESOURCES,
            {**_SESSION, "resource_id": "text"},
            {
                "turn": "integer",
                "step": "integer",
                "kind": "text",
                "status": "text",
                "reattached": "boolean",
                "attached_at_ms": "bigint",
                "expires_at_ms": "bigint",
                "ended_at_ms": "bigint",
                "handle_digest": "text",
                "release_by": "text",
                "failure": "jsonb",
                **_COMMON,
            },
        ),
        Table(
            ATTRIBUTES,
            {**_SESSION, "names": "text"},
            {"kind": "text", "value": "text", "term": "text", "since_ms": "bigint", **_COMMON},
        ),
        Table(
            OUTCOMES,
            {**_SESSION, "command_offset": "bigint"},
            {
                "partition": "integer",
                "command_id": "text",
                "command": "text",
                "actor": "text",
                "channel": "text",
                "decided_at_ms": "bigint",
                "events": "integer",
                "parked_seq": "bigint",
                "failed_check": "text",
                "reason": "text",
                "detail": "text",
                **_COMMON,
            },
        ),
    )
}
_COUNTS = {
    "messages": 0,
    "refusals": 0,
    "command_offset": -1,
    "events": 0,
    "late_results": 0,
    "votes": 0,
    "recovered": False,
    "untrusted": False,
    "because": "[]",
    "tainted_by": "[]",
    "inherited_taint": "[]",
    ESCAPED: "",
    "waiting_for": "[]",
    "attributes": "{}",
    "waits": 0,
    "next_valid": "[]",
    **dict.fromkeys(PLACES, -1),
}
_BLANKS: dict[str, Row] = {
    name: {column: _COUNTS.get(column) for column in table.all_columns}
    for name, table in TABLES.items()
}


class Change(NamedTuple):
    """What one event does to one row: values to set, a counter to raise, and which values were escaped.

    `creates` says that no earlier event touched the row, so nothing need be looked up. `releases` restores the
    status that the session had before it waited, or was held. `heard` is the offset of the command behind the event: the row keeps the
    highest, since what was kept while a session was held is decided later.
    """

    table: str
    key: Key
    values: Row
    raises: str | None = None
    escaped: tuple[str, ...] = ()
    creates: bool = False
    releases: bool = False
    heard: int = -1


def fold(row: Row, change: Change) -> None:
    """Applies one change to its row, in place."""
    _, _, values, raises, escaped, _, releases, heard = change
    if escaped or row[ESCAPED]:
        kept = set(row[ESCAPED].split()) - values.keys()
        row[ESCAPED] = " ".join(sorted(kept.union(escaped)))
    row.update(values)
    if raises is not None:
        row[raises] += 1
    if releases:
        row["status"] = row["resting_status"]
    if heard > -1 and heard > row["command_offset"]:
        row["command_offset"] = heard


def fold_all(rows: Rows, changes: Iterable[Change], touched: Rows | None = None) -> None:
    """Applies the changes of one event whose rows are all here or new, and puts those rows into `touched`, too."""
    for change in changes:
        name, key = change.table, change.key
        table = rows[name]
        row = None if change.creates else table.get(key)
        if row is None:
            row = table[key] = TABLES[name].blank(key)
        fold(row, change)
        if touched is not None:
            touched[name][key] = row


def no_rows() -> Rows:
    """An empty set of tables."""
    return {name: {} for name in TABLES}
