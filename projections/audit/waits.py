"""Checks of what is waited for: what is due comes not early, and once; what nobody waits for any more is withdrawn."""

from __future__ import annotations

from collections.abc import Iterator

from ...events import records as r
from ...events.failures import HEARTBEAT, STALLED, TIMED_OUT
from .evidence import Violation
from .history import History, of
from .invariants import ONE_DECISION, TIMERS

_ENDS = r.TurnCompleted | r.SessionCompleted | r.SessionFailed | r.SessionCancelled | r.SessionReset
_DECIDED = (
    r.ApprovalGranted
    | r.ApprovalRejected
    | r.ApprovalAnswered
    | r.ApprovalVoided
    | r.ApprovalExpired
    | r.ApprovalWithdrawn
)


def timers(history: History) -> Iterator[Violation]:
    """21: a timer fires at most once, after it was set, and nothing expires early on the log's clock."""
    for facts in history.sessions.values():
        due: dict[str, int] = {}
        ended: set[str] = set()
        deadlines: dict[str, int] = {}
        withheld: dict[str, bool] = {}
        for fact in facts:
            body, now_ms = fact.event.body, fact.event.envelope.at_ms
            match body:
                case r.TimerSet():
                    due[body.timer_id] = body.due_ms
                case r.TimerFired() | r.TimerCancelled():
                    word = "fired" if isinstance(body, r.TimerFired) else "cancelled"
                    if body.timer_id not in due:
                        yield of(fact, TIMERS, f"timer {body.timer_id} {word} and was never set")
                    elif body.timer_id in ended:
                        yield of(fact, TIMERS, f"timer {body.timer_id} {word} after it had ended")
                    elif isinstance(body, r.TimerFired) and now_ms < due[body.timer_id]:
                        yield of(
                            fact,
                            TIMERS,
                            f"timer {body.timer_id} fired {due[body.timer_id] - now_ms} ms early",
                        )
                    ended.add(body.timer_id)
                case r.ApprovalRequested():
                    deadlines[body.proposal_id] = body.expires_at_ms
                case r.ActivityRequested():
                    deadlines[body.activity_id] = body.deadline_ms
                    withheld[body.activity_id] = body.withheld_ms is not None
                case r.ActivityRetried() | r.ActivityReturned():
                    withheld[body.activity_id] = body.withheld_ms is not None
                    if isinstance(body, r.ActivityRetried) and body.deadline_ms is not None:
                        deadlines[body.activity_id] = body.deadline_ms
                case r.ApprovalExpired() if now_ms < deadlines.get(body.proposal_id, 0):
                    yield of(fact, TIMERS, f"proposal {body.proposal_id} expired early")
                case r.ActivityFailed() | r.ActivityUncertain() if (
                    body.failure.kind == TIMED_OUT
                    and body.failure.type not in (HEARTBEAT, STALLED)
                    and not body.worker
                    and (
                        now_ms < deadlines.get(body.activity_id, 0)
                        or withheld.get(body.activity_id, False)
                    )
                ):
                    yield of(
                        fact, TIMERS, f"activity {body.activity_id} timed out before its deadline"
                    )
                case _:
                    pass  # the others have nothing to do with time


def withdrawn(history: History) -> Iterator[Violation]:
    """23: no proposal outlives the turn that waits for it; whoever decides it later is told that it was withdrawn."""
    for facts in history.sessions.values():
        waiting: set[str] = set()
        for fact in facts:
            body = fact.event.body
            if isinstance(body, r.ApprovalRequested):
                waiting.add(body.proposal_id)
            elif isinstance(body, _DECIDED):
                waiting.discard(body.proposal_id)
            elif isinstance(body, _ENDS):
                for proposal_id in sorted(waiting):
                    told = f"proposal {proposal_id} is open, and {type(body).__name__} ends whoever waits for it"
                    yield of(fact, ONE_DECISION, told)
                waiting.clear()
