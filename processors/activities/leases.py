"""Leases: a worker's word that an attempt goes on although its task now belongs to another worker.

A hint that saves a second call while the first is under way, and nothing more: what is run, recorded and applied
never depends on it. So every answer may be missing, and a missing one means that nobody holds anything.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol


class Leases(Protocol):
    """Of one worker; attempts are named by their command ids. Never raises, and never waits for longer than a moment."""

    def hold(self, attempts: Mapping[str, int]) -> None:
        """Says that these go on here, for at most so many milliseconds each."""

    def held(self, attempts: Sequence[str]) -> Collection[str]:
        """Those of these that go on at another worker, as far as is known."""

    def release(self, attempts: Sequence[str]) -> None:
        """Says that these have ended; what others hold stays theirs."""


class NoLeases:
    """Where there is no Redis."""

    def hold(self, attempts: Mapping[str, int]) -> None:
        """Tells nobody."""

    def held(self, attempts: Sequence[str]) -> Collection[str]:  # noqa: ARG002 the protocol's
        """Knows of none."""
        return ()

    def release(self, attempts: Sequence[str]) -> None:
        """Has none."""
