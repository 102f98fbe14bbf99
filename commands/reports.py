"""What follows from a worker's report, and from its silence: results, failures, retries, doubt.

The fence: only the newest attempt of an open activity counts, and only until it has failed. A report of another is
recorded as late, once. Where a contract forbids to run again and nobody knows whether the tool did its work, the
activity is uncertain, which is a wait: its own late result, or a person, ends it.
"""

from __future__ import annotations

from ..events import records as r
from ..events.contracts import IDEMPOTENT, ONCE
from ..events.evolve_activities import failure_digest
from ..events.failures import (
    FORBIDDEN,
    HEARTBEAT,
    NOTHING_DONE,
    SCHEDULE_TO_CLOSE,
    STALLED,
    STOPPED,
    TIMED_OUT,
    UNAPPROVED,
)
from ..events.retries import leaves_doubt, may_retry, retry_due_ms
from ..events.state import OpenActivity, State
from ..events.verdicts import COMPLETED, FAILED
from . import models as m
from . import resources
from .check import Refusal

ACTIVITY_ID_MAX = 32
"""Characters of `turn.step`: two counters of this session, never longer."""

RETURNS_MAX = 100
"""Times that an activity is dispatched again because workers gave it back; then it fails, as nobody takes it."""

Report = m.CompleteActivity | m.FailActivity | m.HeartbeatActivity | m.ReturnActivity | m.FireTimer


def report(
    state: State, header: m.CommandHeader, body: Report, now_ms: int
) -> list[r.EventBody] | Refusal:
    """The facts that follow; none for a repeat, and for a sign of life that says nothing new."""
    if isinstance(body, m.FireTimer):
        return []  # a nudge: whatever is due became fact before this command was looked at
    running = next((a for a in state.activities if a.activity_id == body.activity_id), None)
    if running is not None and running.runs(body.attempt):
        return _of_running(state, running, header, body, now_ms)
    newest = _newest(running) if running is not None else body.attempt
    if body.attempt > newest or not _ever_requested(state, body.activity_id):
        told = f"activity {body.activity_id!r}, attempt {body.attempt} was never dispatched in this session: "
        told += "report an attempt that a task named, to the session it named"
        return Refusal("scope", "unknown_activity", told)
    if isinstance(body, m.HeartbeatActivity):
        return []  # of an attempt that is over: nothing hangs on it
    if isinstance(body, m.ReturnActivity):
        return _given_back(state, body)
    return _late(state, body)


def timed_out(activity: OpenActivity) -> r.ActivityFailed | r.ActivityUncertain:
    """The end of an activity at its deadline."""
    told = f"no result for {activity.name} before its schedule-to-close deadline at {activity.deadline_ms}"
    failure = r.Failure(kind=TIMED_OUT, type=SCHEDULE_TO_CLOSE, message=told, detail="")
    rests = activity.retry_due_ms is not None
    unknown = activity.doubtful and activity.contract != IDEMPOTENT  # which may run again
    doubt = unknown if rests else leaves_doubt(activity, failure)
    return _ended(activity, activity.attempt, failure, "", doubt=doubt)


def unapproved(activity: OpenActivity) -> r.ActivityFailed | r.ActivityUncertain:
    """The end of an activity that policy wanted approved, and nobody did, or that it forbids whoever approves."""
    told = f"{activity.name} was not carried out: {activity.denied}"
    if activity.doubtful:
        told = f"an attempt of {activity.name} may have been carried out, and it is not called again: {activity.denied}"
    kind = FORBIDDEN if activity.forbidden else UNAPPROVED
    failure = r.Failure(kind=kind, type="", message=told, detail="")
    return _ended(activity, activity.attempt, failure, "", doubt=activity.doubtful)


def fell_silent(activity: OpenActivity, session: str, now_ms: int) -> r.EventBody:
    """What follows when an attempt has not been heard of for its heartbeat interval, which ended at `now_ms`."""
    told = f"no heartbeat of {activity.name} for {activity.heartbeat_ms} ms"
    failure = r.Failure(kind=TIMED_OUT, type=HEARTBEAT, message=told, detail="")
    return _failed(activity, session, failure, "", now_ms)


def given_up(activity: OpenActivity, session: str, told: str, now_ms: int) -> r.EventBody:
    """What follows when somebody says that an attempt, which runs, has stalled."""
    failure = r.Failure(kind=TIMED_OUT, type=STALLED, message=told, detail="")
    return _failed(activity, session, failure, "", now_ms)


def _of_running(
    state: State, running: OpenActivity, header: m.CommandHeader, body: Report, now_ms: int
) -> list[r.EventBody]:
    match body:
        case m.CompleteActivity():
            return [
                r.ActivityCompleted(
                    body.activity_id, body.attempt, body.result, body.worker, body.recovered
                )
            ]
        case m.FailActivity():
            session = f"{header.tenant}/{header.session_id}"
            failed = _failed(running, session, body.failure, body.worker, now_ms)
            return [*resources.lost(state, running, body.failure), failed]
        case m.HeartbeatActivity():
            return _beaten(running, body)
        case m.ReturnActivity():
            return [_returned(running, body)]
        case m.FireTimer():
            return []


def _beaten(running: OpenActivity, body: m.HeartbeatActivity) -> list[r.EventBody]:
    """The first beat is a fact, since a new owner must know whose silence counts; so is news of progress."""
    facts: list[r.EventBody] = []
    if running.heartbeat_ms is not None and not running.started:
        facts.append(r.ActivityStarted(body.activity_id, body.attempt, body.worker))
    told = running.progress.digest if running.progress is not None else None
    if body.progress is not None and body.progress.digest != told:
        facts.append(
            r.ActivityProgressed(body.activity_id, body.attempt, body.progress, body.worker)
        )
    return facts


def _returned(running: OpenActivity, body: m.ReturnActivity) -> r.EventBody:
    if running.returned < RETURNS_MAX:
        return r.ActivityReturned(body.activity_id, body.attempt, body.reason, body.worker)
    told = (
        f"{running.name} was given back {RETURNS_MAX} times, the last time because: {body.reason}"
    )
    failure = r.Failure(kind="returned", type="", message=told, detail="")
    doubt = running.doubtful and running.contract != IDEMPOTENT
    return _ended(running, body.attempt, failure, body.worker, doubt=doubt)


def _failed(
    running: OpenActivity, session: str, failure: r.Failure, worker: str, now_ms: int
) -> r.EventBody:
    """Another attempt, if the policy of the request has one left before the deadline; else the end."""
    doubt = leaves_doubt(running, failure)
    counted = running.attempt - running.returned
    policy = running.retry
    if (
        policy is not None
        and may_retry(policy, counted, failure)
        and not (doubt and running.contract in ONCE)
    ):
        name = f"{session}/{running.activity_id}#{running.attempt}"
        due_ms = retry_due_ms(policy, counted, failure, now_ms=now_ms, name=name)
        if due_ms < running.deadline_ms:
            return r.ActivityRetryScheduled(
                running.activity_id, running.attempt + 1, due_ms, failure, worker
            )
    return _ended(running, running.attempt, failure, worker, doubt=doubt)


def _ended(
    activity: OpenActivity, attempt: int, failure: r.Failure, worker: str, *, doubt: bool
) -> r.ActivityFailed | r.ActivityUncertain:
    end = r.ActivityUncertain if doubt else r.ActivityFailed
    return end(activity.activity_id, attempt, failure, worker)


def _newest(running: OpenActivity) -> int:
    """The highest attempt that can be told of: a scheduled one is not dispatched yet, but granted."""
    if running.withheld_ms is not None:
        return running.attempt - 1
    return running.attempt if running.retry_due_ms is None else running.attempt + 1


def _late(state: State, body: m.CompleteActivity | m.FailActivity) -> list[r.EventBody]:
    """A report of an attempt that is over: a repeat, the end of a doubt, or evidence and no more."""
    attempt = (body.activity_id, body.attempt)
    doubtful = any((u.activity_id, u.attempt) == attempt for u in state.uncertain)
    if isinstance(body, m.CompleteActivity):
        if _known(state, (*attempt, body.result.digest)):
            return []
        if doubtful:
            return [r.ActivityCompleted(*attempt, body.result, body.worker, body.recovered)]
        return [r.LateResultRecorded(*attempt, COMPLETED, body.result, None, body.worker)]
    if _known(state, (*attempt, failure_digest(body.failure))):
        return []
    if body.failure.kind == STOPPED and not _is_watched(state, *attempt):
        return []
    if doubtful and body.failure.kind == NOTHING_DONE:
        return [r.ActivityFailed(*attempt, body.failure, body.worker)]
    return [r.LateResultRecorded(*attempt, FAILED, None, body.failure, body.worker)]


def _given_back(state: State, body: m.ReturnActivity) -> list[r.EventBody]:
    """Evidence where its effect would be taken back; of any other attempt that is over nothing hangs on it."""
    if not _is_watched(state, body.activity_id, body.attempt):
        return []
    failure = r.Failure(kind=NOTHING_DONE, type="", message=body.reason, detail="")
    return [
        r.LateResultRecorded(body.activity_id, body.attempt, FAILED, None, failure, body.worker)
    ]


def _is_watched(state: State, activity_id: str, attempt: int) -> bool:
    """Whether it matters what became of this attempt, though nobody waits for it: its effect may have to be taken back."""
    return any(
        (one.activity_id, one.attempt) == (activity_id, attempt) and one.over_by_ms is not None
        for one in state.registered
    )


def _known(state: State, report: tuple[str, int, bytes]) -> bool:
    """Whether it is the same once more: its worker did not see the first acknowledged."""
    return any((s.activity_id, s.attempt, s.digest) == report for s in state.settled)


def _ever_requested(state: State, activity_id: str) -> bool:
    """Whether the id (`turn.step`) lies in what this session has run so far."""
    if len(activity_id) > ACTIVITY_ID_MAX:
        return False
    turn, _, step = activity_id.partition(".")
    if not (turn.isascii() and turn.isdigit() and step.isascii() and step.isdigit()):
        return False
    return (
        1 <= int(turn) <= state.turn
        and int(step) >= 1
        and (int(turn) < state.turn or int(step) <= state.steps)
    )
