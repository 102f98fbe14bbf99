"""One owned partition: its sessions in memory and on disk, and the way to get them back.

Restore, in this order (the order is what makes it right):
1. the group's committed offset, read_committed, which waits for pending ones;
2. the events partition's read_uncommitted end;
3. events, read_committed, from the store's position until an end of partition at or above that end;
4. only then commands.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import structlog

from ..events import records as r
from ..events.envelopes import read_envelope, stored_bytes
from ..events.errors import Corrupt, InvalidKey, Undecodable
from ..events.keys import session_key, split_key
from ..events.log.protocol import (
    EndOfPartition,
    Group,
    Isolation,
    Log,
    LogFault,
    NotYet,
    OffsetGone,
    Place,
    Record,
)
from ..events.topics import Topics
from .live import Live
from .quotas import Meters
from .session import Session
from .snapshots import Recovery
from .store import (
    DAMAGE,
    Change,
    Store,
    TailEvent,
    fold_stored,
    follows,
    skip_to,
)

SLICE_RECORDS = 500
"""Events folded between two looks at the other partitions."""

LOOKS_MAX = 5
"""Times that a second reader is asked whether a record is there; one that hears nothing proves nothing."""

SLICE_MS = 50
"""How long a slice waits for the log."""

logger = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Places:
    """The partition of one number in each topic that it owns."""

    commands: Place
    events: Place
    snapshots: Place

    @classmethod
    def of(cls, topics: Topics, number: int) -> Places:
        """The places of partition `number`."""
        return cls(
            Place(topics.commands, number),
            Place(topics.events, number),
            Place(topics.snapshots, number),
        )


class Partition:
    """See the module. `ready` once its commands may be read; `next_offset` is the next command's."""

    def __init__(
        self,
        number: int,
        topics: Topics,
        log: Log,
        group: str,
        folder: Path | None,
        *,
        let_go: Callable[[Session], None] = Session.drop,
    ) -> None:
        """`let_go` is `Live`'s."""
        self.number = number
        self.places = Places.of(topics, number)
        self.ready = False
        self.next_offset = 0
        self.commands_end = 0
        self.restoring: Generator[str, None, None] | None = None
        self.nudged: dict[bytes, tuple[int, int]] = {}
        self._log = log
        self._path = None if folder is None else folder / f"{group}-{number}.sqlite"
        self.store = Store.open(self._path)
        self._live = Live(let_go)
        self.meters = Meters()

    def session(self, key: bytes) -> Session:
        """The session with this key: live, from disk, or a new one without state.

        `Corrupt` where the file is damaged; it is gone then, and the next process restores the partition without it.
        """
        session = self._live.get(key)
        if session is None:
            with self._droppable_store():
                session = self.store.load(key) or Session(*split_key(key))
        return session

    def due(self, now_ms: int, limit: int) -> list[tuple[bytes, int, str]]:
        """See `Store.due`; `Corrupt` as in `session`."""
        with self._droppable_store():
            return self.store.due(now_ms, limit)

    def tail(self, key: bytes, after: int) -> list[TailEvent]:
        """See `Store.tail`; `Corrupt` as in `session`."""
        with self._droppable_store():
            return self.store.tail(key, after)

    def keep(
        self, changes: list[Change], *, position: int, open_from: int, cause_high: int
    ) -> None:
        """Takes committed changes in: memory first, then the file behind it."""
        for change in changes:
            self._live.put(change.key, change.session)
        self._live.shrink()
        with self._droppable_store():
            self.store.write(changes, position=position, open_from=open_from, cause_high=cause_high)

    def pass_marks(self) -> None:
        """Notes that all commands were read that were there when it was assigned, where only marks of transactions are left.

        Asked when nothing came for a while: a mark has an offset, too, and is never delivered. An answer that is not to be
        had is asked for again.
        """
        if not self.ready or self.next_offset >= self.commands_end:
            return
        reader = self._log.reader(Isolation.COMMITTED)
        try:
            reader.assign({self.places.commands: self.next_offset})
            for _ in range(LOOKS_MAX):
                taken, end = _split(reader.poll(1, SLICE_MS))
                if taken and taken[0].offset < self.commands_end:
                    return
                if taken or (end is not None and end.offset >= self.commands_end):
                    self.commands_end = self.next_offset
                    return
        except LogFault as fault:
            logger.debug("nobody can say whether all was read", fault=str(fault))
        finally:
            reader.close()

    def low_offset(self) -> int:
        """Every event below this offset is in a snapshot, or in a chunk beside one."""
        position = self.store.position or 0
        open_from = self.store.open_from
        return position if open_from is None else min(open_from, position)

    def forget(self) -> None:
        """Drops all live states and coroutines: what is on disk and in the log counts, nothing else."""
        self._live.clear()
        self.meters.forget()
        self.nudged.clear()
        self.ready = False

    def close(self) -> None:
        """Forgets, ends a restore that is under way, and closes the file."""
        self.forget()
        if self.restoring is not None:
            self.restoring.close()
        self.store.close()

    def restore(self, group: Group) -> Generator[str, None, None]:
        """Catches up with the log, slice by slice; afterwards `next_offset` is where commands go on.

        A store that contradicts the log is dropped, then snapshots that do: the events alone are the truth.
        """
        committed = yield from self._committed(group)
        uncommitted_end = self._log.ends([self.places.events], Isolation.UNCOMMITTED)[
            self.places.events
        ][1]
        yield "p.restoring"
        for source in (self._from_store, self._from_snapshots, self._from_start):
            self._live.clear()
            try:
                with self._droppable_store():
                    position = yield from source()
                yield from self._fold_events(
                    position, uncommitted_end, last_resort=source == self._from_start
                )
                break
            except (Corrupt, OffsetGone):
                if source == self._from_start:
                    raise
                self._drop_store()
        self._place_commands(committed)
        self._live.clear()
        yield "p.restored"

    def _place_commands(self, committed: int | None) -> None:
        """Where commands go on: at the committed offset, without one behind the last that an event names."""
        place = self.places.commands
        first, self.commands_end = self._log.ends([place], Isolation.COMMITTED)[place]
        wanted = self.store.cause_high + 1 if committed is None else committed
        if committed is not None and committed < first:
            # Retention took them while nobody was there to read. Whoever sent them has no outcome; nothing else helps.
            logger.error(
                "commands were deleted before they were decided",
                partition=self.number,
                committed=committed,
                first=first,
            )
        self.next_offset = max(first, wanted)

    @contextmanager
    def _droppable_store(self) -> Iterator[None]:
        """A damaged file is deleted at once: it is a cache, and would end each process that meets it."""
        try:
            yield
        except sqlite3.OperationalError:
            raise  # the disk is full, or the file is locked: nothing is wrong with what it holds
        except DAMAGE as error:
            self._drop_store()
            raise Corrupt(f"the store of partition {self.number} is dropped: {error}") from error

    def _drop_store(self) -> None:
        logger.warning("store dropped, it is rebuilt from the log", partition=self.number)
        self.store.close()
        if self._path is not None:
            Store.remove(self._path)
        self.store = Store.open(self._path)

    def _committed(self, group: Group) -> Generator[str, None, int | None]:
        while True:
            try:
                return group.committed([self.places.commands])[self.places.commands]
            except NotYet:
                yield "p.pending_offsets"

    def _from_store(self) -> Generator[str, None, int]:
        if self.store.position is None:
            return (yield from self._from_snapshots())
        return self.store.position
        yield  # never reached: it makes this a generator, as the other sources are

    def _from_start(self) -> Generator[str, None, int]:
        start = self._log.ends([self.places.events], Isolation.COMMITTED)[self.places.events][0]
        self.store.write([], position=start, open_from=start, cause_high=-1)
        return start
        yield  # the same

    def _from_snapshots(self) -> Generator[str, None, int]:
        """Fills an empty store from the snapshots; gives the events position to go on from."""
        place = self.places.snapshots
        start, end_wanted = self._log.ends([place], Isolation.UNCOMMITTED)[place]
        first = yield from self._from_start()
        recovery = Recovery(self.session)
        if start < end_wanted:
            reader = self._log.reader(Isolation.COMMITTED)
            try:
                reader.assign({place: start})
                end: EndOfPartition | None = None
                while end is None or end.offset < end_wanted:
                    taken, end = _split(reader.poll(SLICE_RECORDS, SLICE_MS))
                    for record in taken:
                        self._take(recovery.take(record))
                    yield "p.restoring"
            finally:
                reader.close()
        low_offset = max(first, recovery.low_offset) if recovery.complete else first
        self.store.write([], position=low_offset, open_from=low_offset, cause_high=-1)
        return low_offset

    def _take(self, change: Change | None) -> None:
        if change is not None:
            cause_high = change.session.head.cause_offset
            self.keep([change], position=0, open_from=0, cause_high=cause_high)

    def _fold_events(
        self, position: int, uncommitted_end: int, *, last_resort: bool
    ) -> Generator[str, None, None]:
        if position > uncommitted_end:
            raise Corrupt(
                f"the store is at offset {position}, and {self.places.events} ends at {uncommitted_end}: the log has "
                "lost events, or is another one; restore it, or remove the store's file to believe the log"
            )
        if position == uncommitted_end:
            return
        reader = self._log.reader(Isolation.COMMITTED)
        try:
            reader.assign({self.places.events: position})
            while True:
                taken, end = _split(reader.poll(SLICE_RECORDS, SLICE_MS))
                if taken:
                    self._fold(taken, last_resort=last_resort)
                if end is not None and end.offset >= uncommitted_end:
                    return
                yield "p.restoring"
        finally:
            reader.close()

    def _fold(self, records: list[Record], *, last_resort: bool) -> None:
        """Folds events into their sessions and writes these; events a snapshot covers are passed over."""
        changed: dict[bytes, tuple[Session, list[TailEvent]]] = {}
        cause_high = -1
        for record in records:
            try:
                fingerprint, body = stored_bytes(record)
                envelope = read_envelope(body)
                key = session_key(envelope.tenant, envelope.session_id)
            except (Undecodable, InvalidKey):
                continue  # a stranger's: were it ours, the session's next event would not continue its chain
            if key not in changed:
                changed[key] = (self.session(key), [])
            session, tail = changed[key]
            if envelope.seq <= session.head.seq:
                continue  # the snapshot or the store has it
            if envelope.seq == session.head.seq + 1 and not follows(session, envelope):
                continue  # a stranger's in our place: the real one continues the chain
            if not follows(session, envelope):
                self._gap(session, envelope, last_resort=last_resort)
            fold_stored(session, TailEvent(envelope.seq, fingerprint, body))
            tail.append(TailEvent(envelope.seq, fingerprint, body))
            cause_high = max(cause_high, envelope.cause.offset)
        changes = [
            Change.of(key, session, tail) for key, (session, tail) in changed.items() if tail
        ]
        self.keep(
            changes,
            position=records[-1].offset + 1,
            open_from=records[0].offset,
            cause_high=cause_high,
        )

    @staticmethod
    def _gap(session: Session, envelope: r.Envelope, *, last_resort: bool) -> None:
        """Events are missing before this one: start again from a fuller source, or, at last, break the session."""
        missing = f"events {session.head.seq + 1} to {envelope.seq - 1} are missing from the log"
        if not last_resort:
            raise Corrupt(missing, session=session.session_id)
        skip_to(session, envelope, missing)


def _split(polled: list[Record | EndOfPartition]) -> tuple[list[Record], EndOfPartition | None]:
    records = [item for item in polled if isinstance(item, Record)]
    ends = [item for item in polled if isinstance(item, EndOfPartition)]
    return records, ends[-1] if ends else None
