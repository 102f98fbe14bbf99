"""What a session remembers of turns that have ended, so that it can be taken back to one."""

from __future__ import annotations

from .freezing import dataclass

PAST_TURNS_MAX = 20
"""Turns remembered to whose end the session can be taken back: some tens of bytes each, in every snapshot."""


@dataclass(frozen=True, slots=True)
class PastTurn:
    """A turn that has ended, the version that it ran on, and the digest of the state that it left."""

    turn: int
    workflow_version: int
    digest: bytes
