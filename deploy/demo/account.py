"""What the events say of one session: its messages, turns and replies, and which refunds are due in it."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...events import records as r
from .refund_desk.desk import LIMIT_CENTS, find_order, refund


@dataclass(frozen=True, slots=True)
class Due:
    """A refund that the facts ask for, whoever has asked for it."""

    session_id: str
    turn: int
    order_id: str
    cents: int

    @property
    def place(self) -> tuple[str, int]:
        """Session and turn, which no two refunds share."""
        return self.session_id, self.turn


@dataclass(slots=True)
class Account:
    """One session. Messages by id, turns by number, activities by id."""

    texts: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    turns: dict[str, int] = field(default_factory=dict)
    replies: dict[int, list[dict[str, Any]]] = field(default_factory=lambda: defaultdict(list))
    completed_ms: dict[int, int] = field(default_factory=dict)
    requests: dict[str, r.ActivityRequested] = field(default_factory=dict)
    results: dict[str, tuple[int, Any]] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)
    proposals: dict[str, int] = field(default_factory=dict)
    decisions: dict[str, bool] = field(default_factory=dict)
    orders: list[Due] = field(default_factory=list)
    recovered: int = 0

    def hear(self, event: r.Event) -> None:
        """Takes in one event."""
        at_ms, body = event.envelope.at_ms, event.body
        match body:
            case r.MessageReceived():
                self.texts[body.message_id].append(str(_json(body.message).get("text")))
            case r.TurnStarted() if body.message_id is not None:
                self.turns[body.message_id] = body.turn
            case r.ReplySent():
                self.replies[body.turn].append(_json(body.message))
            case r.TurnCompleted():
                self.completed_ms[body.turn] = at_ms
            case r.ActivityRequested():
                self.requests[body.activity_id] = body
            case r.ActivityCompleted():
                self._result(event.envelope.session_id, at_ms, body)
            case r.ActivityFailed():
                self.failures[body.activity_id] = body.failure.message
            case r.ApprovalRequested():
                self.proposals[body.proposal_id] = body.turn
            case r.ApprovalGranted() | r.ApprovalRejected():
                self.decisions[body.proposal_id] = isinstance(body, r.ApprovalGranted)
            case _:
                pass  # says nothing that the report counts

    @property
    def due(self) -> Iterator[Due]:
        """Each order that was found, once, where its sum is small or somebody said yes in that turn."""
        granted = {
            turn for proposal, turn in self.proposals.items() if self.decisions.get(proposal)
        }
        paid: set[str] = set()
        for order in self.orders:
            if order.order_id in paid or (order.cents > LIMIT_CENTS and order.turn not in granted):
                continue
            paid.add(order.order_id)
            yield order

    def results_of(self, name: str) -> Iterator[tuple[str, int, Any]]:
        """Key, time and result of this activity's results."""
        for activity_id, (at_ms, result) in self.results.items():
            request = self.requests.get(activity_id)
            if request is not None and request.name == name:
                yield request.idempotency_key, at_ms, result

    def failures_of(self, name: str) -> Iterator[str]:
        """What was said when this activity failed."""
        for activity_id, told in self.failures.items():
            request = self.requests.get(activity_id)
            if request is not None and request.name == name:
                yield told

    def _result(self, session_id: str, at_ms: int, body: r.ActivityCompleted) -> None:
        result = _json(body.result)
        self.results[body.activity_id] = (at_ms, result)
        request = self.requests.get(body.activity_id)
        if request is None:
            return
        self.recovered += request.name == refund.name and body.recovered
        if request.name == find_order.name and result:
            self.orders.append(Due(session_id, request.turn, result["id"], result["cents"]))


def accounts_of(events: Sequence[r.Event]) -> dict[str, Account]:
    """An account per session; one for whoever is asked for, too."""
    accounts: dict[str, Account] = defaultdict(Account)
    for event in events:
        accounts[event.envelope.session_id].hear(event)
    return accounts


def as_stored(text: str) -> str:
    """The text after a trip through JSON: halves of a character that stand side by side are one there."""
    return str(json.loads(json.dumps(text)))


def _json(payload: r.Payload) -> dict[str, Any]:
    value = json.loads(payload.inline or b"{}")
    return value if isinstance(value, dict) else {}
