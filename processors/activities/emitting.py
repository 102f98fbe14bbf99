"""What one run of an attempt says while it runs, on its way from the activity's body to whoever passes it on."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable

from ...events.records import ActivityTask
from .held_back import HeldBack
from .hidden import Hidden
from .tokens import NO_TOKENS, TEXT_MAX, Speaker, Tokens


class Emission:
    """From any thread. After `close` nothing more is told."""

    def __init__(self, task: ActivityTask, tokens: Tokens, hidden: Callable[[], Hidden]) -> None:
        self._tokens = tokens
        self._speaker: Speaker | None = None
        self._task = task
        self._held_back = HeldBack(hidden)
        self._lock = threading.Lock()
        self._closed = tokens is NO_TOKENS

    def add(self, text: str) -> None:
        """Tells the next piece, without the secrets of the attempt's credentials; returns at once."""
        with self._lock:
            if not self._closed and text:
                self._tell(self._held_back.add(text))

    def close(self) -> None:
        """The body has ended: tells what was held back. A repeat changes nothing."""
        with self._lock:
            if not self._closed and self._speaker is not None:
                self._tell(self._held_back.end())
            self._closed = True

    def _tell(self, text: str) -> None:
        if self._speaker is None:  # few attempts say anything
            task, run = self._task, secrets.token_hex(8)
            self._speaker = Speaker(
                task.tenant, task.session_id, task.activity_id, task.attempt, run
            )
        for start in range(0, len(text), TEXT_MAX):
            self._tokens.offer(self._speaker, text[start : start + TEXT_MAX])
