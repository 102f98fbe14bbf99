"""The projector: reads committed events, and applies each batch with its positions in one transaction.

A generator of crash points: between two calls to a port it yields a name, so that a test can kill the process or
the simulation can drop the projector exactly there. Rules:

- Positions live in the views, nowhere else. After any fault: reconnect, read them back, seek.
- An event is applied if its `seq` is the next of its session's row; a repeat is skipped whatever its offset.
- A hole in a session's `seq` means that records came out of order: seek back once. If the hole is still there, the
  log itself has it: it is recorded as a gap and the projector goes on.
- A record that cannot be decoded, projected or stored is recorded as a gap; the others go on. So is one that is not
  its session's: under another key, or not continuing the hash chain as far as this process has seen it.
- Of an event whose rows are refused, all but the user's values is stored, and these as opaque texts; only where that is
  refused too is the event left out. Either is a gap. Each gap is told in the process's log as an error.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import NamedTuple, TypeVar

import structlog

from ..events.errors import Transient, Undecodable
from ..events.log.protocol import EndOfPartition, Place, Reader, Record
from ..events.records import Envelope, Event
from .chains import Chains
from .project import project
from .refused import Refusal, with_opaque
from .rows import OUTCOMES, SESSIONS, STRETCHES, Change, Key, fold_all, no_rows
from .stretches import extend
from .values import Unprojectable
from .views import REFUSED, Batch, Gap, Moved, RowsRefused, Views, ViewsLost

RECORDS_MAX = 2_000
"""Records per transaction: the fixed cost of one is a few milliseconds, and memory stays bounded."""

POLL_MS = 250
"""How long a poll waits when there is nothing; a stop is noticed within it."""

BUSY_RECORDS, FULL_RECORDS = 16, 500
"""A batch between them was no single session's, and no backlog's: before the next one it pays to let more events come."""

GATHER_MS = 100
"""How long. A batch has a price of its own, and a session that moves in it several times is stored once: with 40 ms and 64
open sessions an event costs a tenth more here, and four tenths more in Postgres. Views are so much later while much happens."""

ROWS_MAX = 20_000
"""Rows kept in memory between batches, so that a busy session is not read back each time."""

GAPS_TOLD_MAX = 20
"""Gaps of one batch that are told one by one; the others are counted, and all are in the view `gaps`."""

Item = TypeVar("Item", Record, Record | EndOfPartition)

_log = structlog.get_logger()


class Reordered(Transient):
    """A session's events came with a hole: read again from the stored position."""


class _Read(NamedTuple):
    """A record that can be projected."""

    record: Record
    envelope: Envelope
    changes: list[Change]


class Projector:
    """Owns the partitions it was given until somebody else claims them. One thread, one reader, one connection."""

    def __init__(
        self,
        reader: Reader,
        views: Views,
        places: Collection[Place],
        decode: Callable[[Record], Event],
        *,
        records_max: int = RECORDS_MAX,
        poll_ms: int = POLL_MS,
        rows_max: int = ROWS_MAX,
        pause: Callable[[int], object] | None = None,
    ) -> None:
        """`pause` waits for some milliseconds, to gather events under load; without it nothing is gathered."""
        if records_max < 1 or rows_max < 0 or not places:
            raise ValueError(
                f"records_max {records_max} and rows_max {rows_max}: expected at least 1 and 0"
            )
        self._reader = reader
        self._views = views
        self._places = tuple(places)
        self._decode = decode
        self._records_max = records_max
        self._poll_ms = poll_ms
        self._rows_max = rows_max
        self._rows = no_rows()
        self._chains = Chains()
        self._stored: dict[Place, int] = {}
        self._ends: dict[Place, int] = {}
        self._holes: set[tuple[Place, int]] = set()
        self._refused: dict[tuple[Place, int], Refusal] = {}
        self._one_by_one = 0
        self._pause = pause
        self._last_batch = 0
        self.faults = 0
        self.applied = 0

    @property
    def positions(self) -> Mapping[Place, int]:
        """The next offset per partition, as last known to be stored."""
        return dict(self._stored)

    @property
    def caught_up(self) -> bool:
        """Whether each partition's end was seen and everything before it is stored."""
        return all(
            place in self._ends and self._stored[place] >= self._ends[place]
            for place in self._places
        )

    def steps(self) -> Iterator[str]:
        """Runs for ever; each name is a place to stop, crash, or (`j.faulted`) wait before going on.

        Raises `Superseded` when somebody took over, and what the reader raises (`OffsetGone`, `Fatal`): then the
        process ends, loudly.
        """
        claimed = False
        while True:
            try:
                positions = self._views.recall() if claimed else self._views.claim(self._places)
                claimed = True
                self._start(positions)
                yield "j.assigned"
                while True:
                    yield from self._batch()
                    self.faults = 0
            except (ViewsLost, Moved, Reordered) as fault:
                self._forget(fault)
            yield "j.faulted"

    def _start(self, positions: Mapping[Place, int]) -> None:
        self._stored = dict(positions)
        self._ends = {}
        self._reader.assign(positions)

    def _forget(self, fault: Exception) -> None:
        """What was folded may or may not be stored; the next read tells."""
        self.faults += 1
        self._rows = no_rows()
        self._chains.forget()
        _log.warning(
            "projector starts over", cause=str(fault), kind=type(fault).__name__, faults=self.faults
        )

    def _batch(self) -> Iterator[str]:
        # A batch that is too much for the database meets its time limit for ever, unless it gets smaller.
        records_max = 1 if self._one_by_one else max(1, self._records_max >> self.faults)
        if self._pause is not None and BUSY_RECORDS <= self._last_batch < FULL_RECORDS:
            self._pause(GATHER_MS)
        polled = self._reader.poll(records_max, self._poll_ms)
        yield "j.polled"
        records = [item for item in polled if isinstance(item, Record)]
        self._last_batch = len(records)
        moves = self._moves(polled)
        if not records and not moves:
            return
        batch = self._project(records, moves)
        try:
            self._views.apply(batch)
        except RowsRefused as refusal:
            self._isolate(records, refusal)
        yield "j.applied"
        self._views.send_commit()
        yield "j.commit_sent"
        self._views.await_commit()
        _tell(batch.gaps)
        self._stored.update((place, after) for place, (_, after) in moves.items())
        self._one_by_one = max(0, self._one_by_one - len(records))
        if self._refused:
            for record in records:
                self._refused.pop(_at(record), None)
        self.applied += len(records)
        self._holes.clear()
        self._trim()
        yield "j.committed"

    def _moves(self, polled: Sequence[Record | EndOfPartition]) -> dict[Place, tuple[int, int]]:
        """From where to where each partition moves.

        Markers have offsets too, so the end seen counts; alone it is stored once nothing more comes, so that the
        lag of a quiet log is 0 and a busy one pays nothing for it.
        """
        reached: dict[Place, int] = {}
        for place, item in _placed(polled):
            if isinstance(item, Record):
                reached[place] = max(item.offset + 1, reached.get(place, 0))
                if item.offset >= self._ends.get(place, 0):
                    self._ends.pop(place, None)
            else:
                self._ends[place] = item.offset
        if not polled:
            reached = {place: end for place, end in self._ends.items() if end > self._stored[place]}
        stored = self._stored
        return {
            place: (stored[place], max(after, self._ends.get(place, 0), stored[place]))
            for place, after in reached.items()
        }

    def _isolate(self, records: Sequence[Record], refusal: RowsRefused) -> None:
        """Finds the record that the database will not take: one by one, and the one that fails alone is a gap."""
        if len(records) == 1:
            at = _at(records[0])
            before = self._refused.get(at)
            self._refused[at] = Refusal(refusal.message, before is not None)
        self._one_by_one = max(self._one_by_one, len(records))
        raise Moved(f"the database refused {len(records)} records: {refusal.message}") from refusal

    def _project(self, records: Sequence[Record], moves: Mapping[Place, tuple[int, int]]) -> Batch:
        gaps: list[Gap] = []
        read = list(self._changes(records, gaps))
        self._load(SESSIONS, {one.changes[0].key for one in read})
        fresh = list(self._fresh(read, gaps))
        self._load_others([one.changes for one in fresh])
        touched = no_rows()
        sessions, ended = self._rows[SESSIONS], touched[STRETCHES]
        for one in fresh:
            fold_all(self._rows, one.changes, touched)
            stretch = extend(sessions[one.changes[0].key], one.record)
            if stretch is not None:
                ended[(*one.changes[0].key, stretch["first_seq"])] = stretch
        return Batch(
            moves,
            {table: list(rows.values()) for table, rows in touched.items() if rows},
            gaps,
            _times(records),
        )

    def _changes(self, records: Sequence[Record], gaps: list[Gap]) -> Iterator[_Read]:
        decode, refused = self._decode, self._refused
        for record in records:
            refusal = refused.get(_at(record)) if refused else None
            try:
                event = decode(record)
                _check_key(record, event.envelope)
                changes = project(event)
                if refusal is not None:
                    stored = with_opaque(changes, refusal)
                    gaps.append(_gap(record, REFUSED, stored.told))
                    if not stored.changes:
                        continue
                    changes = stored.changes
            except Undecodable as error:
                gaps.append(_gap(record, error.reason, error.detail))
            except Unprojectable as error:
                gaps.append(_gap(record, "unprojectable", error.message))
            else:
                yield _Read(record, event.envelope, changes)

    def _fresh(self, read: Sequence[_Read], gaps: list[Gap]) -> Iterator[_Read]:
        """Leaves out what was applied before; raises `Reordered` at a hole that may close on a second reading."""
        sessions = self._rows[SESSIONS]
        seqs: dict[Key, int] = {}
        found_hole = False
        for one in read:
            record, key, seq = one.record, one.changes[0].key, one.envelope.seq
            last = seqs.get(key)
            if last is None:
                row = sessions.get(key)
                last = row["seq"] if row else 0
            if seq <= last:
                continue
            if not self._chains.fits(key, one.envelope):
                gaps.append(
                    _gap(
                        record, "foreign", f"{'/'.join(key)}: event {seq} continues another history"
                    )
                )
                continue
            if seq > last + 1:
                hole = (Place(record.topic, record.partition), record.offset)
                found_hole = found_hole or hole not in self._holes
                self._holes.add(hole)
                told = f"{'/'.join(key)}: no events {last + 1} to {seq - 1}"
                gaps.append(_gap(record, "events_missing", told))
            seqs[key] = seq
            self._chains.advance(key, one.envelope, record)
            yield one
        if found_hole:
            raise Reordered(gaps[-1].detail)

    def _load_others(self, fresh: Sequence[list[Change]]) -> None:
        wanted: dict[str, set[Key]] = {}
        made: set[tuple[str, Key]] = set()
        sessions = self._rows[SESSIONS]
        for changes in fresh:
            session = sessions.get(changes[0].key)
            heard = -1 if session is None else session["command_offset"]
            for change in changes[1:]:
                if change.table == OUTCOMES and change.key[-1] > heard:
                    continue  # of a command that no stored event is of
                if change.creates:
                    made.add((change.table, change.key))
                elif (change.table, change.key) not in made:
                    wanted.setdefault(change.table, set()).add(change.key)
        for table, keys in wanted.items():
            self._load(table, keys)

    def _load(self, table: str, keys: set[Key]) -> None:
        cached = self._rows[table]
        missing = [key for key in keys if key not in cached]
        if missing:
            cached.update(self._views.rows(table, missing))

    def _trim(self) -> None:
        """Forgets the rows that were loaded first; they are read back when needed."""
        self._chains.trim(self._rows_max)
        for rows in self._rows.values():
            for key in list(islice(rows, max(0, len(rows) - self._rows_max))):
                del rows[key]


def _check_key(record: Record, envelope: Envelope) -> None:
    if record.key != f"{envelope.tenant}/{envelope.session_id}".encode():
        shown = f"key {(record.key or b'')[:100]!r}"
        raise Undecodable("wrong_key", f"{shown} is not that of the event inside")


def _at(record: Record) -> tuple[Place, int]:
    return Place(record.topic, record.partition), record.offset


def _tell(gaps: Sequence[Gap]) -> None:
    """Says it to whoever runs this: what is stored now lacks something, and only people can change that."""
    for gap in gaps[:GAPS_TOLD_MAX]:
        _log.error(
            "a record of the log is not wholly in the views",
            topic=gap.topic,
            partition=gap.partition,
            offset=gap.offset,
            reason=gap.reason,
            detail=gap.detail,
        )
    if len(gaps) > GAPS_TOLD_MAX:
        _log.error("more such records: see the view gaps", count=len(gaps) - GAPS_TOLD_MAX)


def _times(records: Sequence[Record]) -> dict[Place, int]:
    """The newest time per partition."""
    times: dict[Place, int] = {}
    for place, record in _placed(records):
        if record.timestamp_ms > times.get(place, -1):
            times[place] = record.timestamp_ms
    return times


def _placed(items: Iterable[Item]) -> Iterator[tuple[Place, Item]]:
    """Each with its place, which is made once for those that follow each other."""
    place = Place("", -1)
    for item in items:
        if item.partition != place.partition or item.topic != place.topic:
            place = Place(item.topic, item.partition)
        yield place, item


def _gap(record: Record, reason: str, detail: str) -> Gap:
    return Gap(record.topic, record.partition, record.offset, reason, detail)
