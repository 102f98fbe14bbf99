"""What watchers say on pages: sessions in which they see no progress, and since when they are silent."""

from __future__ import annotations

from typing import Any

from ....events.errors import Transient
from ....events.log.protocol import LogFault
from ...telling.stalled import silence_told
from .visits import Visit

SHOWN = 8
"""Rows of the overview's list."""


def watched(visit: Visit, now_ms: int) -> dict[str, Any]:
    """What watchers propose for this tenant's sessions, and since when they are silent, if they are."""
    one = visit.services.watched
    try:
        board = one.look()
    except (LogFault, Transient):
        return {"stalled": [], "stalled_more": 0, "silence": "nobody can tell what watchers say"}
    stalled = board.proposals(visit.principal.tenant)
    return {
        "stalled": stalled[:SHOWN],
        "stalled_more": max(0, len(stalled) - SHOWN),
        "silence": silence_told(board.silence(one.partitions, now_ms), now_ms),
    }


def stalled_of(visit: Visit, session_id: str) -> list[dict[str, Any]]:
    """What watchers propose for this session; nothing where nobody can tell."""
    try:
        found = visit.services.watched.look().proposals(visit.principal.tenant)
    except (LogFault, Transient):
        return []
    return [one for one in found if one["session_id"] == session_id]
