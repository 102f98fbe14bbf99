"""What the log says of each refund, and a rig that keeps such accounts while it watches, to be held against the book."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from tests.chaos.rig import QUEUES, Rig
from wakeful.deploy.demo.payments import Book
from wakeful.events import records as r
from wakeful.events.log.kafka_survey import committed_offsets
from wakeful.events.log.protocol import Isolation, Place, Record

APP = str(Path(__file__).with_name("paying_app.py"))
POLLS_MAX = 20
"""Of a reader that looks for what is left: more without an answer, and something is taken to be."""

LOOKED_UP, ONCE = "refund_looked_up", "refund_once"


@dataclass(slots=True)
class Account:
    """One refund as it stands in the log: `end` is its last fact, `receipt` the id of the charge it knows of."""

    session_id: str
    activity_id: str
    name: str
    key: str
    end: str = "open"
    recovered: bool = False
    receipt: str | None = None
    doubted: bool = False
    attempts: int = 1


class PaymentsRig(Rig):
    """A rig whose sessions pay back, with an account per refund."""

    def __init__(self, **where: Any) -> None:
        super().__init__(**{"app": APP, **where})
        self.accounts: dict[tuple[str, str], Account] = {}
        self.waiting: dict[str, tuple[r.Obligation, ...]] = {}

    def open_next(self) -> None:
        """Opens one more session and asks it to pay back, without waiting for the broker."""
        session_id = f"s{len(self.sessions)}"
        self.sessions.append(session_id)
        self.client.open("refunds", session_id)
        self.client.send(session_id, f"order-{session_id}")

    def hear(self, event: r.Event) -> None:
        """Keeps the accounts."""
        session_id, body = event.envelope.session_id, event.body
        if not isinstance(body, r.LateResultRecorded):  # evidence: the session waits as before
            self.waiting.pop(session_id, None)
        if isinstance(body, r.SessionWaiting):
            self.waiting[session_id] = body.obligations
        elif isinstance(body, r.ActivityRequested):
            self.accounts[session_id, body.activity_id] = Account(
                session_id, body.activity_id, body.name, body.idempotency_key
            )
        elif isinstance(
            body,
            r.ActivityCompleted | r.ActivityFailed | r.ActivityUncertain | r.ActivityResolved,
        ):
            _end(self.accounts[session_id, body.activity_id], body)

    def of(self, name: str, *ends: str) -> list[Account]:
        """The accounts of one activity, with one of these ends."""
        found = [one for one in self.accounts.values() if one.name == name]
        return [one for one in found if not ends or one.end in ends]

    def settled(self) -> bool:
        """Whether all sessions have ended, or wait for nothing but a person."""
        return len(self.accounts) == 2 * len(self.sessions) and all(
            session_id in self.done or self._waits_for_a_person(session_id)
            for session_id in self.sessions
        )

    def has_tasks_left(self) -> bool:
        """Whether there are tasks that no worker has taken for good."""
        topics = [self.topics.activities(q, once=o) for q in QUEUES for o in (False, True)]
        places = [Place(t, n) for t in topics for n in range(self.settings.partitions)]
        ends = self.log.ends(places, Isolation.COMMITTED)
        group = f"{self.settings.namespace}.workers.{QUEUES[0]}"
        committed = committed_offsets(self.settings.kafka_servers, group, places)
        return any(self._is_ahead(p, committed.get(p, 0), ends[p][1]) for p in places)

    def resolve(self, book: Book) -> int:
        """A person looks each uncertain refund up in the book, and says what became of it; gives how many."""
        doubts = self.of(ONCE, "uncertain")
        for one in doubts:
            charges = book.of(one.key)
            resolution: Literal["completed", "failed"] = "completed" if charges else "failed"
            receipt = charges[0].id if charges else None
            self.client.resolve(
                one.session_id, one.activity_id, resolution, receipt, "looked up in the book"
            )
        return len(doubts)

    def _waits_for_a_person(self, session_id: str) -> bool:
        owed = self.waiting.get(session_id, ())
        return bool(owed) and {obligation.kind for obligation in owed} == {"uncertain"}

    def _is_ahead(self, place: Place, position: int, end: int) -> bool:
        """Whether there is a record from here to the end; markers of transactions are none."""
        reader = self.log.reader(Isolation.COMMITTED)
        try:
            reader.assign({place: position})
            for _ in range(POLLS_MAX):
                if position >= end:
                    return False
                for item in reader.poll(500, 100):
                    if isinstance(item, Record):
                        return True
                    position = max(position, item.offset)
            return True
        finally:
            reader.close()


def _end(
    account: Account,
    body: r.ActivityCompleted | r.ActivityFailed | r.ActivityUncertain | r.ActivityResolved,
) -> None:
    account.attempts = body.attempt
    result = None
    match body:
        case r.ActivityCompleted():
            account.end, account.recovered, result = "completed", body.recovered, body.result
        case r.ActivityFailed():
            account.end = "failed"
        case r.ActivityUncertain():
            account.end, account.doubted = "uncertain", True
        case r.ActivityResolved():
            account.end, result = f"resolved as {body.resolution}", body.result
    if result is not None:
        account.receipt = json.loads(result.inline or b"null")
