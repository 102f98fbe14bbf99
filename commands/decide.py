"""What follows from a command: facts, and nothing more.

Total: every command to every session has an answer, and a repeat gives no new fact. `due` comes first: before any
command, what the log's clock owes the session becomes fact, so that a decision appended before an expiry wins even
if it is read long after, and one appended later loses.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..events import records as r
from ..events.due import silent_from
from ..events.limits import INBOX_BYTES_MAX, RESULTS_BYTES_SPARE, RESULTS_SPARE
from ..events.state import MESSAGE, Head, SessionState, State
from ..events.verdicts import EXPIRED
from . import children, compensating, decisions, jobs, recovering, repairs, resources, runs
from . import models as m
from .check import (
    Refusal,
    check,
    check_age,
    check_kept,
    check_room,
    check_scope,
    is_repeat,
    queued_bytes,
)
from .decisions import Proposals, refused
from .reports import fell_silent, given_up, report, timed_out, unapproved


def due(
    state: State, now_ms: int, *, beats: Mapping[str, int] | None = None, session: str = ""
) -> r.EventBody | None:
    """The earliest fact that the log's clock owes this session at `now_ms`; none while it is held or ended.

    `beats` are the last heartbeats by activity (one that is not there is taken as fresh); `session` is the key, which
    draws the jitter of a back-off.
    """
    if state.hold is not None or state.ended:
        return None
    facts: list[tuple[int, int, r.EventBody]] = [
        (a.deadline_ms, a.step, timed_out(a))
        for a in state.activities
        if a.deadline_ms <= now_ms and a.withheld_ms is None
    ]
    facts += [
        (a.retry_due_ms, a.step, r.ActivityRetried(a.activity_id, a.attempt + 1))
        for a in state.activities
        # Past its deadline nobody waits for another attempt, and none is dispatched.
        if a.retry_due_ms is not None and a.retry_due_ms <= now_ms < a.deadline_ms
    ]
    facts += [
        (silent_ms, a.step, fell_silent(a, session, silent_ms))
        for a in state.activities
        if a.started and (silent_ms := silent_from(a, beats or {}, now_ms)) <= now_ms
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
    facts += [
        (j.expires_at_ms, j.step, r.JobExpired(j.job_id))
        for j in state.jobs
        if j.expires_at_ms <= now_ms
    ]
    facts += [
        (c.expires_at_ms, c.step, r.ChildExpired(c.child_id))
        for c in state.children
        if c.expires_at_ms <= now_ms
    ]
    facts += [
        (h.expires_at_ms, h.step, r.ResourceExpired(h.resource_id, h.kind, EXPIRED))
        for h in state.resources
        if h.expires_at_ms <= now_ms and not h.gone
    ]
    return min(facts, key=lambda fact: fact[:2])[2] if facts else None


def decide(
    session: SessionState,
    command: m.Command,
    command_hash: bytes,
    encoded: tuple[bytes, bytes],
    now_ms: int,
    proposals: Proposals,
) -> list[r.EventBody] | Refusal:
    """The facts that follow; a `Refusal` only where nothing may be recorded (scope).

    `encoded` is the command's fingerprint and Avro body, kept where the session is held (`keep`). `proposals` are what
    the shell knows of those that are open, where the command is about them.
    """
    stranger = check_scope(command)
    if stranger is not None:
        return stranger
    if isinstance(command.body, m.StartChild | m.CancelChild):
        return _from_its_parent(session.state, command.body)
    if session.state.hold is not None and not isinstance(command.body, m.REPAIRS):
        return keep(session.head, session.state, command, command_hash, encoded, now_ms)
    if isinstance(command.body, m.INTERNAL):
        return _reported(session.state, command.header, command.body, now_ms)
    if is_repeat(session.head, command, command_hash):
        return []
    refusal = check(session, command, command_hash, now_ms)
    return (
        [refused(command, refusal)]
        if refusal
        else _external(session.state, command, proposals, now_ms)
    )


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
    if isinstance(command.body, m.FireTimer | m.HeartbeatActivity):
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
    session: SessionState,
    command: m.Command,
    command_hash: bytes | None,
    at_ms: int,
    proposals: Proposals,
) -> list[r.EventBody] | Refusal:
    """The facts of a command that was kept (at `at_ms`) while the session was held; its id is in dedupe already.

    Its age is judged by when it was kept, so ordering passes; what it names must still be current, and who decides must
    be one who may now. A back-off counts from there, too: the hold was rest enough.
    """
    if isinstance(command.body, m.INTERNAL):
        return _reported(session.state, command.header, command.body, at_ms)
    refusal = check_kept(session, command, command_hash or b"")
    return (
        [refused(command, refusal)]
        if refusal
        else _external(session.state, command, proposals, at_ms)
    )


def _reported(
    state: State, header: m.CommandHeader, body: m.CommandBody, now_ms: int
) -> list[r.EventBody] | Refusal:
    """What a worker, the owner itself, or that of a child has to tell."""
    match body:
        case m.EndChild():
            return children.ended(state, body)
        case m.StartChild() | m.CancelChild():
            return _from_its_parent(state, body)
        case (
            m.CompleteActivity()
            | m.FailActivity()
            | m.HeartbeatActivity()
            | m.ReturnActivity()
            | m.FireTimer()
        ):
            return report(state, header, body, now_ms)
        case _:
            raise TypeError(f"{type(body).__name__} is asked for, and not reported")


def _from_its_parent(
    state: State, body: m.StartChild | m.CancelChild
) -> list[r.EventBody] | Refusal:
    """What becomes of a child that is there. Held, it is cancelled all the same; one that ends already goes on with that."""
    if isinstance(body, m.StartChild):
        refused = children.why_not_again(state, body)
        return [] if refused is None else Refusal(*refused)
    if not children.is_its_child(state, body):
        told = f"{body.parent_id[: children.SHOWN_MAX]!a} did not open this session: cancel it as a person would"
        return Refusal("scope", "not_its_child", told)
    if state.ended or state.undoing is not None:
        return []
    return cancellation(state, body.reason)


def _external(
    state: State, command: m.Command, proposals: Proposals, now_ms: int
) -> list[r.EventBody]:
    match command.body:
        case m.SendMessage(message=message):
            return [r.MessageReceived(command.header.command_id, message)]
        case m.DecideApproval() as decision:
            return decisions.decided(state, command, decision, proposals)
        case m.ChangeArtifact() as change:
            return decisions.changed(state, command, change, proposals)
        case m.CancelSession(reason=reason):
            return cancellation(state, reason)
        case m.ReleaseSession(reason=reason):
            return [r.SessionReleased(reason)]
        case m.ResetSession() as reset:
            return [repairs.reset(state, reset)]
        case m.PinSession(version=version, reason=reason):
            return [r.SessionPinned(version, reason)]
        case m.OpenSession(workflow=workflow, attributes=attributes):
            return [r.SessionOpened(workflow, attributes)]
        case m.ResolveActivity() as resolving:
            return [_resolved(state, resolving)]
        case m.SendSignal(name=name, data=data):
            return [r.SignalReceived(command.header.command_id, name, data)]
        case m.RecoverSession() as asked:
            return _recovered(state, command.header, asked, now_ms)
        case m.CompleteJob() as completing:
            return [jobs.completed(completing)]
        case m.StartTurn(trigger=trigger, reason=reason, data=data):
            return [r.TriggerReceived(command.header.command_id, trigger, reason, data)]
        case m.StartRun() as run:
            return [runs.received(command.header.command_id, run)]
        case (
            m.CompleteActivity()
            | m.FailActivity()
            | m.HeartbeatActivity()
            | m.ReturnActivity()
            | m.FireTimer()
            | m.StartChild()
            | m.EndChild()
            | m.CancelChild()
        ):
            return []


def _recovered(
    state: State, header: m.CommandHeader, body: m.RecoverSession, now_ms: int
) -> list[r.EventBody]:
    if not body.activity_id:
        return recovering.session_recovered(state, body)
    running = next(a for a in state.activities if a.activity_id == body.activity_id)
    told = f"{header.actor} gave attempt {body.attempt} of {running.name} up as stalled"
    told += f": {body.reason}" if body.reason else ""
    key = f"{header.tenant}/{header.session_id}"
    return [
        r.RecoveryRequested(body.activity_id, body.attempt, body.reason),
        given_up(running, key, told, now_ms),
    ]


def _resolved(state: State, body: m.ResolveActivity) -> r.ActivityResolved:
    attempts = (u.attempt for u in state.uncertain if u.activity_id == body.activity_id)
    return r.ActivityResolved(
        body.activity_id, next(attempts, 1), body.resolution, body.result, body.comment
    )


def cancellation(state: State, reason: str) -> list[r.EventBody]:
    """The whole stop; see `compensating.stop`."""
    let_go = withdrawals(state, "the session is cancelled")
    return compensating.stop(state, reason, [*let_go, *resources.ended(state)])


def withdrawals(state: State, told: str) -> list[r.EventBody]:
    """The end of all that is still open, where nobody waits for it any more; of children see `children.withdrawals`."""
    return [
        *(r.ApprovalWithdrawn(a.proposal_id, told) for a in state.approvals),
        *(r.TimerCancelled(t.timer_id, told) for t in state.timers),
        *(r.WaitWithdrawn(receive.wait_id, told) for receive in state.receives),
        *(r.JobWithdrawn(job.job_id, told) for job in state.jobs),
        *(
            r.ActivityCancelled(activity_id, attempt, told)
            for activity_id, attempt in compensating.running(state)
        ),
    ]


def _oldest(state: State) -> tuple[r.TakenMessage, ...]:
    """The messages that one look into the inbox takes: all, or as many as one event can hold."""
    taken: list[r.TakenMessage] = []
    size = 0
    for queued in state.queue:
        if queued.trigger != MESSAGE:
            continue
        size += queued_bytes(queued)
        if taken and size > INBOX_BYTES_MAX:
            break
        taken.append(r.TakenMessage(queued.message_id, queued.actor, queued.message))
    return tuple(taken)


def deliverable(state: State) -> r.EventBody | None:
    """What the session has kept and its turn waits to receive: the next fact, once nothing else follows from the last.

    That is a signal or message, and what became of an activity that waited for an approval.

    Asked only between activations of the workflow, so that a replay, which is fed one fact at a time, meets the same.
    """
    if state.hold is not None or state.ended:
        return None
    for activity in state.activities:
        if activity.denied:
            return unapproved(activity)
        if activity.withheld_ms is not None and activity.grant is not None:
            return r.ActivityRetried(activity.activity_id, activity.attempt)
    for receive in state.receives:
        if receive.kind == "signal":
            for signal in state.signals:
                if signal.name == receive.name:
                    return r.SignalDelivered(receive.wait_id, signal.signal_id, signal.data)
            continue
        taken = _oldest(state)
        if taken or not receive.wait:
            return r.InboxTaken(receive.wait_id, taken)
    return None
