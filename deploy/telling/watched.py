"""What watchers have told, read on from where it was read before."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

from ...events.log.protocol import Log, Place
from ...processors.watchers.board import Board, windows_shown
from ...processors.watchers.windows import rates, summed
from .reading import to_the_end


class Watched:
    """The board of some topics, which each look brings up to date; safe to ask from several threads."""

    def __init__(self, log: Log, topics: Sequence[str]) -> None:
        self._log = log
        self._topics = topics
        self._lock = threading.Lock()
        self._next: dict[Place, int] = {}
        self._board = Board()
        self.partitions = 0

    def look(self) -> Board:
        """A copy of the board as of now; `LogFault` where a topic is missing or the log does not answer."""
        with self._lock:
            for topic in self._topics:
                self.partitions = self._log.partitions(topic)
                for number in range(self.partitions):
                    self._next.setdefault(Place(topic, number), 0)
            for record in to_the_end(self._log, self._next):
                self._board.take(record)
                self._next[Place(record.topic, record.partition)] = record.offset + 1
            return Board(dict(self._board.rows), self._board.unreadable)


def top_json(board: Board, partitions: int, now_ms: int, tenant: str | None) -> dict[str, Any]:
    """All that `wakeful top` shows, of one tenant or of all."""
    windows = list(board.windows())
    shown = {}
    for name, (since_ms, until_ms) in windows_shown(now_ms).items():
        found = summed(windows, since_ms, until_ms)
        rows = [
            {**_named(key), **counts, **rates(counts)}
            for key, counts in sorted(found.items())
            if tenant in (None, key[0])
        ]
        shown[name] = {"since_ms": since_ms, "until_ms": until_ms, "rows": rows}
    silence = board.silence(partitions, now_ms)
    return {
        "now_ms": now_ms,
        "windows": shown,
        "proposals": board.proposals(tenant),
        "watchers": {
            "ever": silence.ever,
            "silent_partitions": list(silence.silent),
            "silent_since_ms": silence.since_ms,
            "behind_partitions": list(silence.behind),
            "undecodable": silence.undecodable,
        },
    }


def _named(key: tuple[str, str, int, str]) -> dict[str, Any]:
    return dict(zip(("tenant", "workflow", "version", "tool"), key, strict=True))
