"""What follows from a command: facts, and nothing more.

Total: every command to every session has an answer, and a repeat gives no new fact. `due` comes first: before any
command, what the log's clock owes the session becomes fact, so that a decision appended before an expiry wins even
if it is read long after, and one appended later loses.
"""

from __future__ import annotations

from ..events import records as r
from ..events.evolve import failure_digest
from ..events.limits import RESULTS_BYTES_SPARE, RESULTS_SPARE
from ..events.retries import SCHEDULE_TO_CLOSE, may_retry, retry_due_ms
from ..events.state import Head, OpenActivity, SessionState, State
from . import models as m
from .check import Refusal, check, check_age, check_kept, check_room, is_repeat

ACTIVITY_ID_MAX = 32
"""Characters of `turn.step`: two counters of this session, never longer."""


def due(state: State, now_ms: int) -> r.EventBody | None:
    """The earliest fact that the log's clock owes this session at `now_ms`; none while it is held or ended."""
    if state.hold is not None or state.ended:
        return None
    facts: list[tuple[int, int, r.EventBody]] = [
        (a.deadline_ms, a.step, _timed_out(a)) for a in state.activities if a.deadline_ms <= now_ms
    ]
    facts += [
        (a.retry_due_ms, a.step, r.ActivityRetried(a.activity_id, a.attempt + 1))
        for a in state.activities
        # Past its deadline nobody waits for another attempt, and none is dispatched.
        if a.retry_due_ms is not None and a.retry_due_ms <= now_ms < a.deadline_ms
    ]
    facts += [
        (a.expires_at_ms, a.step, r.ApprovalExpired(a.proposal_id))
        for a in state.approvals
        if a.expires_at_ms <= now_ms
    ]
    facts += [
        (t.due_ms, t.step, r.TimerFired(t.timer_id, t.due_ms))
        for t in state.timers
        if t.due_ms <= now_ms
    ]
    return min(facts, key=lambda fact: fact[:2])[2] if facts else None


def decide(
    session: SessionState,
    command: m.Command,
    command_hash: bytes,
    encoded: tuple[bytes, bytes],
    now_ms: int,
) -> list[r.EventBody] | Refusal:
    """The facts that follow; a `Refusal` only where nothing may be recorded (scope).

    `encoded` is the command's fingerprint and Avro body, kept where the session is held (`keep`).
    """
    if session.state.hold is not None and not isinstance(
        command.body, m.CancelSession | m.ReleaseSession
    ):
        return keep(session.head, session.state, command, command_hash, encoded, now_ms)
    if isinstance(command.body, m.INTERNAL):
        return _internal(session.state, command.header, command.body, now_ms)
    if is_repeat(session.head, command, command_hash):
        return []
    refusal = check(session, command, command_hash, now_ms)
    return [refused(command, refusal)] if refusal else _external(session.state, command)


def keep(
    head: Head,
    state: State | None,
    command: m.Command,
    command_hash: bytes,
    encoded: tuple[bytes, bytes],
    now_ms: int,
) -> list[r.EventBody]:
    """What becomes of a command that cannot be decided now: it is kept, and `decide_parked` looks at it on release.

    A repeat and one of unknown age are not: dedupe could not tell them from the first one later, and both would run.
    """
    if isinstance(command.body, m.FireTimer):
        return []
    refusal = None
    if isinstance(command.body, m.INTERNAL):
        if state is not None:
            spare = {"spare_commands": RESULTS_SPARE, "spare_bytes": RESULTS_BYTES_SPARE}
            refusal = check_room(state, **spare)
    elif is_repeat(head, command, command_hash):
        return []
    else:
        refusal = check_age(head, command.header.issued_at_ms, now_ms) or (
            check_room(state) if state is not None else None
        )
    if refusal is not None:
        return [refused(command, refusal)]
    return [r.CommandParked(type(command.body).__name__, *encoded)]


def decide_parked(
    session: SessionState, command: m.Command, command_hash: bytes | None, at_ms: int
) -> list[r.EventBody] | Refusal:
    """The facts of a command that was kept (at `at_ms`) while the session was held; its id is in dedupe already.

    Its age is judged by when it was kept, so ordering passes; what it names must still be current. A back-off counts
    from there, too: the hold was rest enough.
    """
    if isinstance(command.body, m.INTERNAL):
        return _internal(session.state, command.header, command.body, at_ms)
    refusal = check_kept(session, command, command_hash or b"")
    return [refused(command, refusal)] if refusal else _external(session.state, command)


def refused(command: m.Command, refusal: Refusal) -> r.CommandRefused:
    """The refusal as a fact of the session."""
    return r.CommandRefused(
        type(command.body).__name__, refusal.check, refusal.reason, refusal.detail
    )


def _external(state: State, command: m.Command) -> list[r.EventBody]:
    match command.body:
        case m.SendMessage(message=message):
            return [r.MessageReceived(command.header.command_id, message)]
        case m.DecideApproval(
            proposal_id=proposal_id, digest=digest, decision="approve", comment=comment
        ):
            return [r.ApprovalGranted(proposal_id, digest, comment)]
        case m.DecideApproval(proposal_id=proposal_id, digest=digest, comment=comment):
            return [r.ApprovalRejected(proposal_id, digest, comment)]
        case m.CancelSession(reason=reason):
            return cancellation(state, reason)
        case m.ReleaseSession(reason=reason):
            return [r.SessionReleased(reason)]
        case m.OpenSession(workflow=workflow):
            return [r.SessionOpened(workflow)]
        case m.CompleteActivity() | m.FailActivity() | m.FireTimer():
            return []


def cancellation(state: State, reason: str) -> list[r.EventBody]:
    """The whole stop: nothing is dispatched from the first of these facts on."""
    return [
        r.CancellationRequested(reason),
        *(r.ApprovalWithdrawn(a.proposal_id, "the session is cancelled") for a in state.approvals),
        *(r.TimerCancelled(t.timer_id, "the session is cancelled") for t in state.timers),
        *(
            r.ActivityCancelled(a.activity_id, a.attempt, "the session is cancelled")
            for a in state.activities
        ),
        r.SessionCancelled(
            done=tuple(s.activity_id for s in state.settled if s.outcome == "completed"),
            undone=tuple(a.proposal_id for a in state.approvals),
            uncertain=tuple(a.activity_id for a in state.activities),
        ),
    ]


def _internal(
    state: State,
    header: m.CommandHeader,
    body: m.CompleteActivity | m.FailActivity | m.FireTimer,
    now_ms: int,
) -> list[r.EventBody] | Refusal:
    if isinstance(body, m.FireTimer):
        return []  # a nudge: whatever is due became fact before this command was looked at
    running = next((a for a in state.activities if a.activity_id == body.activity_id), None)
    if running is not None and _awaited(running, body.attempt):
        if isinstance(body, m.CompleteActivity):
            return [r.ActivityCompleted(body.activity_id, body.attempt, body.result, body.worker)]
        return [_failed(running, header, body, now_ms)]
    digest = (
        body.result.digest if isinstance(body, m.CompleteActivity) else failure_digest(body.failure)
    )
    for settled in state.settled:
        if (settled.activity_id, settled.attempt, settled.digest) == (
            body.activity_id,
            body.attempt,
            digest,
        ):
            return []  # the same result once more: its worker did not see the first acknowledged
    newest = _newest(running) if running is not None else body.attempt
    if body.attempt > newest or not _ever_requested(state, body.activity_id):
        told = f"activity {body.activity_id!r}, attempt {body.attempt} was never dispatched in this session"
        return Refusal("scope", "unknown_activity", told)
    return [_late(body)]


def _awaited(running: OpenActivity, attempt: int) -> bool:
    """The fence: only the newest attempt counts, and only until it has failed."""
    return running.attempt == attempt and running.retry_due_ms is None


def _newest(running: OpenActivity) -> int:
    """The highest attempt that can be told of: a scheduled one is not dispatched yet, but granted."""
    return running.attempt if running.retry_due_ms is None else running.attempt + 1


def _failed(
    running: OpenActivity, header: m.CommandHeader, body: m.FailActivity, now_ms: int
) -> r.ActivityRetryScheduled | r.ActivityFailed:
    """Another attempt, if the policy of the request has one left before the deadline; else the end."""
    policy = running.retry
    if policy is not None and may_retry(policy, body.attempt, body.failure):
        name = f"{header.tenant}/{header.session_id}/{body.activity_id}#{body.attempt}"
        due_ms = retry_due_ms(policy, body.attempt, body.failure, now_ms=now_ms, name=name)
        if due_ms < running.deadline_ms:
            return r.ActivityRetryScheduled(
                body.activity_id, body.attempt + 1, due_ms, body.failure, body.worker
            )
    return r.ActivityFailed(body.activity_id, body.attempt, body.failure, body.worker)


def _late(body: m.CompleteActivity | m.FailActivity) -> r.LateResultRecorded:
    if isinstance(body, m.CompleteActivity):
        return r.LateResultRecorded(
            body.activity_id, body.attempt, "completed", body.result, None, body.worker
        )
    return r.LateResultRecorded(
        body.activity_id, body.attempt, "failed", None, body.failure, body.worker
    )


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


def _timed_out(activity: OpenActivity) -> r.ActivityFailed:
    told = f"no result for {activity.name} before its schedule-to-close deadline at {activity.deadline_ms}"
    failure = r.Failure(kind="timed_out", type=SCHEDULE_TO_CLOSE, message=told, detail="")
    return r.ActivityFailed(activity.activity_id, activity.attempt, failure, worker="")
