"""Tasks that must not run twice: each is handed out after its offset was committed, and otherwise never.

The commit is synchronous and fenced by the membership, so that no other worker is given what one has taken. Killed
between the commit and the body, a worker takes the task with it: the log's clock calls it uncertain, and nobody runs it.
A commit that was refused, or had no answer, hands out nothing. Its tasks stay here while the partition does, and the
commit is tried again: nothing of them has run, whether the first one was applied or not.

What nobody can run has no session that would miss it, so nothing but its dead letter tells of it. Its offset is
committed when the broker has acknowledged the letter, and nothing behind it in its partition before.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

import structlog

from ...events.errors import InvalidKey, Undecodable
from ...events.log.protocol import Fatal, Group, LogFault, Place, Record
from .jobs import task_of

FAULTS_MAX = 100
"""Commits in a row that fail before the worker ends."""

logger = structlog.get_logger("wakeful.worker")


class Letter:
    """The dead letter of a record that is no task; settled by the broker's acknowledgement."""

    __slots__ = ("acknowledged",)

    def __init__(self) -> None:
        self.acknowledged = False

    def settle(self) -> None:
        """The broker has it; a repeat changes nothing."""
        self.acknowledged = True


Bury = Callable[[Record, Letter, Undecodable | InvalidKey], None]
"""Sends the letter about a record, and has it settled once it is acknowledged."""


class OnceTasks:
    """Those fetched and not handed out, in the order of each partition."""

    def __init__(self, bury: Bury) -> None:
        self._bury = bury
        self._records: list[Record] = []
        self._letters: dict[tuple[Place, int], Letter] = {}
        self._faults = 0

    def __len__(self) -> int:
        return len(self._records)

    def add(self, records: Sequence[Record]) -> None:
        """Keeps them, behind those that are here; of those that are no tasks the letters go out."""
        self._records += records
        for record in records:
            try:
                task_of(record, once=True)
            except (Undecodable, InvalidKey) as error:
                letter = self._letters[_spot(record)] = Letter()
                self._bury(record, letter, error)

    def drop(self, places: Collection[Place]) -> None:
        """Forgets what belongs to others now: they find it uncommitted."""
        self._records = [r for r in self._records if Place(r.topic, r.partition) not in places]
        self._letters = {at: one for at, one in self._letters.items() if at[0] not in places}

    def ready(self, records_max: int) -> list[Record]:
        """What the next `take` of so many would commit: up to so many tasks, and what lies buried before them."""
        found: list[Record] = []
        blocked: set[Place] = set()
        tasks = 0
        for record in self._records if records_max > 0 else ():
            spot = _spot(record)
            letter = self._letters.get(spot)
            if spot[0] in blocked or (letter is not None and not letter.acknowledged):
                blocked.add(spot[0])
                continue
            if letter is None and tasks == records_max:
                break
            tasks += letter is None
            found.append(record)
        return found

    def take(self, group: Group, records_max: int) -> list[Record]:
        """Up to so many, committed; none where that failed. Raises the fault that was one too many."""
        taken = self.ready(records_max)
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
        spots = {_spot(record) for record in taken}
        self._records = [record for record in self._records if _spot(record) not in spots]
        return [r for r in taken if self._letters.pop(_spot(r), None) is None]


def _spot(record: Record) -> tuple[Place, int]:
    return Place(record.topic, record.partition), record.offset


def ends_of(records: Sequence[Record]) -> dict[Place, int]:
    """The offset behind the last of these, per partition."""
    return {Place(record.topic, record.partition): record.offset + 1 for record in records}
