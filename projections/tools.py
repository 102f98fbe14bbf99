"""How a tenant's tools did of late: of the newest steps, by one index, how many ended and how, and what one took."""

from __future__ import annotations

from .queries import Answer, Queries

STEPS_MAX = 2_000
"""The newest so many steps are looked at."""

TOOLS_MAX = 20

_TOOLS = """
SELECT action, count(*) FILTER (WHERE settled_at IS NOT NULL) AS ended,
    count(*) FILTER (WHERE status = 'failed') AS failed, count(*) FILTER (WHERE status = 'uncertain') AS uncertain,
    coalesce(sum(attempts - 1), 0) AS again,
    coalesce(round(extract(epoch FROM avg(settled_at - requested_at)) * 1000), 0)::bigint AS mean_ms
FROM (
    SELECT action, status, attempts, requested_at, settled_at FROM {views}.ledger
    WHERE tenant = %(tenant)s::text AND requested_at_ms >= %(since_ms)s::bigint
    ORDER BY requested_at_ms DESC LIMIT %(most)s
) AS newest
GROUP BY action ORDER BY 2 DESC, 1 LIMIT %(limit)s
"""


def tools(queries: Queries, since_ms: int) -> list[Answer]:
    """Per tool what became of its calls among the newest `STEPS_MAX` that were asked for since then; the busiest first."""
    return queries.ask(
        _TOOLS, tenant=queries.tenant, since_ms=since_ms, most=STEPS_MAX, limit=TOOLS_MAX
    )
