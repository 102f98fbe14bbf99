"""Signed records that were copied to where they do not belong: what must become of them, and the mistakes about it."""

# ruff: noqa: SLF001 - a mistake goes where it would be made, and that is seldom public

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from ...events.headers import DeadLetter, dead_letter_in, find
from ...events.keys import partition_of, session_key
from ...events.log.protocol import Place, Record
from ...processors.activities import settled
from ...processors.outputs import Folder
from ...processors.simulation.copiers import Copy
from ...projections.audit import Evidence
from ...projections.audit.history import Fact
from .planting import Mutant, plant

RESULTS = (b"wakeful.v1.CompleteActivity", b"wakeful.v1.FailActivity")

_IS_MISPLACED, _TURN_AWAY = Folder._is_misplaced, Folder._turn_away

Spot = tuple[str, int, int]
"""Topic, partition and offset."""


class Copied:
    """Where copies lie."""

    def __init__(self, copies: Sequence[Copy]) -> None:
        self._spots = {(copy.place.topic, copy.place.partition, copy.offset) for copy in copies}

    def holds(self, record: Record) -> bool:
        """Whether this is a copy."""
        return (record.topic, record.partition, record.offset) in self._spots

    def led_to(self, record: Record) -> bool:
        """Whether this is the dead letter of a copy."""
        letter = dead_letter_in(record.headers) if self._spots else None
        return letter is not None and _spot(letter) in self._spots


def sessions_lie_at_home(facts: Sequence[Fact], partitions: int) -> Iterator[str]:
    """I2: all events of a session lie in one partition, that of its key, and so do the commands that they come of."""
    for fact in facts:
        envelope = fact.event.envelope
        home = partition_of(session_key(envelope.tenant, envelope.session_id), partitions)
        where = f"{envelope.session_id} seq {envelope.seq}"
        if fact.record.partition != home:
            yield f"{where} lies in partition {fact.record.partition}, its key says {home}"
        if envelope.cause.partition != home:
            yield f"{where} comes of a command in partition {envelope.cause.partition}, its key says {home}"


def copies_are_dead(
    copies: Sequence[Copy], evidence: Evidence, facts: Sequence[Fact]
) -> Iterator[str]:
    """I2: nothing comes of a copy but one dead letter, which says where it lies, and that this is not its partition."""
    if not copies:
        return
    letters = [found for one in evidence.dead_letters if (found := dead_letter_in(one.headers))]
    told = Counter((_spot(letter), letter.reason) for letter in letters)
    many = [letter for letter in letters if letter.count > 1]
    causes = {(c.topic, c.partition, c.offset) for c in (f.event.envelope.cause for f in facts)}
    heard = {find(record.headers, "ce_id") for record in evidence.outcomes}
    for copy in copies:
        topic, number = copy.place.topic, copy.place.partition
        spot = (topic, number, copy.offset)
        name = f"the copy of a record of {copy.key!r} at {topic} {number}/{copy.offset}"
        if spot in causes:
            yield f"{name} led to events"
        if f"{topic}/{number}/{copy.offset}".encode() in heard:
            yield f"{name} has an outcome"
        if not copy.misplaced or not evidence.quiescent:
            continue
        dead = told[spot, "wrong_partition"]
        if dead != 1 and not any(_covers(letter, spot) for letter in many):
            yield f"{name} has {dead} dead letters as wrong_partition, expected 1"


def _spot(letter: DeadLetter) -> Spot:
    return letter.topic, letter.partition, letter.offset


def _covers(letter: DeadLetter, spot: Spot) -> bool:
    at = Place(letter.topic, letter.partition) == Place(spot[0], spot[1])
    return at and letter.offset <= spot[2] <= letter.last_offset


# The mistakes


def _asks_of_some(*, results: bool) -> Any:
    """Where it lies is looked at for results alone, or for all else alone."""

    def is_misplaced(self: Folder, folded: Any, record: Record, key: bytes) -> bool:
        is_result = find(record.headers, "ce_type") in RESULTS
        return is_result == results and _IS_MISPLACED(self, folded, record, key)

    return is_misplaced


def _asks_of_new_sessions(self: Folder, folded: Any, record: Record, key: bytes) -> bool:
    """Only what opens a session is looked at: the others find none there, it hopes."""
    opens = find(record.headers, "ce_type") == b"wakeful.v1.OpenSession"
    return opens and _IS_MISPLACED(self, folded, record, key)


def _drops_it(self: Folder, folded: Any, record: Record, reason: str, *told: Any) -> bool:
    """What lies in another partition is left out, and nobody is told."""
    if reason == "wrong_partition":
        return False
    return _TURN_AWAY(self, folded, record, reason, *told)


def _tells_of_its_home(self: Folder, folded: Any, record: Record, reason: str, *told: Any) -> bool:
    """The dead letter names the partition where it belongs, and not the one where it lies."""
    if reason == "wrong_partition":
        home = partition_of(record.key or b"", self.partitions or 1)
        record = Record(
            record.topic,
            home,
            record.offset,
            record.timestamp_ms,
            record.key,
            record.value,
            record.headers,
        )
    return _TURN_AWAY(self, folded, record, reason, *told)


COPY_MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        "takes a record wherever it lies",
        plant((Folder, "_is_misplaced", lambda *_: False)),
        seed=29,
    ),
    Mutant(
        "asks of all but results where they lie",
        plant((Folder, "_is_misplaced", _asks_of_some(results=False))),
        seed=29,
    ),
    Mutant(
        "asks of results alone where they lie",
        plant((Folder, "_is_misplaced", _asks_of_some(results=True))),
        seed=29,
    ),
    Mutant(
        "asks of new sessions alone where they lie",
        plant((Folder, "_is_misplaced", _asks_of_new_sessions)),
        seed=29,
    ),
    Mutant("drops a misplaced record silently", plant((Folder, "_turn_away", _drops_it)), seed=29),
    Mutant(
        "names the home of a misplaced record as its place",
        plant((Folder, "_turn_away", _tells_of_its_home)),
        seed=29,
    ),
    Mutant(
        "believes a result wherever it lies",
        plant((settled, "_is_at_home", lambda *_: True)),
        seed=76,
    ),
)
