"""Tasks that must not run twice: each is handed out after its offset was committed, and otherwise never.

The commit is synchronous and fenced by the membership, so that no other worker is given what one has taken. Killed
between the commit and the body, a worker takes the task with it: the log's clock calls it uncertain, and nobody runs it.
A commit that was refused, or had no answer, hands out nothing. Its tasks stay here while the partition does, and the
commit is tried again: nothing of them has run, whether the first one was applied or not.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import structlog

from ...events.log.protocol import Fatal, Group, LogFault, Place, Record

FAULTS_MAX = 100
"""Commits in a row that fail before the worker ends."""

logger = structlog.get_logger("wakeful.worker")


class OnceTasks:
    """Those fetched and not handed out, in the order of each partition."""

    def __init__(self) -> None:
        self._records: list[Record] = []
        self._faults = 0

    def __len__(self) -> int:
        return len(self._records)

    def add(self, records: Sequence[Record]) -> None:
        """Keeps them, behind those that are here."""
        self._records += records

    def drop(self, places: Collection[Place]) -> None:
        """Forgets what belongs to others now: they find it uncommitted."""
        self._records = [r for r in self._records if Place(r.topic, r.partition) not in places]

    def take(self, group: Group, records_max: int) -> list[Record]:
        """Up to so many, committed; none where that failed. Raises the fault that was one too many."""
        taken = self._records[: max(0, records_max)]
        if not taken:
            return []
        try:
            group.commit(ends_of(taken))
        except Fatal:
            raise
        except LogFault as fault:
            self._faults += 1
            if self._faults > FAULTS_MAX:
                raise
            logger.info("nothing taken: the commit failed", count=len(taken), fault=str(fault))
            return []
        self._faults = 0
        del self._records[: len(taken)]
        return taken


def ends_of(records: Sequence[Record]) -> dict[Place, int]:
    """The offset behind the last of these, per partition."""
    return {Place(record.topic, record.partition): record.offset + 1 for record in records}
