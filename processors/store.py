"""The local store of one partition: a cache of its sessions on disk, written behind, never ahead of a commit.

It holds, up to an events position: per session the folds where its last turn ended or its open stretch began
(`base`), the events since (`tail`), what the snapshots topic has of it, and when the log's clock next owes it a
fact. So a row grows with the stretch, never with the session. Deleting the file at any time is safe: it is rebuilt
from the log.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple, Self, cast

from ..events import freezing
from ..events import records as r
from ..events.codec import EVENTS, decode_state, encode_state
from ..events.envelopes import read_envelope
from ..events.errors import Corrupt, Rejected, Undecodable
from ..events.hashing import event_hash
from ..events.keys import split_key
from ..events.state import STATE_VERSION
from .journal import Journal
from .session import Parts, Session

LAYOUT = 5
"""Raised when the tables change; a file of another layout is dropped and rebuilt."""

CACHE_KIB = 1_024
"""SQLite's page cache per partition: a look-up needs a handful of pages, and the system caches the file as well."""

PRIVATE = 0o600
"""It holds what people of all tenants said: nobody but its owner reads it."""

_TABLES = """
CREATE TABLE IF NOT EXISTS marks (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS sessions (
    key BLOB PRIMARY KEY,
    base BLOB,
    seq INTEGER NOT NULL,
    next_due_ms INTEGER,
    next_due_id TEXT,
    open_from INTEGER,
    gap TEXT,
    parts_base INTEGER NOT NULL,
    parts_count INTEGER NOT NULL,
    parts_upto INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS sessions_due ON sessions (next_due_ms) WHERE next_due_ms IS NOT NULL;
CREATE INDEX IF NOT EXISTS sessions_open ON sessions (open_from) WHERE open_from IS NOT NULL;
CREATE TABLE IF NOT EXISTS tails (
    key BLOB NOT NULL,
    seq INTEGER NOT NULL,
    fingerprint BLOB NOT NULL,
    body BLOB NOT NULL,
    PRIMARY KEY (key, seq)
);
"""
"""`tails` has rows in the order of their writing: new events fill one page after another. By key each lay in another session's
page, and a long one in one more beside it: twice as many pages were written, in half as much time again."""

_DROPPED = "DROP TABLE IF EXISTS marks; DROP TABLE IF EXISTS sessions; DROP TABLE IF EXISTS tails;"


class TailEvent(NamedTuple):
    """One event as stored, without framing."""

    seq: int
    fingerprint: bytes
    body: bytes


DAMAGE = (sqlite3.DatabaseError, Corrupt, Rejected, ValueError)
"""What reading a damaged file raises: SQLite's own, one that Python cannot even put into text, or what we make of it."""


@freezing.dataclass(frozen=True, slots=True)
class Change:
    """A session after some events, these events, and its base as bytes where one of them moved it."""

    key: bytes
    session: Session
    tail: Sequence[TailEvent] = ()
    base: bytes | None = None

    @classmethod
    def of(cls, key: bytes, session: Session, tail: Sequence[TailEvent]) -> Change:
        """The change that these events were; at least one."""
        moved = session.base_seq >= tail[0].seq
        return cls(key, session, tail, encode_base(session) if moved else None)


class Store:
    """See the module. One owner at a time; every method is one SQLite transaction at most."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._db = connection
        self._db.isolation_level = None
        self._db.executescript(_TABLES)
        if (
            self._mark("layout", LAYOUT) != LAYOUT
            or self._mark("state", STATE_VERSION) != STATE_VERSION
        ):
            self.clear()

    @classmethod
    def open(cls, path: Path | None) -> Self:
        """The store in this file (made if missing, remade if damaged), or in memory."""
        if path is None:
            return cls(sqlite3.connect(":memory:", check_same_thread=False))
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            return cls(cls._connect(path))
        except DAMAGE:
            cls.remove(path)
            return cls(cls._connect(path))

    @staticmethod
    def remove(path: Path) -> None:
        """Deletes the file, and what SQLite keeps beside it."""
        for suffix in ("", "-wal", "-shm"):
            path.with_name(path.name + suffix).unlink(missing_ok=True)

    @staticmethod
    def _connect(path: Path) -> sqlite3.Connection:
        if path.exists():
            path.chmod(PRIVATE)
        else:
            path.touch(mode=PRIVATE)  # SQLite gives what it keeps beside it the same mode
        # One thread at a time uses it; a loop that was dropped may be closed by whichever collects it.
        connection = sqlite3.connect(path, check_same_thread=False)
        # A cache: after a power cut it may be stale or gone, and the log rebuilds it.
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=OFF")
        connection.execute(f"PRAGMA cache_size=-{CACHE_KIB}")
        return connection

    @property
    def position(self) -> int | None:
        """Every event below this offset is in here; none before the first restore."""
        return self._mark("position", None)

    @property
    def cause_high(self) -> int:
        """The highest command offset that an event in here names as its cause; -1 without one."""
        return cast("int", self._mark("cause_high", -1))

    @property
    def open_from(self) -> int | None:
        """A bound below the first event that the snapshots topic does not hold; none where it holds all."""
        return cast(
            "int | None", self._db.execute("SELECT MIN(open_from) FROM sessions").fetchone()[0]
        )

    def load(self, key: bytes) -> Session | None:
        """The session as of `position`; `Corrupt` where it cannot be, so that the file is dropped."""
        row = self._db.execute(
            "SELECT base, seq, gap, parts_base, parts_count, parts_upto FROM sessions WHERE key = ?",
            (key,),
        ).fetchone()
        if row is None:
            return None
        base, seq, gap, *parts = row
        tenant, session_id = split_key(key)
        session = Session(tenant, session_id, parts=Parts(*parts))
        if base is not None:
            try:
                session.base = decode_state(base)
            except Undecodable as error:
                raise Corrupt(f"the stored state of {key!r} cannot be read: {error}") from error
            session.head, session.state = session.base.head, session.base.state
        tail = self._db.execute(
            "SELECT seq, fingerprint, body FROM tails WHERE key = ? ORDER BY seq", (key,)
        )
        for stored in map(TailEvent._make, tail):
            envelope = _envelope_of(key, stored.body)
            if take_in(session, stored, envelope):
                continue
            if gap is None:
                told = f"event {stored.seq} of {key!r} does not continue event {session.head.seq}"
                raise Corrupt(told)
            skip_to(session, envelope, gap)
            fold_stored(session, stored)
        if session.head.seq != seq or session.awaits_start:
            told = f"the store knows {key!r} up to event {seq}, and events before are missing"
            raise Corrupt(told)
        return session

    def tail(self, key: bytes, after: int) -> list[TailEvent]:
        """The events of a session since this one, as far as they are kept."""
        rows = self._db.execute(
            "SELECT seq, fingerprint, body FROM tails WHERE key = ? AND seq > ? ORDER BY seq",
            (key, after),
        )
        return [*map(TailEvent._make, rows)]

    def write(
        self, changes: Iterable[Change], *, position: int, open_from: int, cause_high: int
    ) -> None:
        """Takes in committed events: `position` is above them, `open_from` at or below them."""
        moved: list[Change] = []
        longer: list[Change] = []
        for change in changes:
            (longer if change.base is None else moved).append(change)
        self._db.execute("BEGIN")
        try:
            self._write_moved(moved, open_from)
            self._write_longer(longer, open_from)
            self._write_tails([*moved, *longer])
            self._set_mark("position", position)
            self._set_mark("cause_high", max(cause_high, self.cause_high))
        except BaseException:
            self._db.execute("ROLLBACK")
            raise
        self._db.execute("COMMIT")

    def due(self, now_ms: int, limit: int) -> list[tuple[bytes, int, str]]:
        """Sessions to which the clock owes a fact at `now_ms`: key, since when, about what; earliest first."""
        rows = self._db.execute(
            "SELECT key, next_due_ms, next_due_id FROM sessions WHERE next_due_ms <= ? "
            "ORDER BY next_due_ms LIMIT ?",
            (now_ms, limit),
        )
        return rows.fetchall()

    def clear(self) -> None:
        """Forgets everything, the tables of an older layout included."""
        self._db.executescript(f"BEGIN; {_DROPPED} {_TABLES} COMMIT;")
        self._mark("layout", LAYOUT)
        self._mark("state", STATE_VERSION)

    def close(self) -> None:
        """Closes the file."""
        self._db.close()

    def _write_moved(self, changes: Sequence[Change], open_from: int) -> None:
        """A new base: of the events before it none is needed."""
        self._db.executemany(
            "INSERT OR REPLACE INTO sessions VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            [(c.key, c.base, *_row(c.session, open_from)) for c in changes],
        )
        self._db.executemany(
            "DELETE FROM tails WHERE key = ? AND seq < ?",
            [(c.key, c.session.tail_from) for c in changes],
        )

    def _write_longer(self, changes: Sequence[Change], open_from: int) -> None:
        """The base stays, and so does the first position that the snapshots topic lacks, unless it lacks none now."""
        self._db.executemany(
            "INSERT INTO sessions VALUES (?, NULL, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (key) DO UPDATE SET seq = excluded.seq, "
            "next_due_ms = excluded.next_due_ms, next_due_id = excluded.next_due_id, "
            "open_from = CASE WHEN excluded.open_from IS NULL THEN NULL ELSE coalesce(open_from, excluded.open_from) END, "
            "gap = coalesce(gap, excluded.gap), parts_base = excluded.parts_base, "
            "parts_count = excluded.parts_count, parts_upto = excluded.parts_upto",
            [(c.key, *_row(c.session, open_from)) for c in changes],
        )

    def _write_tails(self, changes: Sequence[Change]) -> None:
        self._db.executemany(
            "INSERT OR REPLACE INTO tails VALUES (?, ?, ?, ?)",
            [(c.key, *e) for c in changes for e in c.tail if e.seq >= c.session.tail_from],
        )

    def _mark(self, name: str, default: int | None) -> int | None:
        row = self._db.execute("SELECT value FROM marks WHERE name = ?", (name,)).fetchone()
        if row is not None:
            return cast("int", row[0])
        if default is not None and name in ("layout", "state"):
            self._set_mark(name, default)
        return default

    def _set_mark(self, name: str, value: int) -> None:
        self._db.execute("INSERT OR REPLACE INTO marks VALUES (?, ?)", (name, value))


def _envelope_of(key: bytes, body: bytes) -> r.Envelope:
    try:
        return read_envelope(body)
    except Undecodable as error:
        raise Corrupt(f"a stored event of {key!r} cannot be read: {error}") from error


def _row(session: Session, open_from: int) -> tuple[object, ...]:
    """A session's columns after its key and base."""
    parts = session.parts
    return (
        session.head.seq,
        *(session.next_due() or (None, None)),
        None if session.snapshotted else open_from,
        session.broken,
        parts.base_seq,
        parts.count,
        parts.upto,
    )


def encode_base(session: Session) -> bytes:
    """Both folds at a session's base, as snapshots hold them."""
    if session.base is None:
        raise Corrupt(f"session {session.session_id!r} has no state to store")
    return encode_state(session.base)


def take_in(session: Session, stored: TailEvent, envelope: r.Envelope) -> bool:
    """Folds an event in, or begins the journal with it; false where it does not continue the session.

    What the session knows already is passed over.
    """
    head = session.head
    if envelope.seq == head.seq and session.awaits_start:
        if event_hash(stored.fingerprint, stored.body, envelope.prev_hash) != head.hash:
            return False
        session.journal = Journal((EVENTS.decode_body(stored.body, stored.fingerprint),))
        return True
    if envelope.seq <= head.seq:
        return True
    if not follows(session, envelope):
        return False
    fold_stored(session, stored)
    return True


def fold_stored(session: Session, stored: TailEvent) -> r.Envelope:
    """Folds one event in that continues the session (`follows`).

    A record type that this version does not know breaks the session, not the partition: its envelope still counts.
    """
    hashed = event_hash(stored.fingerprint, stored.body, session.head.hash)
    try:
        event: r.Event = EVENTS.decode_body(stored.body, stored.fingerprint)
    except Undecodable as error:
        envelope = read_envelope(stored.body)
        told = (
            f"event {envelope.seq} cannot be read ({error}): deploy a version that knows its schema"
        )
        session.apply_unreadable(envelope, hashed, told)
        return envelope
    session.apply(event, hashed)
    return event.envelope


def skip_to(session: Session, envelope: r.Envelope, told: str) -> None:
    """Puts the head right before this event although events in between are missing: the session is broken."""
    session.head = replace(session.head, seq=envelope.seq - 1, hash=envelope.prev_hash)
    session.broken = session.broken or told


def follows(session: Session, envelope: r.Envelope) -> bool:
    """Whether an event with this envelope is the session's next: by number and by chain."""
    return envelope.seq == session.head.seq + 1 and envelope.prev_hash == session.head.hash
