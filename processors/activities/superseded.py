"""Attempts that are over, as the log tells workers: cancelled, superseded, or past their deadlines.

A hint, not a rule: a result of such an attempt is recorded as late by whoever decides, whether this was read or not.
So reading begins a bounded way before the end of the topic (tasks that lie in a queue may be over long since), a record
that cannot be read is left out, and a fault is waited out.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import cast

import structlog

from ...events.codec import ATTEMPTS
from ...events.errors import InvalidKey, Undecodable
from ...events.headers import fingerprint_in
from ...events.keys import attempt_id, task_key
from ...events.log.protocol import (
    EndOfPartition,
    Fatal,
    Isolation,
    Log,
    LogFault,
    OffsetGone,
    Place,
    Reader,
    Record,
)
from ...events.records import AttemptOver

LOOK_MS = 100
"""Between two looks, and so the longest that a cancellation waits for a worker to read it."""

AGAIN_MS = 5_000
"""Between two tries after a fault: a look may block for the client's own time-out."""

BACK_MAX = 2_000
"""Records of before that a worker reads when it starts, of all partitions together: some 50 ms of work."""

CATCH_UP_MS = 100
CATCH_UP_ROUNDS = 10
"""How long, and how often, it waits for these: its group takes as long to let it in."""

RECORDS_MAX = 500
ROUNDS_MAX = 20
"""Polls of one look while the topic has more; the intake has its own work to do."""

KEPT_MAX = 10_000
"""Attempts remembered, newest last: their tasks may lie further back in a backlog. About 1 MB."""

logger = structlog.get_logger("wakeful.worker")


class Superseded:
    """One reader for all queues of a worker process; whichever intake looks first, looks for all."""

    def __init__(self, log: Log, topic: str) -> None:
        self._log = log
        self._topic = topic
        self._looking = threading.Lock()
        self._look_at = 0.0
        self._reader: Reader | None = None
        self._positions: dict[Place, int] = {}
        self._behind: dict[Place, int] = {}
        """Partitions that are not read up to where they ended when reading began."""
        self._faulty = False
        self._kept: dict[str, None] = {}
        self._told: list[Callable[[str], None]] = []

    def __contains__(self, command_id: object) -> bool:
        return command_id in self._kept

    def tell(self, told: Callable[[str], None]) -> None:
        """Has `told` called with the id of each attempt that is over, from whichever thread looks."""
        self._told.append(told)

    def catch_up(self, now: float) -> None:
        """Reads what was said before this worker came, and waits for it, within bounds; a repeat waits for the first."""
        with self._looking:
            self._look(now)
            for _ in range(CATCH_UP_ROUNDS):
                if not self._behind or self._faulty:
                    return
                self._look(now, wait_ms=CATCH_UP_MS)

    def look(self, now: float, *, at_once: bool = False) -> None:
        """Reads what is new, without waiting for any; `now` is monotonic, in seconds. Never raises a fault.

        `at_once` asks for it though the last look was just now: there are tasks that may be over by a newer word.
        """
        is_due = now >= self._look_at or (at_once and not self._faulty)
        if not is_due or not self._looking.acquire(blocking=False):
            return
        try:
            self._look(now)
        finally:
            self._looking.release()

    def _look(self, now: float, *, wait_ms: int = 0) -> None:
        try:
            self._look_at = now + LOOK_MS / 1000
            self._read(wait_ms)
            self._faulty = False
        except LogFault as fault:
            self._look_at = now + AGAIN_MS / 1000
            self._let_go(forget=isinstance(fault, OffsetGone | Fatal))
            if not self._faulty:
                logger.warning("attempts that are over cannot be read for now", fault=str(fault))
            self._faulty = True

    def close(self) -> None:
        """Frees the reader."""
        with self._looking:
            self._let_go(forget=True)

    def _read(self, wait_ms: int) -> None:
        reader = self._opened()
        for _ in range(ROUNDS_MAX):
            items = reader.poll(RECORDS_MAX, wait_ms)
            for item in items:
                place, reached = Place(item.topic, item.partition), item.offset
                if not isinstance(item, EndOfPartition):
                    reached = self._positions[place] = item.offset + 1
                    self._take(item)
                if reached >= self._behind.get(place, reached + 1):
                    del self._behind[place]
            if len(items) < RECORDS_MAX:
                return

    def _opened(self) -> Reader:
        """The reader, where it was before a fault; else where a new one begins, for which the intake may wait a while."""
        if self._reader is None:
            self._positions = self._positions or self._begin()
            self._reader = self._log.reader(Isolation.COMMITTED)
            self._reader.assign(self._positions)
        return self._reader

    def _begin(self) -> dict[Place, int]:
        places = [Place(self._topic, n) for n in range(self._log.partitions(self._topic))]
        ends = self._log.ends(places, Isolation.COMMITTED)
        back = BACK_MAX // len(places)
        begin = {place: max(first, end - back) for place, (first, end) in ends.items()}
        self._behind = {place: end for place, (_, end) in ends.items() if begin[place] < end}
        return begin

    def _take(self, record: Record) -> None:
        try:
            command_id = _over(record)
        except (Undecodable, InvalidKey) as error:
            logger.warning(
                "a record of the attempts topic is left out",
                partition=record.partition,
                offset=record.offset,
                why=str(error),
            )
            return
        self._kept[command_id] = None
        if len(self._kept) > KEPT_MAX:
            del self._kept[next(iter(self._kept))]
        for told in self._told:
            told(command_id)

    def _let_go(self, *, forget: bool) -> None:
        reader, self._reader = self._reader, None
        if forget:
            self._positions = {}
        if reader is not None:
            reader.close()


def _over(record: Record) -> str:
    """The id of the attempt, as its task and its result have it."""
    over = cast("AttemptOver", ATTEMPTS.decode(record.value, fingerprint_in(record.headers)))
    key = task_key(over.idempotency_key, over.attempt)
    if record.key != key:
        raise Undecodable("wrong_key", f"key {record.key!r} is not that of the attempt inside")
    return attempt_id(over.idempotency_key, over.attempt)
