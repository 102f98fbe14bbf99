"""Mistakes with what is kept of sessions: in memory, on disk, and in the snapshots topic."""

# ruff: noqa: SLF001 - a mistake goes where it would be made, and that is seldom public

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import AbstractContextManager, suppress
from typing import Any

from ...events import records as r
from ...events.keys import session_key
from ...events.log.protocol import Record
from ...processors.handler import CommandHandler
from ...processors.outputs import Folded, Folder
from ...processors.partition import Partition
from ...processors.session import Session
from ...processors.snapshots import Recovery
from ...processors.store import Change
from ...processors.workflow.driver import Stretch
from .planting import plant

_TAKE, _CHUNK = Stretch._take, Recovery._chunk
_FOLD, _FOLD_ONE, _PARK = Folder.fold, Folder._fold_one, CommandHandler._park_if_waiting


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


def parks_at_the_end_of_a_batch() -> AbstractContextManager[None]:
    """A session that waits parks when the batch has no more commands for it: what is recorded depends on the batch."""
    left: Counter[bytes | None] = Counter()

    def fold(self: Folder, partition: Partition, records: Sequence[Record]) -> Folded:
        left.clear()
        left.update(record.key for record in records)
        return _FOLD(self, partition, records)

    def fold_one(self: Folder, folded: Folded, record: Record) -> None:
        left[record.key] -= 1
        _FOLD_ONE(self, folded, record)

    def park(self: CommandHandler, session: Session, run: Any) -> None:
        if left[session_key(session.tenant, session.session_id)] <= 0:
            _PARK(self, session, run)

    return plant(
        (Folder, "fold", fold),
        (Folder, "_fold_one", fold_one),
        (CommandHandler, "_park_if_waiting", park),
    )()
