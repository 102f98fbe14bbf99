"""Plays the outside world: customers who write, a supervisor who approves, and somebody with `kill -9`.

It speaks to the engine as anybody would: commands in, outcomes out. It reads the events only to show how far the run
is. Nothing that it counts goes into the report.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic

from ...events.codec import decode_event, decode_outcome
from ...events.log.protocol import Isolation, Log, Place, Record
from ...events.records import Outcome
from ...events.topics import Topics
from ..supervisor import Supervisor
from .approver import Approver
from .board import Board
from .customers import Customers
from .killer import Killer
from .payments import read_book
from .view import View
from .visitor import Visitor

POLL_MS = 50
RECORDS_MAX = 500

SEND_S = 5.0
"""The messages come over about so long, but never slower than `SEND_PER_S_MIN`."""

SEND_PER_S_MIN = 20.0

HELD_BACK = 4
"""A quarter of the messages comes after the kills, so that these are in the middle."""

BOOK_EVERY_S = 0.5
STALL_S = 60.0
"""Nothing moves for so long: the run is over, and the report says what is missing."""


@dataclass(slots=True)
class Drive:
    """One run, in one thread: call `run`."""

    log: Log
    topics: Topics
    supervisor: Supervisor
    customers: Customers
    approver: Approver
    visitor: Visitor
    killer: Killer
    board: Board
    book: Path
    view: View
    _begun_s: float | None = None
    _moved_s: float = 0.0
    _book_s: float = 0.0
    _restarts: dict[str, int] = field(default_factory=dict)

    def run(self) -> bool:
        """Until every message has its answer; false when nothing moves any more."""
        reader = self.log.reader(Isolation.COMMITTED)
        try:
            topics = (self.topics.outcomes, self.topics.events)
            places = [Place(t, n) for t in topics for n in range(self.log.partitions(t))]
            reader.assign(dict.fromkeys(places, 0))
            self._moved_s = monotonic()
            while not self.customers.done:
                for item in reader.poll(RECORDS_MAX, POLL_MS):
                    if isinstance(item, Record):
                        self._read(item)
                self.customers.write(self._due())
                alone = self.customers.waits_only_for(self.approver.left)
                if self.approver.decide() or self.visitor.waits:
                    self._moved_s = monotonic()
                self.visitor.look(alone=alone)
                total = len(self.customers.messages)
                self.killer.look(due=self.customers.answered >= max(total // HELD_BACK, 1))
                self._look_around()
                if monotonic() - self._moved_s > STALL_S:
                    return False
            return True
        finally:
            reader.close()

    def _read(self, record: Record) -> None:
        if record.topic == self.topics.events:
            self.board.hear(decode_event(record.value, record.headers))
            return
        self._moved_s = monotonic()
        if self._begun_s is None:
            self._begun_s = self._moved_s
        self._hear(decode_outcome(record.value, record.headers))

    def _hear(self, outcome: Outcome) -> None:
        match outcome.kind:
            case "reply":
                self.customers.hear(outcome.session_id)
                self.approver.hear_reply(outcome.session_id)
            case "approval_wanted":
                self.approver.hear(outcome)
            case _:  # held, refused, uncertain, failed, cancelled: none of it should happen here
                self.view.line(f"{outcome.session_id} {outcome.kind}: {outcome.detail}")
                self.customers.lose(outcome.session_id)

    def _due(self) -> int:
        """How many should be sent by now: one until all processes have proved to be there, then one by one."""
        total = len(self.customers.messages)
        if self._begun_s is None:
            return 1
        rate = max(SEND_PER_S_MIN, total / SEND_S)
        due = min(total, 1 + int((monotonic() - self._begun_s) * rate))
        if self.killer.hungry and not self.killer.kills:
            due = min(due, total - 1)  # nothing to cut yet: more messages, and so more calls
        elif not self.killer.done:
            due = min(due, max(1, total - total // HELD_BACK))
        return max(due, self.customers.sent)

    def _look_around(self) -> None:
        now_s = monotonic()
        if now_s - self._book_s > BOOK_EVERY_S:
            self._book_s = now_s
            charges = read_book(self.book).charges
            self.board.charges = len(charges)
            self.board.cents = sum(charge.cents for charge in charges)
        for name, count in self.supervisor.restarts.items():
            if count > self._restarts.get(name, 0):
                self._restarts[name] = count
                self.view.line(f"{name} is started again")
        self.view.progress(self.board)
