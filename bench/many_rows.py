"""Many rows in the real tables, made by the database itself: for plans and measures, which hang on numbers alone."""

import psycopg

from wakeful.projections.schemas import Schemas

T0_MS = 1_800_000_000_000

STATUSES = "'{Opened,Running,Waiting,Suspended,Recovering,Completed,Failed,Cancelled}'::text[]"

_SESSIONS = f"""
INSERT INTO {{tables}}.sessions (tenant, session_id, workflow, status, resting_status, held_reason, turn, waiting_for, waits, attributes,
    next_valid, opened_by, opened_at_ms, updated_at_ms, messages, refusals, command_offset, inherited_taint, stretch_seq, stretch_offset,
    event_offset, seq, escaped)
SELECT %(tenant)s, 's-' || n, 'flow-' || n %% 7, ({STATUSES})[1 + n %% 8], 'Running', CASE WHEN n %% 50 = 4 THEN 'mended' END, 1,
    '[{{"kind": "approval", "id": "1.1", "name": "refund", "expires_at_ms": 1, "expiry": "expires"}}]', 1 << (n %% 8), '{{}}', '[]',
    'user-' || n %% 20, {T0_MS} + n, {T0_MS} + n * 7919::bigint %% %(count)s, 1, 0, n, '[]', 1, n * 10, n * 10 + 5, 5, ''
FROM generate_series(1, %(count)s) AS n
"""

_APPROVALS = f"""
INSERT INTO {{tables}}.approvals (tenant, session_id, proposal_id, turn, step, action, arguments, approver, status,
    requested_at_ms, expires_at_ms, votes, seq, escaped)
SELECT %(tenant)s, 's-' || n, '1.1-' || n, 1, 1, 'tool-' || n %% 5, '{{"cents": 5}}', 'rule-' || n %% 3,
    CASE n %% 4 WHEN 0 THEN 'requested' WHEN 1 THEN 'rejected' ELSE 'granted' END,
    {T0_MS} + n, {T0_MS} + n * 7919::bigint %% %(count)s, 0, 3, ''
FROM generate_series(1, %(count)s) AS n
"""

_LEDGER = f"""
INSERT INTO {{tables}}.ledger (tenant, session_id, activity_id, turn, step, action, untrusted, status, requested_at_ms,
    recovered, late_results, proposal_id, seq, escaped)
SELECT %(tenant)s, 's-' || n, '1.1', 1, 1, 'tool-' || n %% 5, false,
    CASE n %% 10 WHEN 0 THEN 'failed' WHEN 1 THEN 'requested' ELSE 'completed' END,
    {T0_MS} + n, false, 0, '1.1-' || n, 3, ''
FROM generate_series(1, %(count)s) AS n
"""

_OUTCOMES = f"""
INSERT INTO {{tables}}.outcomes (tenant, session_id, command_offset, partition, command_id, command, events, decided_at_ms,
    reason, seq, escaped)
SELECT %(tenant)s, 's-' || n, n, 0, 'c-' || n, 'SendMessage', 1, {T0_MS} + n, CASE WHEN n %% 5 < 2 THEN 'reason-' || n %% 5 END, 2, ''
FROM generate_series(1, %(count)s) AS n
"""


_ATTRIBUTES = f"""
INSERT INTO {{tables}}.attributes (tenant, session_id, names, kind, value, term, since_ms, seq, escaped)
SELECT %(tenant)s, 's-' || n, names, 'text', 'x', term, {T0_MS} + n * 7919::bigint %% %(count)s, 3, ''
FROM generate_series(1, %(count)s) AS n, LATERAL (VALUES
    ('customer', 'customer=c-' || n %% 20), ('region', 'region=r-' || n / 20 %% 4),
    ('customer&region', 'customer=c-' || n %% 20 || '&region=r-' || n / 20 %% 4)
) AS of (names, term)
"""


_JOBS = f"""
INSERT INTO {{tables}}.jobs (tenant, session_id, job_id, turn, step, name, status, awaited_at_ms, expires_at_ms, seq, escaped)
SELECT %(tenant)s, 's-' || n, 's-' || n || ':1.1-0', 1, 1, 'job-' || n %% 5, CASE WHEN n %% 4 < 2 THEN 'awaited' ELSE 'completed' END,
    {T0_MS} + n, {T0_MS} + n * 7919::bigint %% %(count)s, 3, ''
FROM generate_series(1, %(count)s) AS n
"""


_CHILDREN = f"""
INSERT INTO {{tables}}.children (tenant, session_id, child_id, turn, step, workflow, status, started_at_ms, expires_at_ms, tainted_by, seq, escaped)
SELECT %(tenant)s, 's-' || n, 's-' || n || ':1.1-0', 1, 1, 'flow-' || n %% 7, CASE WHEN n %% 4 < 2 THEN 'open' ELSE 'completed' END,
    {T0_MS} + n, {T0_MS} + n * 7919::bigint %% %(count)s, '[]', 3, ''
FROM generate_series(1, %(count)s) AS n
"""


_RESOURCES = f"""
INSERT INTO {{tables}}.resources (tenant, session_id, resource_id, turn, step, kind, status, reattached, attached_at_ms, expires_at_ms, seq, escaped)
SELECT %(tenant)s, 's-' || n, '1.1', 1, 2, 'kind-' || n %% 7, CASE WHEN n %% 4 < 2 THEN 'attached' ELSE 'released' END, false,
    {T0_MS} + n, {T0_MS} + n * 7919::bigint %% %(count)s, 3, ''
FROM generate_series(1, %(count)s) AS n
"""


def fill(url: str, namespace: str, tenants: dict[str, int]) -> None:
    """So many sessions per tenant, each with an approval, a step and a command."""
    schemas = Schemas(namespace)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(schemas.fill("SET ROLE {owner}"))
        for tenant, count in tenants.items():
            for statement in (
                _SESSIONS,
                _JOBS,
                _CHILDREN,
                _RESOURCES,
                _ATTRIBUTES,
                _APPROVALS,
                _LEDGER,
                _OUTCOMES,
            ):
                connection.execute(schemas.fill(statement), {"tenant": tenant, "count": count})
        connection.execute("RESET ROLE")
        connection.execute("VACUUM ANALYZE")
