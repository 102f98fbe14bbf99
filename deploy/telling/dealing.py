"""Dead letters and what was done about them: sent back where they came from, or dropped; a mark beside each says so.

A mark is a record of the dead letters' topic, in the letter's own partition: its key is the letter's id
(`partition@offset`), it has no value, and its headers say what was done and by whom. It lies behind its letter, so
retention takes the letter first. Sending back and marking are one transaction under one name: of two people who do
it at once one is fenced, so a letter is sent back once, and a repeat finds the mark and does nothing.

Whoever asks for one tenant finds its letters, and those whose key names no tenant.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from time import sleep
from typing import Literal

from ...events.headers import BATCH, BATCH_COUNT, DEAD, dead_letter_in
from ...events.log.protocol import Isolation, Log, NotYet, Place, Record, TransactionalProducer
from ...events.topics import Topics
from ..exits import Exit, Stopped
from ..telling.reading import to_the_end

How = Literal["redriven", "vouched for", "dropped"]
"""`vouched for`: sent back under a signature of whoever did it."""

HOW = "wakeful_letter_handled"
BY = "wakeful_letter_by"
REDRIVEN = "wakeful_redriven"
"""Header of a record that was sent back: the id of the letter it was."""

SPREAD = 3
"""Offsets looked at per letter wanted, to begin with: markers of transactions and marks have offsets, too."""

AT_ONCE = 100
"""Letters per transaction."""

START_PAUSE_S, START_TRIES = 0.2, 50
"""How often a start is tried while an earlier holder's transaction is being settled, and the rest between."""

_ID = re.compile(r"(\d{1,6})@(\d{1,18})")


@dataclass(frozen=True, slots=True)
class Mark:
    """What was done about a letter, who did it, and when (the log's time)."""

    how: str
    by: str
    at_ms: int


@dataclass(slots=True)
class Letters:
    """Dead letters, the oldest first, and the marks of those that were dealt with, by the letter's id."""

    records: list[Record] = field(default_factory=list)
    marks: dict[str, Mark] = field(default_factory=dict)

    @property
    def open(self) -> list[Record]:
        """Those that nobody has dealt with."""
        return [record for record in self.records if id_of(record) not in self.marks]


@dataclass(slots=True)
class Dealt:
    """What one call did: these letters now, those before (nothing was done about them again)."""

    now: list[str] = field(default_factory=list)
    before: dict[str, Mark] = field(default_factory=dict)


def id_of(record: Record) -> str:
    """A letter's id, as `list` shows it."""
    return f"{record.partition}@{record.offset}"


def mark_in(record: Record) -> Mark | None:
    """The mark that a record is, or null where it is a letter."""
    found = dict(record.headers)
    if HOW not in found or record.value is not None or dead_letter_in(record.headers) is not None:
        return None  # a command with such a header is a letter like any other
    how, by = (found.get(name, b"").decode("utf-8", "replace") for name in (HOW, BY))
    return Mark(how, by, record.timestamp_ms)


def is_of(record: Record, tenant: str | None) -> bool:
    """Whether a letter is this tenant's, or nobody's by its key; any is where no tenant is asked for."""
    named, slash, _ = (record.key or b"").partition(b"/")
    return tenant is None or not slash or named == tenant.encode()


def newest_letters(
    log: Log,
    topics: Topics,
    limit: int,
    *,
    all_of_them: bool = False,
    tenant: str | None = None,
) -> Letters:
    """The newest so many that nobody has dealt with, or of all of them; with the marks of those that were."""
    ends = ends_of(log, topics)
    back = limit * SPREAD
    while True:
        starts = {place: max(first, end - back) for place, (first, end) in ends.items()}
        found = read_letters(log, starts)
        shown = found.records if all_of_them else found.open
        chosen = [record for record in shown if is_of(record, tenant)]
        if len(chosen) >= limit or all(at == ends[place][0] for place, at in starts.items()):
            return Letters(chosen[-limit:], found.marks)
        back *= 4


def open_letters(
    log: Log, topics: Topics, reason: str, *, tenant: str | None = None
) -> list[Record]:
    """All letters of this reason that nobody has dealt with, the oldest first; `Stopped` where none ever had it."""
    found = read_letters(log, {place: first for place, (first, _) in ends_of(log, topics).items()})
    mine = [record for record in found.records if is_of(record, tenant)]
    causes = {id_of(r): cause for r in mine if (cause := dead_letter_in(r.headers))}
    reasons = sorted({cause.reason for cause in causes.values()})
    if reason not in reasons:
        there_are = f"there are {', '.join(reasons)}" if reasons else "there are no letters"
        raise Stopped(Exit.NOT_FOUND, f"no dead letter has the reason {reason!r}: {there_are}")
    return [r for r in found.open if id_of(r) in causes and causes[id_of(r)].reason == reason]


def letters_of(log: Log, topics: Topics, key: bytes, since_ms: int) -> list[Record]:
    """The letters of one session since that time that nobody has dealt with, the oldest first."""
    found = read_letters(log, log.offsets_at(list(ends_of(log, topics)), since_ms))
    return [record for record in found.open if record.key == key]


def find_letter(
    log: Log, topics: Topics, letter: str, *, tenant: str | None = None
) -> tuple[Record, Mark | None]:
    """The letter of this id and its mark; `Stopped` where there is none, in the same words where it is another's."""
    match = _ID.fullmatch(letter)
    if match is None:
        raise Stopped(
            Exit.USAGE, f"{letter!r} is no dead letter's id: write partition@offset, such as 2@15"
        )
    topic, number, offset = topics.dead_letters, int(match[1]), int(match[2])
    if number < log.partitions(topic):
        place = Place(topic, number)
        first, _ = log.ends([place], Isolation.COMMITTED)[place]
        if offset >= first:
            found = read_letters(log, {place: offset})
            for record in found.records:
                if record.offset == offset and is_of(record, tenant):
                    return record, found.marks.get(id_of(record))
    raise Stopped(Exit.NOT_FOUND, f"no dead letter {letter}: see 'wakeful dlq list'")


def why_not_sent_back(record: Record, topics: Topics) -> str:
    """Why a letter cannot be sent back; empty where it can."""
    cause = dead_letter_in(record.headers)
    if cause is None:
        return "nothing says where it came from"
    if cause.topic != topics.commands:
        return f"it came from {cause.topic}, and only commands are taken back: an attempt is handed out once"
    if sha256(record.value or b"").hexdigest() != cause.sha256:
        return "its bytes are not those that died"
    return ""


def deal(log: Log, topics: Topics, letters: Sequence[Record], how: How, by: str) -> Dealt:
    """Sends these letters back (`redriven`, `vouched for`) or not (`dropped`), and marks them; a repeat does nothing new.

    After a fault whatever was not done is as it was: the same call does the rest.
    """
    dealt = Dealt()
    producer = log.transactional(f"{topics.namespace}.dlq")
    try:
        _start(producer)
        marks = _marks(log, letters)  # after the start: what others did is decided by now
        for record in letters:
            if (mark := marks.get(id_of(record))) is not None:
                dealt.before[id_of(record)] = mark
        todo = [record for record in letters if id_of(record) not in marks]
        for first in range(0, len(todo), AT_ONCE):
            chunk = todo[first : first + AT_ONCE]
            producer.begin()
            for record in chunk:
                _produce(producer, topics, record, how, by)
            producer.commit()
            dealt.now += [id_of(record) for record in chunk]
    finally:
        producer.abandon()
    return dealt


def _produce(
    producer: TransactionalProducer, topics: Topics, record: Record, how: How, by: str
) -> None:
    letter = id_of(record).encode()
    if how != "dropped":
        headers = [*_own(record), (REDRIVEN, letter)]
        producer.produce(topics.commands, key=record.key, value=record.value, headers=headers)
    producer.produce(
        topics.dead_letters,
        key=letter,
        value=None,
        headers=[(HOW, how.encode()), (BY, by.encode("utf-8", "replace"))],
        partition=record.partition,
    )


def _own(record: Record) -> list[tuple[str, bytes]]:
    """The headers it came with: without those of its death, and of the transaction that put it aside."""
    ours = (BATCH, BATCH_COUNT, REDRIVEN)
    return [(k, v) for k, v in record.headers if k not in ours and not k.startswith(DEAD)]


def _start(producer: TransactionalProducer) -> None:
    for tried in range(START_TRIES):
        try:
            producer.start()
        except NotYet:
            if tried == START_TRIES - 1:
                raise
            sleep(START_PAUSE_S)
        else:
            return


def _marks(log: Log, letters: Iterable[Record]) -> Mapping[str, Mark]:
    starts: dict[Place, int] = {}
    for record in letters:
        place = Place(record.topic, record.partition)
        starts[place] = min(starts.get(place, record.offset), record.offset)
    return read_letters(log, starts).marks


def ends_of(log: Log, topics: Topics) -> dict[Place, tuple[int, int]]:
    """First and next offset of each partition of dead letters."""
    topic = topics.dead_letters
    places = [Place(topic, number) for number in range(log.partitions(topic))]
    return log.ends(places, Isolation.COMMITTED)


def read_letters(log: Log, starts: Mapping[Place, int]) -> Letters:
    """Letters and marks from these offsets to the ends, the oldest first."""
    found = Letters()
    for record in to_the_end(log, starts):
        mark = mark_in(record)
        if mark is None:
            found.records.append(record)
        else:
            found.marks.setdefault((record.key or b"").decode("utf-8", "replace"), mark)
    found.records.sort(key=lambda r: (r.timestamp_ms, r.partition, r.offset))
    return found
