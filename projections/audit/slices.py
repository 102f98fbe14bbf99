"""An audit in bounded memory: all that belongs to some sessions at a time, whatever the length of the log.

Every record is read once, and put aside on disk in the slice of its session: all checks of sessions need no more than
that. Then slice after slice is decoded, checked by the same functions as a whole history, and forgotten. What goes
across sessions has its own place: the marks of transactions are sliced by transaction; dead letters that tell of many
commands, and the last command of each partition, are few and are kept.
"""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from zlib import crc32

from ...events.blobs import Blobs
from ...events.headers import DeadLetter, dead_letter_in
from ...events.keys import session_part
from ...events.log.protocol import Place, Record
from ...events.topics import Topics
from ..rows import Key, Row, Rows, no_rows
from . import blobs as beside
from . import folds, order
from .checks import OF_SESSIONS
from .dispositions import disposed, unread
from .evidence import Evidence, Kept, ReadCommand, Violation
from .history import History
from .promises import looked_at
from .spool import Spool
from .turned_away import TurnedAway

SLICE_RECORDS = 20_000
"""About as many records as are in memory at a time; a session of more is in memory as a whole."""

TELL_EVERY = 1_000
"""Records between two words of how far it is."""

Tell = Callable[[str, int, int], None]
"""How far it is: what is done now, how much of it, of how much."""


def quiet(doing: str, done: int, wanted: int) -> None:
    """Tells nobody."""


@dataclass(frozen=True, slots=True)
class Source:
    """Where an audit reads from. `records` gives every record of the namespace once, in order within a partition.

    `evidence` has all but the records and the rows; `rows` gives each row of the views with its table and key.
    `expected` is about how many records there are. `whole` says that all that processors wrote together is among
    them: of some sessions alone it is not, and nothing is said of transactions then.
    """

    evidence: Evidence
    records: Callable[[], Iterable[Record]]
    rows: Callable[[], Iterable[tuple[str, Key, Row]]] | None
    expected: int
    whole: bool = True


@dataclass(slots=True)
class Found:
    """What an audit has found, and how much it has read, by the name of the field of `Evidence`; `looked_at` has more."""

    violations: list[Violation] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    looked_at: Counter[str] = field(default_factory=Counter)
    """See `promises.looked_at`."""
    whole: bool = True
    """See `Source`."""


def audit_slices(
    source: Source,
    read_command: ReadCommand | None,
    folder: Path,
    *,
    blobs: Blobs | None = None,
    digest_key: bytes = b"",
    tell: Tell = quiet,
) -> Found:
    """What `audit` finds, with no more in memory than a slice. `folder` is empty, and holds the log for a while."""
    aside = put_aside(source, folder, tell)
    return check_slices(aside, read_command, blobs=blobs, digest_key=digest_key, tell=tell)


@dataclass(slots=True)
class Aside:
    """A log in slices on disk, and what is kept of the whole of it."""

    source: Source
    slices: int
    records: Spool
    marks: Spool
    excused: Spool
    rows: Spool
    kept: Kept
    letters: list[tuple[Record, DeadLetter]] = field(default_factory=list)
    ends: dict[Place, Record] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)


def put_aside(source: Source, folder: Path, tell: Tell = quiet) -> Aside:
    """Reads all that there is once. `folder` is empty, and nobody else's."""
    slices = max(1, -(-source.expected // SLICE_RECORDS))
    evidence = source.evidence
    aside = Aside(
        source,
        slices,
        records=_spool(folder, "records", slices),
        marks=_spool(folder, "marks", slices),
        excused=_spool(folder, "excused", slices),
        rows=_spool(folder, "rows", slices),
        kept=Kept(evidence.topics, evidence.trimmed),
    )
    _read(aside, tell)
    _read_rows(source, aside.rows, tell)
    return aside


def check_slices(
    aside: Aside,
    read_command: ReadCommand | None,
    *,
    blobs: Blobs | None = None,
    digest_key: bytes = b"",
    tell: Tell = quiet,
) -> Found:
    """Checks slice after slice, and then what goes across them; once, since slices are gone when they were read."""
    evidence = aside.source.evidence
    found = Found(counts=aside.counts, whole=aside.source.whole)
    together = TurnedAway(evidence, aside.letters, whole=aside.source.whole)
    for number in range(aside.slices):
        tell("checking", number, aside.slices)
        with _no_collector():
            history = History.read(_slice(aside, number), read_command)
            for batch in order.compacted_batches(history):
                aside.excused.add(crc32(batch), batch)
            found.violations += _checked(history, together, blobs, digest_key)
            found.looked_at.update(looked_at(history))
            del history
    tell("checking", aside.slices, aside.slices)
    if aside.source.whole:
        found.violations += _across(aside, together)
    return found


def slices_of(aside: Aside) -> Iterator[Evidence]:
    """Slice after slice; once."""
    for number in range(aside.slices):
        yield _slice(aside, number)


def _across(aside: Aside, together: TurnedAway) -> Iterator[Violation]:
    evidence = aside.source.evidence
    for number in range(aside.slices):
        marks = (order.Mark(*one) for one in aside.marks.read(number))
        excused = set(aside.excused.read(number))
        yield from order.torn(marks, excused, since_ms=aside.kept.since_ms)
    if evidence.committed is not None:
        yield from together.too_many()
        if evidence.quiescent:
            yield from unread(aside.ends, evidence.committed)


@contextmanager
def _no_collector() -> Iterator[None]:
    """A slice is many objects and no cycles: the collector would go through all of them, again and again."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _spool(folder: Path, name: str, slices: int) -> Spool:
    own = folder / name
    own.mkdir()
    return Spool(own, slices)


def _read(aside: Aside, tell: Tell) -> None:
    source, counts = aside.source, aside.counts
    topics, wanted = source.evidence.topics, source.expected
    names: dict[str, str] = {}
    for count, record in enumerate(source.records()):
        if count % TELL_EVERY == 0:
            tell("reading", count, wanted)
        kind = names.get(record.topic)
        if kind is None:
            kind = names[record.topic] = kind_of(topics, record.topic)
        counts[kind] = counts.get(kind, 0) + 1
        aside.records.add(slice_of(record.key), (kind, *bare(record)))
        if kind == "commands":
            aside.ends[Place(record.topic, record.partition)] = replace(record, value=None)
        elif kind == "dead_letters":
            letter = dead_letter_in(record.headers)
            if letter is not None and letter.count > 1:
                aside.letters.append((replace(record, value=None), letter))
        mark = order.mark_of(record) if kind in WRITTEN else None
        if mark is not None:
            aside.marks.add(crc32(mark.batch), tuple(mark))
        aside.kept.see(record)


WRITTEN = frozenset({"events", "activities", "outcomes", "snapshots", "dead_letters"})
"""Records that processors write in their transactions."""

KINDS = ("commands", "events", "activities", "outcomes", "snapshots", "dead_letters", "attempts")


def kind_of(topics: Topics, topic: str) -> str:
    """The field of `Evidence` that a topic's records belong to."""
    named = {
        topics.commands: "commands",
        topics.events: "events",
        topics.outcomes: "outcomes",
        topics.snapshots: "snapshots",
        topics.dead_letters: "dead_letters",
        topics.attempts: "attempts",
    }
    return named.get(topic, "activities")


def slice_of(key: bytes | None) -> int:
    """The same number for all that belongs to a session."""
    return crc32(session_part(key))


def bare(record: Record) -> tuple[Any, ...]:
    """What a record is made of, in the order of its fields: it is written and read faster than the record itself."""
    return (
        record.topic,
        record.partition,
        record.offset,
        record.timestamp_ms,
        record.key,
        record.value,
        tuple(record.headers),
    )


def _read_rows(source: Source, rows: Spool, tell: Tell) -> None:
    if source.rows is None:
        return
    for count, (table, key, row) in enumerate(source.rows()):
        if count % TELL_EVERY == 0:
            tell("reading views", count, 0)
        rows.add(slice_of("/".join(key[:2]).encode()), (table, key, row))


def _slice(aside: Aside, number: int) -> Evidence:
    source = aside.source
    parts: dict[str, list[Record]] = {kind: [] for kind in KINDS}
    for kind, *fields in aside.records.read(number):
        parts[kind].append(Record(*fields))
    for part in parts.values():  # by partition, as they lie
        part.sort(key=lambda record: (record.topic, record.partition))
    own: Rows | None = None
    if source.rows is not None:
        own = no_rows()
        for table, key, row in aside.rows.read(number):
            own[table][key] = row
    return replace(
        source.evidence,
        rows=own,
        gaps=source.evidence.gaps if number == 0 else (),
        complete_since_ms=aside.kept.since_ms,
        commands=parts["commands"],
        events=parts["events"],
        activities=parts["activities"],
        outcomes=parts["outcomes"],
        snapshots=parts["snapshots"],
        dead_letters=parts["dead_letters"],
        attempts=parts["attempts"],
    )


def _checked(
    history: History, together: TurnedAway, blobs: Blobs | None, digest_key: bytes
) -> Sequence[Violation]:
    folded = folds.refold(history)
    found = list(disposed(history, together))
    for _, check in OF_SESSIONS:
        found += check(history, folded)
    if blobs is not None:
        found += beside.stored(history, blobs, digest_key)
    return found
