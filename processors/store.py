"""The local store of one partition: a cache of its sessions on disk, written behind, never ahead of a commit.

It holds, up to an events position: per session the folds at its last rest (`base`), the events since (`tail`), and
when the log's clock next owes it a fact. Deleting the file at any time is safe: it is rebuilt from the log.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self, cast

from ..events import records as r
from ..events.codec import EVENTS, decode_state, encode_state
from ..events.envelopes import read_envelope
from ..events.errors import Corrupt, Rejected, Undecodable
from ..events.hashing import event_hash
from ..events.keys import split_key
from ..events.state import STATE_VERSION, SessionState
from .session import Session

LAYOUT = 3
"""Raised when the tables change; a file of another layout is dropped and rebuilt."""

_TABLES = """
CREATE TABLE IF NOT EXISTS marks (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS sessions (
    key BLOB PRIMARY KEY,
    base BLOB,
    next_due_ms INTEGER,
    next_due_id TEXT,
    open_from INTEGER,
    gap TEXT
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS sessions_due ON sessions (next_due_ms) WHERE next_due_ms IS NOT NULL;
CREATE INDEX IF NOT EXISTS sessions_open ON sessions (open_from) WHERE open_from IS NOT NULL;
CREATE TABLE IF NOT EXISTS tails (
    key BLOB NOT NULL,
    seq INTEGER NOT NULL,
    fingerprint BLOB NOT NULL,
    body BLOB NOT NULL,
    PRIMARY KEY (key, seq)
) WITHOUT ROWID;
"""

_DROPPED = "DROP TABLE IF EXISTS marks; DROP TABLE IF EXISTS sessions; DROP TABLE IF EXISTS tails;"


@dataclass(frozen=True, slots=True)
class TailEvent:
    """One event as stored, without framing."""

    seq: int
    fingerprint: bytes
    body: bytes


DAMAGE = (sqlite3.DatabaseError, Corrupt, Rejected, ValueError)
"""What reading a damaged file raises: SQLite's own, one that Python cannot even put into text, or what we make of it."""


@dataclass(frozen=True, slots=True)
class Change:
    """A session after some events, and these events."""

    key: bytes
    session: Session
    tail: Sequence[TailEvent]


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
            return cls(sqlite3.connect(":memory:"))
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
        connection = sqlite3.connect(path)
        # A cache: after a power cut it may be stale or gone, and the log rebuilds it.
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=OFF")
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
        """A bound below the first event of every session that is not at rest; none where all are."""
        return cast(
            "int | None", self._db.execute("SELECT MIN(open_from) FROM sessions").fetchone()[0]
        )

    def load(self, key: bytes) -> Session | None:
        """The session as of `position`; `Corrupt` where it cannot be, so that the file is dropped."""
        row = self._db.execute("SELECT base, gap FROM sessions WHERE key = ?", (key,)).fetchone()
        if row is None:
            return None
        tenant, session_id = split_key(key)
        session = Session(tenant, session_id)
        if row[0] is not None:
            try:
                folded = decode_state(row[0])
            except Undecodable as error:
                raise Corrupt(f"the stored state of {key!r} cannot be read: {error}") from error
            session.head, session.state = folded.head, folded.state
        tail = self._db.execute(
            "SELECT seq, fingerprint, body FROM tails WHERE key = ? ORDER BY seq", (key,)
        )
        for seq, fingerprint, body in tail:
            envelope = _envelope_of(key, body)
            if not follows(session, envelope):
                if row[1] is None:
                    told = f"event {seq} of {key!r} does not continue event {session.head.seq}"
                    raise Corrupt(told)
                skip_to(session, envelope, row[1])
            fold_stored(session, TailEvent(seq, fingerprint, body))
        if session.head.seq == 0:
            raise Corrupt(f"the store knows {key!r}, and neither its state nor an event of it")
        return session

    def write(
        self, changes: Iterable[Change], *, position: int, open_from: int, cause_high: int
    ) -> None:
        """Takes in committed events: `position` is above them, `open_from` at or below them."""
        at_rest: list[Change] = []
        in_turn: list[Change] = []
        for change in changes:
            (at_rest if change.session.at_rest else in_turn).append(change)
        self._db.execute("BEGIN")
        try:
            self._write_at_rest(at_rest)
            self._write_in_turn(in_turn, open_from)
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

    def _write_at_rest(self, changes: Sequence[Change]) -> None:
        """The folds are all of them; no event since is needed."""
        self._db.executemany(
            "INSERT OR REPLACE INTO sessions VALUES (?, ?, ?, ?, NULL, NULL)",
            [(c.key, encode_base(c.session), *_owed(c.session)) for c in changes],
        )
        self._db.executemany("DELETE FROM tails WHERE key = ?", [(c.key,) for c in changes])

    def _write_in_turn(self, changes: Sequence[Change], open_from: int) -> None:
        """The folds at the last rest stay; the events since are added."""
        self._db.executemany(
            "INSERT INTO sessions VALUES (?, NULL, ?, ?, ?, ?) ON CONFLICT (key) DO UPDATE SET "
            "next_due_ms = excluded.next_due_ms, next_due_id = excluded.next_due_id, open_from = coalesce(open_from, excluded.open_from), "
            "gap = coalesce(gap, excluded.gap)",
            [(c.key, *_owed(c.session), open_from, c.session.broken) for c in changes],
        )
        self._db.executemany(
            "INSERT OR REPLACE INTO tails VALUES (?, ?, ?, ?)",
            [(c.key, e.seq, e.fingerprint, e.body) for c in changes for e in c.tail],
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


def _owed(session: Session) -> tuple[int | None, str | None]:
    return session.next_due() or (None, None)


def encode_base(session: Session) -> bytes:
    """Both folds of a session at rest, as snapshots hold them."""
    if session.state is None:
        raise Corrupt(f"session {session.session_id!r} has no state to store")
    return encode_state(SessionState(session.head, session.state))


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
