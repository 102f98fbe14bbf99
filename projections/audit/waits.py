"""Checks of timers and approvals: not early, once, and nothing runs that was not approved as it runs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ...events import records as r
from ...events.failures import HEARTBEAT, TIMED_OUT
from ...events.verdicts import GRANTED
from .evidence import Violation
from .history import At, Fact, History, cause_of, of
from .invariants import DECISION_BINDS, NO_UNAPPROVED_START, ONE_DECISION, TIMERS


def timers(history: History) -> Iterator[Violation]:
    """21: a timer fires at most once, after it was set, and nothing expires early on the log's clock."""
    for facts in history.sessions.values():
        due: dict[str, int] = {}
        ended: set[str] = set()
        deadlines: dict[str, int] = {}
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
                case r.ApprovalExpired() if now_ms < deadlines.get(body.proposal_id, 0):
                    yield of(fact, TIMERS, f"proposal {body.proposal_id} expired early")
                case r.ActivityFailed() | r.ActivityUncertain() if (
                    body.failure.kind == TIMED_OUT
                    and body.failure.type != HEARTBEAT
                    and not body.worker
                    and now_ms < deadlines.get(body.activity_id, 0)
                ):
                    yield of(
                        fact, TIMERS, f"activity {body.activity_id} timed out before its deadline"
                    )
                case _:
                    pass  # the others have nothing to do with time


@dataclass(slots=True)
class _Proposal:
    asked: r.ApprovalRequested
    decision: str | None = None
    used_by: str | None = None


def approvals(history: History) -> Iterator[Violation]:
    """23, 24 and 26: decided once, bound to its digest, and run only as approved, once, in time."""
    for facts in history.sessions.values():
        proposals: dict[str, _Proposal] = {}
        kept_ms: dict[At, int] = {}
        for fact in facts:
            body, envelope = fact.event.body, fact.event.envelope
            match body:
                case r.CommandParked():
                    kept_ms.setdefault(cause_of(fact), envelope.at_ms)
                case r.ApprovalRequested():
                    if body.proposal_id in proposals:
                        yield of(
                            fact, ONE_DECISION, f"proposal {body.proposal_id} is requested twice"
                        )
                    proposals[body.proposal_id] = _Proposal(body)
                case (
                    r.ApprovalGranted()
                    | r.ApprovalRejected()
                    | r.ApprovalExpired()
                    | r.ApprovalWithdrawn()
                ):
                    # A decision that was kept while the session was held counts from when it came.
                    came_ms = kept_ms.get(cause_of(fact), envelope.at_ms)
                    yield from _decision(fact, body, proposals.get(body.proposal_id), came_ms)
                case r.ActivityRequested():
                    yield from _start(fact, body, proposals)
                case _:
                    pass  # the others neither decide nor start anything


def _decision(
    fact: Fact,
    body: r.ApprovalGranted | r.ApprovalRejected | r.ApprovalExpired | r.ApprovalWithdrawn,
    proposal: _Proposal | None,
    came_ms: int,
) -> Iterator[Violation]:
    word = type(body).__name__
    if proposal is None:
        yield of(
            fact, ONE_DECISION, f"{word} for proposal {body.proposal_id}, which was never requested"
        )
        return
    if proposal.decision is not None:
        told = f"proposal {body.proposal_id} is decided twice: {proposal.decision}, then {word}"
        yield of(fact, ONE_DECISION, told)
        return
    proposal.decision = word
    if isinstance(body, r.ApprovalGranted | r.ApprovalRejected):
        if body.digest != proposal.asked.digest:
            yield of(
                fact,
                DECISION_BINDS,
                f"{word} names another digest than proposal {body.proposal_id}",
            )
        late_ms = came_ms - proposal.asked.expires_at_ms
        if late_ms >= 0:
            yield of(
                fact,
                NO_UNAPPROVED_START,
                f"proposal {body.proposal_id} was decided {late_ms} ms after it expired",
            )


def _start(
    fact: Fact, body: r.ActivityRequested, proposals: dict[str, _Proposal]
) -> Iterator[Violation]:
    if body.proposal_id is None:
        if body.approval == GRANTED:
            yield of(
                fact,
                NO_UNAPPROVED_START,
                f"activity {body.activity_id} says it is granted and names no proposal",
            )
        elif body.approval == "none":
            for proposal in proposals.values():
                if proposal.asked.digest == body.digest and proposal.asked.turn == body.turn:
                    told = f"activity {body.activity_id} runs ungated what {proposal.asked.proposal_id} proposes"
                    yield of(fact, NO_UNAPPROVED_START, told)
        return
    found = proposals.get(body.proposal_id)
    if found is None or found.decision != "ApprovalGranted":
        stands = "unknown" if found is None else found.decision or "open"
        yield of(
            fact,
            NO_UNAPPROVED_START,
            f"activity {body.activity_id} runs on proposal {body.proposal_id}, which is {stands}",
        )
        return
    if found.asked.digest != body.digest:
        yield of(
            fact,
            DECISION_BINDS,
            f"activity {body.activity_id} runs another action than {body.proposal_id} approved",
        )
    if found.used_by is not None:
        yield of(
            fact,
            NO_UNAPPROVED_START,
            f"proposal {body.proposal_id} was used by {found.used_by} and again by {body.activity_id}",
        )
    found.used_by = body.activity_id
