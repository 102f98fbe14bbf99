"""Windows: what happened in one minute, per tool, tenant and workflow version. Pure: no clock, no I/O.

A window lies in the partition of its events and says up to which offset it has counted. So an event that is read again,
after a crash or a rebalance, changes nothing in it, whatever became of the offsets that were committed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS

KEPT_MS = 2 * HOUR_MS
"""Windows older than this are dropped: an hour is 60 minutes, and the one before it is there to compare."""

NO_TOOL = ""
"""The window of what belongs to a workflow version and to none of its tools: turns, holds, failed sessions."""

COUNTS = (
    *("requested", "completed", "failed", "uncertain", "cancelled", "retried", "duration_ms"),
    *("input_tokens", "output_tokens", "cost_nanos", "unpriced_tokens"),
    *("turns", "sessions_failed", "held"),
)
"""What a window counts; `duration_max_ms` is the one number that is not added up."""

Counts = dict[str, int]


class WindowKey(NamedTuple):
    """Which window: `partition` is that of its events, `start_ms` its first millisecond."""

    partition: int
    start_ms: int
    tenant: str
    workflow: str
    version: int
    tool: str


@dataclass(frozen=True, slots=True)
class Counted:
    """What one event adds to one window."""

    at_ms: int
    tool: str
    counts: Mapping[str, int]


def minute_of(at_ms: int) -> int:
    """The first millisecond of the minute."""
    return at_ms - at_ms % MINUTE_MS


def added(
    window: Mapping[str, int] | None, counts: Mapping[str, int], offset: int
) -> Counts | None:
    """The window with these counts of the event at this offset; null where it has counted that one before."""
    if window is not None and window["position"] >= offset:
        return None
    return {**merged(window or {}, counts), "position": offset}


def merged(first: Mapping[str, int], second: Mapping[str, int]) -> Counts:
    """Both together; names that count nothing are left out."""
    both = {name: total for name in COUNTS if (total := first.get(name, 0) + second.get(name, 0))}
    if longest := max(first.get("duration_max_ms", 0), second.get("duration_max_ms", 0)):
        both["duration_max_ms"] = longest
    return both


def summed(
    windows: Iterable[tuple[WindowKey, Mapping[str, int]]], since_ms: int, until_ms: int
) -> dict[tuple[str, str, int, str], Counts]:
    """Of the minutes that begin from `since_ms` and before `until_ms`, by tenant, workflow, version and tool."""
    found: dict[tuple[str, str, int, str], Counts] = {}
    for key, window in windows:
        if since_ms <= key.start_ms < until_ms:
            name = (key.tenant, key.workflow, key.version, key.tool)
            found[name] = merged(found.get(name, {}), window)
    return found


def rates(counts: Mapping[str, int]) -> dict[str, Any]:
    """What follows from the counts: the share that failed or came into doubt, and the mean time; null of nothing."""
    bad = counts.get("failed", 0) + counts.get("uncertain", 0)
    ended = counts.get("completed", 0) + bad
    return {
        "failure_rate": round(bad / ended, 4) if ended else None,
        "duration_mean_ms": counts.get("duration_ms", 0) // ended if ended else None,
    }
