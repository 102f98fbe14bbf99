"""Commands that were turned away with many like them: one dead letter tells of all, and each of them is one that it means."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from ...events.headers import OVER_QUOTA, DeadLetter
from ...events.log.protocol import Place, Record
from .evidence import Evidence, Violation
from .history import Request, place_of
from .invariants import ONE_DISPOSITION

Group = tuple[Place, str, str | bytes | None]


@dataclass(slots=True)
class _Told:
    """One letter, and how many besides its own command it may still stand for."""

    record: Record
    letter: DeadLetter
    left: int


class TurnedAway:
    """The letters that tell of several. `covers` is asked once for each command of which nothing else became anything."""

    def __init__(
        self,
        evidence: Evidence,
        letters: Iterable[tuple[Record, DeadLetter]],
        *,
        whole: bool = True,
    ) -> None:
        self._told: dict[Group, list[_Told]] = defaultdict(list)
        self._perhaps: list[Request] = []
        self._whole = whole
        for record, letter in letters:
            if letter.count > 1 and letter.topic == evidence.topics.commands:
                told = _Told(record, letter, letter.count - 1)
                self._told[_group_of(record, letter)].append(told)
        for group in self._told.values():
            group.sort(key=lambda told: told.letter.offset)
        self._trimmed = evidence.trimmed

    def covers(self, request: Request) -> bool:
        """Whether a letter stands for this command; each stands for as many as it says, and no more.

        Where not all letters are here (`whole`), one of those that are not may.
        """
        if not self._whole:
            return True
        told = next((told for told in self._about(request) if told.left), None)
        if told is not None:
            told.left -= 1
        return told is not None

    def may_mean(self, request: Request) -> None:
        """Takes note of a command that a letter may stand for, and need not: something else may explain it."""
        if next(self._about(request), None) is not None:
            self._perhaps.append(request)

    def too_many(self) -> Iterator[Violation]:
        """Letters that tell of more than there are; asked once, after all commands."""
        for request in self._perhaps:
            self.covers(request)
        for letters in self._told.values():
            for told in letters:
                letter = told.letter
                gone = letter.offset < self._trimmed.get(Place(letter.topic, letter.partition), 0)
                if told.left and not gone:
                    sentence = (
                        f"it tells of {letter.count} that were turned away up to {letter.last_offset}, "
                        f"and {told.left} of them are not there"
                    )
                    key = (told.record.key or b"").decode(errors="backslashreplace")
                    yield Violation(ONE_DISPOSITION, key, told.record.offset, sentence)

    def _about(self, request: Request) -> Iterator[_Told]:
        place, offset = place_of(request.record), request.record.offset
        groups: list[Group] = [(place, "", request.record.key)]
        if request.asked is not None:
            groups.append((place, OVER_QUOTA, request.asked.tenant))
        for group in groups:  # that of the key first: it speaks of fewer
            letters = self._told.get(group, [])
            at = bisect_left(letters, offset, key=lambda told: told.letter.offset) - 1
            if at >= 0 and offset <= letters[at].letter.last_offset:
                yield letters[at]


class SetAside:
    """Commands of which nothing may come, wherever they lie: a letter tells of them, or no processor has read them yet.

    Whether a letter tells of as many as there are is for `TurnedAway` to say.
    """

    def __init__(self, evidence: Evidence, letters: Iterable[tuple[Record, DeadLetter]]) -> None:
        self._committed = evidence.committed
        self._commands = evidence.topics.commands
        self._dead: set[tuple[Place, int]] = set()
        self._many: dict[Group, list[DeadLetter]] = defaultdict(list)
        for record, letter in letters:
            self._dead.add((Place(letter.topic, letter.partition), letter.offset))
            if letter.count > 1:
                self._many[_group_of(record, letter)].append(letter)
        for many in self._many.values():
            many.sort(key=lambda letter: letter.offset)

    def holds(self, record: Record) -> bool:
        """Whether this record is one of them."""
        place, offset = place_of(record), record.offset
        if (place, offset) in self._dead:
            return True
        if record.topic != self._commands:
            return False
        if self._committed is not None and offset >= self._committed.get(place, 0):
            return True
        many = self._many.get((place, "", record.key), [])
        at = bisect_left(many, offset, key=lambda letter: letter.offset) - 1
        return at >= 0 and offset <= many[at].last_offset


def _group_of(record: Record, letter: DeadLetter) -> Group:
    place = Place(letter.topic, letter.partition)
    if letter.reason != OVER_QUOTA:
        return place, "", record.key
    return place, OVER_QUOTA, (record.key or b"").decode(errors="replace").partition("/")[0]
