"""Tokens in flight: what an attempt says while it runs, for whoever watches, and for nobody else.

They are a courtesy. Nothing that is recorded depends on them, they may be missing at any moment, and an attempt that
says them may still lose: only what is recorded of it counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from ...events.keys import session_key

TEXT_MAX = 2_048
"""Characters of one token; what is longer is told as several."""


@dataclass(frozen=True, slots=True)
class Speaker:
    """One run of an attempt. An attempt whose worker was killed runs again under its number: `run` tells these apart."""

    tenant: str
    session_id: str
    activity_id: str
    attempt: int
    run: str


@dataclass(frozen=True, slots=True)
class Token:
    """A piece of what one run says; `index` counts its pieces from 0, and a gap means that some were lost."""

    activity_id: str
    attempt: int
    run: str
    index: int
    text: str


class Tokens(Protocol):
    """Takes what attempts say. Never raises, and never waits; from any thread."""

    def offer(self, speaker: Speaker, text: str) -> None:
        """Tells the next piece of up to `TEXT_MAX` characters; several in a row may become one token."""


class NoTokens:
    """Where nobody can listen."""

    def offer(self, speaker: Speaker, text: str) -> None:
        """Is not heard."""


NO_TOKENS = NoTokens()


def tokens_key(namespace: str, tenant: str, session_id: str) -> str:
    """Where the tokens of a session lie; `InvalidKey` for names that are none, so no key leads to another tenant's."""
    return f"{namespace}:tokens:{session_key(tenant, session_id).decode('ascii')}"
