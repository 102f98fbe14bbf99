"""How a tenant's sessions stand, in numbers for an overview and its charts: a fixed amount of work, whatever there is.

Every number is counted along one index and no further than a limit, which is then what it says: `10000` of a count whose
limit is 10,000 means so many or more.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ..events.state import Status
from .queries import Queries
from .sessions import WAITS

COUNTED_MAX = 10_000
"""Of one status."""

WAITS_MAX = 1_000
"""Of one kind of wait and one age."""

BUCKET_MAX = 2_000
"""Of one slice of time."""

BUCKET_MS, BUCKETS = 120_000, 30
"""The last hour in slices."""

AGES_MS = (60_000, 600_000, 3_600_000, 86_400_000, 1 << 60)
"""Ends of the slices of a wait's age, counted from the session's last event."""

STATUSES = tuple(
    value for name, value in vars(Status).items() if name.isupper() and isinstance(value, str)
)

CHARTED = {
    "opened": ("sessions", "opened_at_ms", "true"),
    "steps": ("ledger", "requested_at_ms", "true"),
    "failed": ("ledger", "requested_at_ms", "status <> 'completed' AND status = 'failed'"),
    "uncertain": ("ledger", "requested_at_ms", "status <> 'completed' AND status = 'uncertain'"),
    "refused": ("refusals", "refused_at_ms", "true"),
}
"""What is counted per slice: its view, the time that counts, and which rows. Steps count when they were asked for."""


@dataclass(frozen=True, slots=True)
class Slice:
    """One slice of time: its beginning, and what is counted of it, by the names of `CHARTED`."""

    since_ms: int
    counts: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Counts:
    """Sessions by status (all statuses are there), held ones, waits by kind and age, and the last hour.

    `waits` has per kind of wait one number per age of `AGES_MS`. `slices` are `BUCKETS` of `BUCKET_MS` each, the oldest first.
    """

    statuses: Mapping[str, int]
    held: int
    approvals_open: int
    waits: Mapping[str, tuple[int, ...]]
    slices: tuple[Slice, ...]


def _some(name: str, view: str, where: str) -> str:
    return (
        f"(SELECT count(*) FROM (SELECT FROM {{views}}.{view} "  # noqa: S608 - our texts
        f"WHERE tenant = %(tenant)s::text AND {where} LIMIT %(most)s) AS found) AS {name}"
    )


def _numbers(*counted: str) -> str:
    return "SELECT " + ",\n".join(counted)


_STATUSES = _numbers(
    *(_some(status, "sessions", f"status = '{status}'") for status in STATUSES),
    _some("held", "sessions", "held_reason IS NOT NULL"),
    _some("approvals_open", "approvals", "status = 'requested'") + " LIMIT %(limit)s",
)

_AGED = "updated_at_ms <= %(now_ms)s::bigint - a.youngest AND updated_at_ms > %(now_ms)s::bigint - a.oldest"

_WAITS = f"""
{_numbers(*(_some(kind, "sessions", f"waits & {bit} <> 0 AND {_AGED}") for kind, bit in WAITS.items()))}
FROM unnest(%(youngest)s::bigint[], %(oldest)s::bigint[]) AS a(youngest, oldest) ORDER BY a.youngest LIMIT %(limit)s
"""

_SLICE = "{0} >= b.since_ms AND {0} < b.since_ms + " + str(BUCKET_MS) + " AND {1}"

_SLICES = f"""
{_numbers("b.since_ms", *(_some(n, view, _SLICE.format(at, where)) for n, (view, at, where) in CHARTED.items()))}
FROM generate_series(%(since_ms)s::bigint, %(until_ms)s::bigint - 1, {BUCKET_MS}) AS b(since_ms)
ORDER BY b.since_ms LIMIT %(limit)s
"""


def counts(queries: Queries, now_ms: int) -> Counts:
    """The numbers of these queries' tenant. Ages and slices are by the log's times, set against this `now_ms`."""
    tenant = queries.tenant
    (stands,) = queries.ask(_STATUSES, tenant=tenant, most=COUNTED_MAX, limit=1)
    youngest = [-(1 << 60), *AGES_MS[:-1]]  # a log's clock may be ahead of this one
    ages = queries.ask(
        _WAITS,
        tenant=tenant,
        most=WAITS_MAX,
        limit=len(AGES_MS),
        now_ms=now_ms,
        youngest=youngest,
        oldest=list(AGES_MS),
    )
    until_ms = now_ms - now_ms % BUCKET_MS + BUCKET_MS
    slices = queries.ask(
        _SLICES,
        tenant=tenant,
        most=BUCKET_MAX,
        limit=BUCKETS,
        since_ms=until_ms - BUCKETS * BUCKET_MS,
        until_ms=until_ms,
    )
    return Counts(
        {status: stands[status.lower()] for status in STATUSES},
        stands["held"],
        stands["approvals_open"],
        {kind: tuple(row[kind] for row in ages) for kind in WAITS},
        tuple(Slice(row["since_ms"], {name: row[name] for name in CHARTED}) for row in slices),
    )
