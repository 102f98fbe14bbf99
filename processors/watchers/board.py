"""What watchers have told, read from their topics by whoever shows it. Knows nothing of Faust.

The topics are compacted, so reading one from its start gives all that counts; what was told before is passed over.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ...events.log.protocol import Record
from .rows import PROPOSAL, SAID, SESSION, WINDOW, RowKey
from .stalls import Proposal
from .windows import HOUR_MS, MINUTE_MS, Counts, WindowKey, minute_of

SILENT_AFTER_MS = 30_000
"""A watcher speaks of each of its partitions every few seconds; after a rebalance that may be some more."""


_KEYS: Mapping[str, tuple[type, ...]] = {
    WINDOW: (str, int, int, str, str, int, str),
    SESSION: (str, int, str, str),
    PROPOSAL: (str, int, str, str, str, str),
    SAID: (str, int),
}
_FIELDS: Mapping[str, Mapping[str, type]] = {
    WINDOW: {},
    SESSION: {"tenant": str, "session_id": str},
    PROPOSAL: {
        **dict.fromkeys(("tenant", "session_id", "kind", "activity_id", "workflow", "why"), str),
        **dict.fromkeys(("version", "since_ms"), int),
    },
    SAID: {"at_ms": int, "caught_up": bool, "undecodable": int},
}


def _is_row(key: RowKey, value: Any) -> bool:
    """Whether it can be shown: the topic is Kafka's, and anybody may have written to it."""
    kind = str(key[0]) if key else ""
    types = _KEYS.get(kind, ())
    if not types or len(key) != len(types) or not isinstance(value, dict):
        return False
    fields = {**_FIELDS[kind], "position": int}
    return (
        all(isinstance(part, wanted) for part, wanted in zip(key, types, strict=True))
        and all(isinstance(value.get(name), wanted) for name, wanted in fields.items())
        and (kind != WINDOW or all(isinstance(count, int) for count in value.values()))
    )


@dataclass(slots=True)
class Board:
    """The rows as they stand after the records that it took."""

    rows: dict[RowKey, dict[str, Any]] = field(default_factory=dict)
    unreadable: int = 0

    def take(self, record: Record) -> None:
        """Takes what a watcher told; what is no row is counted and passed over."""
        try:
            key = tuple(json.loads(record.key or b""))
            value = None if record.value is None else json.loads(record.value)
            hash(key)
        except (ValueError, TypeError, RecursionError):
            self.unreadable += 1
            return
        if value is None:
            self.rows.pop(key, None)
        elif not _is_row(key, value):
            self.unreadable += 1
        elif value["position"] >= self.rows.get(key, value)["position"]:
            self.rows[key] = value

    def windows(self) -> Iterable[tuple[WindowKey, Counts]]:
        """All windows."""
        for key, counts in self._of(WINDOW):
            yield WindowKey(*key[1:]), counts  # type: ignore[arg-type]

    def sessions(self) -> list[dict[str, Any]]:
        """What is remembered of sessions."""
        return [row for _, row in self._of(SESSION)]

    def proposals(self, tenant: str | None = None) -> list[Proposal]:
        """Sessions without progress, the longest first; of one tenant where it is given."""
        found = [row for _, row in self._of(PROPOSAL) if tenant in (None, row["tenant"])]
        return sorted(found, key=lambda one: (one["since_ms"], one["tenant"], one["session_id"]))

    def silence(self, partitions: int, now_ms: int) -> Silence:
        """How long watchers have said nothing."""
        spoke = {int(key[1]): row for key, row in self._of(SAID)}  # type: ignore[call-overload]
        told = {number: spoke[number]["at_ms"] for number in range(partitions) if number in spoke}
        silent = [n for n in range(partitions) if now_ms - told.get(n, 0) > SILENT_AFTER_MS]
        behind = [n for n in told if n not in silent and not spoke[n]["caught_up"]]
        since_ms = min((told[n] for n in silent if n in told), default=None)
        undecodable = sum(row["undecodable"] for row in spoke.values())
        return Silence(partitions, tuple(silent), tuple(behind), since_ms, bool(told), undecodable)

    def _of(self, kind: str) -> list[tuple[RowKey, dict[str, Any]]]:
        return [(key, row) for key, row in self.rows.items() if key and key[0] == kind]


@dataclass(frozen=True, slots=True)
class Silence:
    """Partitions of which no watcher speaks, and since when; `behind` are those whose watcher has still to read on.

    `ever` is false where no watcher has ever spoken: then there is none, and that is somebody's choice.
    """

    partitions: int
    silent: tuple[int, ...]
    behind: tuple[int, ...]
    since_ms: int | None
    ever: bool
    undecodable: int = 0


def windows_shown(now_ms: int) -> dict[str, tuple[int, int]]:
    """From when until when the two windows reach that are shown: the last whole minute, and the hour up to now."""
    start_ms = minute_of(now_ms)
    return {
        "minute": (start_ms - MINUTE_MS, start_ms),
        "hour": (start_ms + MINUTE_MS - HOUR_MS, start_ms + MINUTE_MS),
    }
