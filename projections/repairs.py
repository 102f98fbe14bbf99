"""Which sessions an operator may want to repair, and what became of the commands that did: for many at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .queries import LIMIT_MAX, Answer, Queries

NAMES = ("status", "workflow", "version", "reason", "turn")
"""What sessions are chosen by; `reason` is that of the hold, `version` the one of the last turn."""

_CANDIDATES = """
SELECT session_id, workflow, workflow_version, status, turn, held_reason FROM {views}.sessions
WHERE tenant = %(tenant)s
    AND status NOT IN ('Completed', 'Failed', 'Cancelled')
    AND session_id > %(after)s
    AND (%(status)s::text IS NULL OR lower(status) = lower(%(status)s))
    AND (%(workflow)s::text IS NULL OR workflow = %(workflow)s)
    AND (%(version)s::text IS NULL OR workflow_version::text = %(version)s)
    AND (%(reason)s::text IS NULL OR held_reason = %(reason)s)
    AND (%(turn)s::text IS NULL OR turn::text = %(turn)s)
ORDER BY session_id
LIMIT %(limit)s
"""

_FATES = """
SELECT o.session_id, o.disposition, o.reason, o.detail, s.status, s.turn, s.held_reason, s.held_detail
FROM {views}.outcomes o JOIN {views}.sessions s USING (tenant, session_id)
WHERE o.tenant = %(tenant)s AND o.session_id = ANY(%(sessions)s) AND o.command_id = ANY(%(commands)s)
LIMIT %(limit)s
"""


def candidates(
    views: Queries,
    tenant: str,
    wanted: Mapping[str, str],
    *,
    after: str = "",
    limit: int = LIMIT_MAX,
) -> list[Answer]:
    """Sessions that have not ended and that are so, in the order of their ids, from behind `after` on."""
    chosen = {name: wanted.get(name) for name in NAMES}
    return views.ask(_CANDIDATES, tenant=tenant, after=after, limit=limit, **chosen)


def fates(
    views: Queries, tenant: str, sessions: Sequence[str], commands: Sequence[str]
) -> list[Answer]:
    """What became of these commands, as far as the views know, and how each session stands since."""
    return views.ask(
        _FATES,
        tenant=tenant,
        sessions=list(sessions),
        commands=list(commands),
        limit=LIMIT_MAX,
    )
