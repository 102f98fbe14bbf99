"""How far a run is, folded from the events as they come: for people to watch, and for nothing else."""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, field
from time import monotonic

from ...events import records as r
from ...events.state import Status
from ...events.transitions import targets
from .refund_desk.desk import refund

RATE_OVER_S = 5.0
"""The throughput shown is that of so long."""

Session = tuple[str, str]

SHOWN = (
    Status.OPENED,
    Status.RUNNING,
    Status.WAITING,
    Status.SUSPENDED,
    Status.RECOVERING,
    Status.COMPENSATING,
    Status.COMPLETED,
    Status.FAILED,
    Status.CANCELLED,
)

_APPROVAL_ENDS = (r.ApprovalGranted, r.ApprovalRejected, r.ApprovalExpired, r.ApprovalWithdrawn)
_ACTIVITY_ENDS = (r.ActivityCompleted, r.ActivityFailed, r.ActivityCancelled)


@dataclass(slots=True)
class Board:
    """Numbers that move. `charges` and `cents` are told by whoever reads the payment service's book."""

    messages: int
    answered: int = 0
    recovered: int = 0
    charges: int = 0
    cents: int = 0
    kills: int = 0
    _status: dict[Session, str | None] = field(default_factory=dict)
    _approvals: set[tuple[Session, str]] = field(default_factory=set)
    _refunds: set[tuple[Session, str]] = field(default_factory=set)
    _answered_s: deque[float] = field(default_factory=deque)

    def hear(self, event: r.Event) -> None:
        """Takes in one event."""
        session, body = (event.envelope.tenant, event.envelope.session_id), event.body
        led = targets(self._status.get(session), type(body))
        self._status[session] = led[0] if led else self._status.get(session)
        if isinstance(body, r.ApprovalRequested):
            self._approvals.add((session, body.proposal_id))
        elif isinstance(body, _APPROVAL_ENDS):
            self._approvals.discard((session, body.proposal_id))
        elif isinstance(body, r.ActivityRequested) and body.name == refund.name:
            self._refunds.add((session, body.activity_id))
        elif isinstance(body, _ACTIVITY_ENDS):
            self._refunds.discard((session, body.activity_id))
            self.recovered += isinstance(body, r.ActivityCompleted) and body.recovered
        elif isinstance(body, r.TurnCompleted):
            self.answered += 1
            self._answered_s.append(monotonic())

    @property
    def refunds_open(self) -> int:
        """How many are asked for and not known to be done."""
        return len(self._refunds)

    @property
    def approvals_open(self) -> int:
        """How many a supervisor is asked for."""
        return len(self._approvals)

    @property
    def sessions(self) -> dict[str, int]:
        """How many sessions are in which state; those that wait do so for an approval or a time."""
        counted = Counter(status for status in self._status.values() if status is not None)
        return {status.lower(): counted[status] for status in SHOWN if counted[status]}

    @property
    def per_s(self) -> float:
        """Messages answered per second, of late."""
        since_s = monotonic() - RATE_OVER_S
        while self._answered_s and self._answered_s[0] < since_s:
            self._answered_s.popleft()
        return len(self._answered_s) / RATE_OVER_S
