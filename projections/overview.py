"""How one tenant's sessions stand, in a few numbers: by indexes alone, and each bounded, however many sessions there are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..events.state import Status
from .queries import Answer, Queries

COUNTED_MAX = 10_000
"""What is counted one by one; of more it is said that there are more."""

RECENT_MAX = 2_000
"""Sessions of each status, the newest, whose steps are looked at."""

WINDOW_MS, BUCKET_MS = 3_600_000, 120_000
"""What the charts look back on, and in which slices."""

STATUSES = tuple(
    value for name, value in vars(Status).items() if name.isupper() and isinstance(value, str)
)

AGES: tuple[tuple[str, int], ...] = (
    ("< 1 min", 60_000),
    ("1-10 min", 600_000),
    ("10-60 min", 3_600_000),
    ("1-6 h", 21_600_000),
    ("6-24 h", 86_400_000),
    ("1-7 d", 604_800_000),
    ("> 7 d", 1 << 60),
)
"""Ages of waits: the name of each slice, and its end."""

_COUNTS = """
SELECT s.status, (
    SELECT count(*) FROM (
        SELECT FROM {tables}.sessions x WHERE x.status = s.status LIMIT %(most)s
    ) AS found
) AS count
FROM unnest(%(statuses)s::text[]) AS s(status)
LIMIT %(limit)s
"""

_ASKED = """
SELECT
    (SELECT count(*) FROM (
        SELECT FROM {tables}.approvals WHERE status = 'requested' LIMIT %(most)s
    ) AS found) AS approvals,
    (SELECT count(*) FROM (
        SELECT FROM {tables}.ledger WHERE status = 'uncertain' AND on_uncertain = 'wait' LIMIT %(most)s
    ) AS found) AS in_doubt
LIMIT %(limit)s
"""

_AGES = """
SELECT a.number, (
    SELECT count(*) FROM (
        SELECT FROM {tables}.sessions x
        WHERE x.status = 'Waiting' AND x.updated_at_ms <= %(now_ms)s - a.youngest
            AND x.updated_at_ms > %(now_ms)s - a.oldest
        LIMIT %(most)s
    ) AS found
) AS count
FROM unnest(%(numbers)s::int[], %(youngest)s::bigint[], %(oldest)s::bigint[]) AS a(number, youngest, oldest)
ORDER BY a.number LIMIT %(limit)s
"""

_RECENT = """
WITH recent AS (
    SELECT found.* FROM unnest(%(statuses)s::text[]) AS s(status)
    CROSS JOIN LATERAL (
        SELECT x.tenant, x.session_id FROM {tables}.sessions x
        WHERE x.status = s.status AND x.updated_at_ms >= %(since_ms)s
        ORDER BY x.updated_at_ms DESC LIMIT %(most)s
    ) AS found
)
SELECT l.action, (l.settled_at_ms - %(since_ms)s) / %(bucket_ms)s AS bucket, l.status,
    count(*) AS count, sum(l.attempts - 1) AS again, sum(l.settled_at_ms - l.requested_at_ms) AS took_ms
FROM recent JOIN {tables}.ledger l ON l.tenant = recent.tenant AND l.session_id = recent.session_id
WHERE l.settled_at_ms >= %(since_ms)s AND l.settled_at_ms < %(until_ms)s
GROUP BY 1, 2, 3
ORDER BY 4 DESC
LIMIT %(limit)s
"""


@dataclass(frozen=True, slots=True)
class Overview:
    """Counts up to `COUNTED_MAX` + 1, which means more; `steps` are settled ones of the window, by action, slice and status."""

    statuses: dict[str, int]
    approvals: int
    in_doubt: int
    ages: list[tuple[str, int]]
    steps: list[Answer]
    since_ms: int


def overview(views: Queries, now_ms: int) -> Overview:
    """The numbers of the tenant that these views are shown for, as of now; ages and the window by the log's times."""
    most = COUNTED_MAX + 1
    counts = views.ask(_COUNTS, statuses=list(STATUSES), most=most, limit=len(STATUSES))
    asked = views.ask(_ASKED, most=most, limit=1)[0]
    since_ms = now_ms - WINDOW_MS
    return Overview(
        {row["status"]: row["count"] for row in counts},
        asked["approvals"],
        asked["in_doubt"],
        _ages(views, now_ms, most),
        views.ask(
            _RECENT,
            statuses=list(STATUSES),
            since_ms=since_ms,
            until_ms=now_ms,
            bucket_ms=BUCKET_MS,
            most=RECENT_MAX,
            limit=1_000,
        ),
        since_ms,
    )


def asked_of_people(views: Queries) -> dict[str, Any]:
    """How many approvals wait for a decision, and activities for somebody who knows what became of them."""
    return views.ask(_ASKED, most=COUNTED_MAX + 1, limit=1)[0]


def _ages(views: Queries, now_ms: int, most: int) -> list[tuple[str, int]]:
    ends = [end for _, end in AGES]
    youngest = [-(1 << 60), *ends[:-1]]  # a log's clock may be ahead of this one
    found = views.ask(
        _AGES,
        numbers=list(range(len(AGES))),
        youngest=youngest,
        oldest=ends,
        now_ms=now_ms,
        most=most,
        limit=len(AGES),
    )
    return [(name, row["count"]) for (name, _), row in zip(AGES, found, strict=True)]
