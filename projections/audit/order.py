"""Checks of where records lie and how they hang together: gapless, at home, torn-free, chained."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple

from ...events import records as r
from ...events.envelopes import read_envelope
from ...events.errors import InvalidKey, Undecodable
from ...events.headers import BATCH, BATCH_COUNT
from ...events.keys import partition_of, session_key, session_of
from ...events.log.protocol import Record
from ...events.state import NO_HASH
from .evidence import Violation
from .history import History, Session, hash_of, name_of, of
from .invariants import CHAIN, GAPLESS, ONE_HOME, PURE_FOLD, TORN_FREE
from .turned_away import SetAside


def gapless(history: History) -> Iterator[Violation]:
    """1: the events of a session have seq 1, 2, 3 … in the order of their offsets."""
    yield from history.unreadable
    for facts in history.sessions.values():
        last, last_offset = 0, -1
        for fact in facts:
            seq = fact.event.envelope.seq
            if seq != last + 1:
                yield of(
                    fact,
                    GAPLESS,
                    f"expected seq {last + 1} after offset {last_offset}, found {seq}",
                )
            last, last_offset = seq, fact.record.offset


def one_home(history: History) -> Iterator[Violation]:
    """2: every record of a session is in the partition of its key, and its key is that of its envelope."""
    evidence = history.evidence
    put_aside = SetAside(evidence, history.dead_letters)
    homes: dict[bytes, int] = {}
    for (tenant, session_id), facts in history.sessions.items():
        try:
            expected = session_key(tenant, session_id)
        except InvalidKey as error:
            yield of(facts[0], ONE_HOME, error.message)
            continue
        for fact in facts:
            if fact.record.key != expected:
                yield of(
                    fact,
                    ONE_HOME,
                    f"the key is {fact.record.key!r}, the envelope says {expected!r}",
                )
    for topic in (evidence.commands, evidence.events, evidence.outcomes, evidence.snapshots):
        for record in topic:
            key = session_of(record.key) if topic is evidence.snapshots else record.key
            if key is None:
                continue  # it belongs to no session
            home = homes.get(key)
            if home is None:
                home = homes[key] = partition_of(key, evidence.partitions)
            if record.partition != home and not put_aside.holds(record):
                yield _misplaced(
                    record, f"partition {record.partition} of {record.topic}, expected {home}"
                )


def torn_free(history: History) -> Iterator[Violation]:
    """12: of the records that carry one batch id, all that were written are visible."""
    marks = (mark for record in history.evidence.records if (mark := mark_of(record)) is not None)
    yield from torn(marks, compacted_batches(history), since_ms=history.since_ms)


class Mark(NamedTuple):
    """To which transaction a record belongs, of how many records, and what names the record."""

    batch: bytes
    promised: bytes
    key: bytes | None
    offset: int
    timestamp_ms: int


def mark_of(record: Record) -> Mark | None:
    """The mark in a record's headers, if it has one."""
    batch, count = None, b""
    for name, value in record.headers:
        if name == BATCH:
            batch = value
        elif name == BATCH_COUNT:
            count = value
    if batch is None:
        return None
    return Mark(batch, count, record.key, record.offset, record.timestamp_ms)


def torn(
    marks: Iterable[Mark], excused: Collection[bytes], *, since_ms: int
) -> Iterator[Violation]:
    """12, for the transactions of these marks; `excused` are those of which compaction may have taken a part."""
    seen: Counter[bytes] = Counter()
    promised: dict[bytes, Mark] = {}
    for mark in marks:
        seen[mark.batch] += 1
        if promised.setdefault(mark.batch, mark).promised != mark.promised:
            yield _torn(mark, f"batch {_text(mark.batch)} has two counts")
    for batch, mark in promised.items():
        kept = mark.timestamp_ms >= since_ms  # retention may have taken a part of older ones
        if mark.promised != b"%d" % seen[batch] and kept and batch not in excused:
            told = f"batch {_text(batch)} has {_text(mark.promised)} records, {seen[batch]} are visible"
            yield _torn(mark, told)


def compacted_batches(history: History) -> set[bytes]:
    """Transactions of which compaction may have taken a snapshot.

    One goes once a later one of its session, or mark of its partition, is there.
    """
    if not history.evidence.compacted:
        return set()
    newest = {record.key for record in history.evidence.snapshots}
    touched = ((dict(f.record.headers).get(BATCH), f.record.key) for f in history.facts)
    return {batch for batch, key in touched if batch is not None and key in newest}


def chunks(history: History) -> Iterator[Violation]:
    """8: what lies beside snapshots of an open turn are its events, byte for byte."""
    stored: dict[Session, set[tuple[bytes, bytes]]] = {}
    for record, found in history.snapshots:
        if not isinstance(found, r.JournalChunk):
            continue
        session = (found.tenant, found.session_id)
        if session not in stored:
            facts = history.sessions.get(session, ())
            stored[session] = {(fact.stored.fingerprint, fact.stored.body) for fact in facts}
        own = stored[session]
        other = next((one for one in found.events if (one.fingerprint, one.body) not in own), None)
        if other is not None:
            told = f"a chunk of its snapshot holds {_named(other)}, which is none of its events"
            yield Violation(PURE_FOLD, name_of(session), record.offset, told)


def _named(kept: r.StoredEvent) -> str:
    """What an event of a chunk says that it is."""
    try:
        return f"a seq {read_envelope(kept.body).seq}"
    except Undecodable as error:
        return f"bytes that are no event ({error.message})"


def chained(history: History) -> Iterator[Violation]:
    """32: each event names the hash of the one before it."""
    for facts in history.sessions.values():
        expected = NO_HASH
        for fact in facts:
            prev_hash = fact.event.envelope.prev_hash
            if prev_hash != expected:
                told = f"prev_hash is {prev_hash.hex()[:16]}…, the event before hashes to {expected.hex()[:16]}…"
                yield of(fact, CHAIN, told)
            expected = hash_of(fact)


def _misplaced(record: Record, told: str) -> Violation:
    return Violation(ONE_HOME, _text(record.key or b""), record.offset, told)


def _torn(mark: Mark, told: str) -> Violation:
    return Violation(TORN_FREE, _text(mark.key or b""), mark.offset, told)


def _text(raw: bytes) -> str:
    return raw.decode(errors="backslashreplace")
