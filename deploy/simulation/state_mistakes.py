"""Mistakes with what is kept of sessions: in memory, on disk, and in the snapshots topic."""

# ruff: noqa: SLF001 - a mistake goes where it would be made, and that is seldom public

from __future__ import annotations

from contextlib import AbstractContextManager, suppress
from typing import Any

from ...events import records as r
from ...processors.session import Session
from ...processors.snapshots import Recovery
from ...processors.store import Change
from ...processors.workflow.driver import Stretch
from .planting import plant

_TAKE, _CHUNK = Stretch._take, Recovery._chunk


def eviction_runs_user_code() -> AbstractContextManager[None]:
    """A dropped coroutine is not marked dead: what its `finally` blocks ask for is recorded with the next facts."""
    left: dict[Any, list[r.EventBody]] = {}

    def drop(self: Stretch) -> None:
        if self._coroutine is not None:
            with suppress(BaseException):
                self._coroutine.close()
            self._coroutine = None
            left.setdefault(self.context, []).extend(_TAKE(self))
        self.dead = True

    def take(self: Stretch) -> list[r.EventBody]:
        return [*left.pop(self.context, []), *_TAKE(self)]

    return plant((Stretch, "drop", drop), (Stretch, "_take", take))()


def first_chunk_only(self: Recovery, key: bytes, chunk: r.JournalChunk) -> Change | None:
    """What follows the first chunk of a journal is not missed."""
    return _CHUNK(self, key, chunk) if chunk.chunk == 1 else None


def kept_by_a_chunk(session: Session) -> bool:
    """A session with a chunk counts as kept whole, whatever came after it."""
    return session.at_rest or session.parts.count > 0
