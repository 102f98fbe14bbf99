"""The keys of what watchers keep, as they lie in its topics: JSON lists that begin with what the row is.

| key | value |
|---|---|
| `["window", partition, start_ms, tenant, workflow, version, tool]` | counts of one minute |
| `["session", partition, tenant, session_id]` | how a session stands |
| `["proposal", partition, tenant, session_id, kind, activity_id]` | a session without progress |
| `["said", partition]` | when a watcher spoke last of this partition, and how far it had read |

The partition is that of the events. Each value has a `position`: of two values under one key the further one counts.
"""

from __future__ import annotations

from .stalls import Proposal
from .windows import WindowKey

WINDOW, SESSION, PROPOSAL, SAID = "window", "session", "proposal", "said"

RowKey = tuple[object, ...]


def window_key(key: WindowKey) -> RowKey:
    """Of a window."""
    return (WINDOW, *key)


def session_row_key(partition: int, tenant: str, session_id: str) -> RowKey:
    """Of what is remembered of a session."""
    return (SESSION, partition, tenant, session_id)


def proposal_key(partition: int, proposal: Proposal) -> RowKey:
    """Of a proposal: one for each thing that stalls."""
    names = ("tenant", "session_id", "kind", "activity_id")
    return (PROPOSAL, partition, *(proposal[name] for name in names))


def said_key(partition: int) -> RowKey:
    """Of a watcher's sign of life."""
    return (SAID, partition)
