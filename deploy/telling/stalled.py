"""In words: sessions without progress, and watchers that say nothing. Loads nothing that reads the log."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from .text import span

if TYPE_CHECKING:
    from ...processors.watchers.board import Silence


def silence_told(silence: Silence, now_ms: int) -> str:
    """In a sentence, where watchers do not speak of all that happens; else empty."""
    if not silence.ever:
        return ""
    if silence.silent:
        all_of_them = len(silence.silent) == silence.partitions
        where = (
            "" if all_of_them else f" of {len(silence.silent)} of {silence.partitions} partitions"
        )
        ago = "" if silence.since_ms is None else f" for {span(max(0, now_ms - silence.since_ms))}"
        return f"watchers have said nothing{where}{ago}"
    if silence.behind:
        return f"watchers still read {len(silence.behind)} of {silence.partitions} partitions"
    return ""


def proposal_told(one: Mapping[str, Any], now_ms: int) -> str:
    """One line for people."""
    return f"{one['session_id']}: {one['why']} (for {span(max(0, now_ms - one['since_ms']))})"
