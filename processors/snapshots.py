"""What a partition writes into the snapshots topic of a session, and how it is read back.

A snapshot holds the folds at the session's base: where its last turn ended, or where the open stretch began. When the
session parks in the middle of a turn, the events since go beside it as chunks, `session#1`, `session#2`, …: each
holds what came after the one before, and is never written again. A stretch that begins is written with its first
event as chunk 1, so that the journal can begin with it. So a session that waits for a week is in the topic whole, and
recovery without a store needs no old event for it. A later snapshot makes the chunks void; tombstones delete them.

The topic is a cache. A chunk counts for the events in it that continue the session, by number and by hash; where
something does not fit, all events are read, from the first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from hashlib import sha256

from ..events import records as r
from ..events.codec import decode_snapshot, decode_state
from ..events.envelopes import read_envelope
from ..events.errors import InvalidKey, Undecodable
from ..events.keys import chunk_key, session_key, session_of
from ..events.limits import KIB
from ..events.log.protocol import Record
from ..events.state import STATE_VERSION
from .session import Parts, Session
from .store import Change, TailEvent, take_in

CHUNK_BYTES = 256 * KIB
"""Bytes of events in one chunk; a larger event is alone in its own."""

CHUNKS_MAX = 1_000
"""Chunks beside one snapshot. A stretch that parks more often is read from its events, as before: `again` is for it."""


def snapshot_of(session: Session, base: bytes) -> r.Snapshot:
    """The record that lets a new owner start from the session's base; `base` is that as bytes."""
    tenant, session_id, hashed = session.tenant, session.session_id, sha256(base).digest()
    return r.Snapshot(tenant, session_id, session.base_seq, STATE_VERSION, base, hashed)


def written_parts(session: Session, *, moved: bool) -> Parts:
    """What the topic holds of the session once its newest snapshot is there, and no chunk of this transaction."""
    parts = session.parts
    if moved or parts.base_seq != session.base_seq:
        return Parts(session.base_seq, 0, session.tail_from - 1)
    return parts


def chunks_of(session: Session, parts: Parts, events: Sequence[TailEvent]) -> list[r.JournalChunk]:
    """The events after those that `parts` hold, in chunks; none where some of them are missing, or there is no room."""
    wanted = range(parts.upto + 1, session.head.seq + 1)
    if not wanted or [event.seq for event in events] != [*wanted]:
        return []
    place = (session.tenant, session.session_id, session.base_seq)
    chunks = [
        r.JournalChunk(*place, parts.count + n, tuple(held))
        for n, held in enumerate(_split(events), 1)
    ]
    return chunks if parts.count + len(chunks) <= CHUNKS_MAX else []


def void_keys(key: bytes, before: Parts, after: Parts) -> list[bytes]:
    """The chunks that a newer snapshot made void."""
    return [chunk_key(key, n) for n in range(after.count + 1, before.count + 1)]


def _split(events: Sequence[TailEvent]) -> Iterator[list[r.StoredEvent]]:
    held: list[r.StoredEvent] = []
    size = 0
    for event in events:
        own = len(event.body) + len(event.fingerprint)
        if held and size + own > CHUNK_BYTES:
            yield held
            held, size = [], 0
        held.append(r.StoredEvent(event.fingerprint, event.body))
        size += own
    yield held


class Recovery:
    """Makes sessions of the topic's records, in their order. `session` gives one as far as it is known by now."""

    def __init__(self, session: Callable[[bytes], Session]) -> None:
        self._session = session
        self._unfit: set[bytes] = set()
        self._halves: dict[bytes, Session] = {}
        self.low_offset = 0
        """The newest mark's: events below it are in the topic."""

    @property
    def complete(self) -> bool:
        """Whether all that is there could be used; else the events must supply it, from the first."""
        return not self._unfit and not self._halves

    def take(self, record: Record) -> Change | None:
        """What is known now of one session, if it is more than before."""
        if record.value is None:
            return None  # what it deletes was void before
        try:
            found = decode_snapshot(record.value, record.headers)
            if isinstance(found, r.PartitionMark):
                self.low_offset = max(self.low_offset, found.low_offset)
                return None
            key = session_key(found.tenant, found.session_id)
            if isinstance(found, r.JournalChunk):
                return self._chunk(key, found)
            return self._snapshot(key, found)
        except (Undecodable, InvalidKey):
            named = session_of(record.key)
            if named is not None:  # nobody else's record has a key that could be ours
                self._unfit.add(named)
            return None

    def _snapshot(self, key: bytes, snapshot: r.Snapshot) -> Change | None:
        session = _restored(snapshot)
        self._unfit.discard(key)
        self._halves.pop(key, None)
        if session.awaits_start:
            self._halves[key] = session  # its first chunk is the next record
            return None
        return Change(key, session, (), snapshot.state)

    def _chunk(self, key: bytes, chunk: r.JournalChunk) -> Change | None:
        session = self._halves.get(key) or self._session(key)
        taken = take_chunk(session, chunk)
        if not session.awaits_start:
            self._halves.pop(key, None)
        if chunk.events and session.head.seq < read_envelope(chunk.events[-1].body).seq:
            self._unfit.add(key)
        return Change.of(key, session, taken) if taken else None


def take_chunk(session: Session, chunk: r.JournalChunk) -> list[TailEvent]:
    """Folds in the events that continue the session, up to the first that does not, and gives them."""
    taken: list[TailEvent] = []
    for stored in chunk.events:
        envelope = read_envelope(stored.body)
        if (envelope.tenant, envelope.session_id) != (chunk.tenant, chunk.session_id):
            break
        event = TailEvent(envelope.seq, stored.fingerprint, stored.body)
        new = envelope.seq > session.head.seq or session.awaits_start
        if not take_in(session, event, envelope):
            break
        if new:
            taken.append(event)
    if taken:
        session.parts = Parts(chunk.base_seq, chunk.chunk, session.head.seq)
    return taken


def _restored(snapshot: r.Snapshot) -> Session:
    if snapshot.state_version != STATE_VERSION:
        told = f"it is of state version {snapshot.state_version}"
        raise Undecodable("other_version", told)
    if sha256(snapshot.state).digest() != snapshot.state_hash:
        raise Undecodable("bad_snapshot", "its state does not match its hash")
    folded = decode_state(snapshot.state)
    parts = Parts(folded.head.seq, 0, folded.head.seq)
    session = Session(snapshot.tenant, snapshot.session_id, folded.head, folded.state, parts=parts)
    session.base = folded
    return session
