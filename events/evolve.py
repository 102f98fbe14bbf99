"""What each fact means: the two folds over a session's events.

`fold_head` reads envelopes only and never fails. `evolve` reads bodies; it takes no decisions, and raises
`Unfoldable` where a history cannot be (then the session is held, not the partition).
"""

from __future__ import annotations

from . import evolve_activities as activities
from . import evolve_approvals as approvals
from . import evolve_children as children
from . import evolve_compensations as compensations
from . import evolve_jobs as jobs
from . import evolve_receiving as receiving
from . import evolve_repairs as repairs
from . import evolve_resources as resources
from . import records as r
from . import state as s
from .errors import InvalidPayload, Unfoldable
from .replacing import replace
from .sharing import expanded
from .state import Head, SeenCommand, State, Status
from .transitions import targets

Holding = (
    r.NondeterminismFound
    | r.SessionHeld
    | r.CommandParked
    | r.SessionReleased
    | r.SessionReset
    | r.SessionPinned
    | r.RecoveryRequested
)
Obligated = (
    approvals.Proposed | jobs.Job | children.Child | r.TimerSet | r.TimerFired | r.TimerCancelled
)


def fold_head(head: Head, envelope: r.Envelope, event_hash: bytes) -> Head:
    """Position, chain, clock and dedupe after one more event. Total: any envelope folds."""
    cause = envelope.cause
    dedupe, floor_ms = head.dedupe, head.dedupe_floor_ms
    if cause.command_hash is not None and cause.issued_at_ms is not None:
        seen = SeenCommand(cause.command_id, cause.command_hash, cause.issued_at_ms)
        dedupe, floor_ms = _remember(dedupe, floor_ms, seen, envelope.at_ms)
    return Head(
        seq=envelope.seq,
        hash=event_hash,
        now_ms=max(head.now_ms, envelope.at_ms),
        cause_offset=max(head.cause_offset, cause.offset),
        versions_seq=envelope.versions_seq,
        dedupe=dedupe,
        dedupe_floor_ms=floor_ms,
    )


def _remember(
    dedupe: tuple[SeenCommand, ...], floor_ms: int, seen: SeenCommand, now_ms: int
) -> tuple[tuple[SeenCommand, ...], int]:
    """Adds one command; what is dropped, for age or for room, raises the floor above its issue time."""
    if dedupe and dedupe[-1].command_id == seen.command_id:
        return dedupe, floor_ms  # the usual repeat: several events of one command
    if any(known.command_id == seen.command_id for known in dedupe):
        return dedupe, floor_ms
    if seen.issued_at_ms < floor_ms:
        return dedupe, floor_ms  # refused as too old; the floor itself remembers it
    if seen.issued_at_ms > now_ms + s.CLOCK_SKEW_MS:
        # Refused as from the future: it would never age, and crowd the others out.
        return dedupe, floor_ms
    dedupe = (*dedupe, seen)
    oldest_ms = now_ms - s.DEDUPE_MS
    if any(known.issued_at_ms < oldest_ms for known in dedupe):
        dedupe = tuple(known for known in dedupe if known.issued_at_ms >= oldest_ms)
        floor_ms = max(floor_ms, oldest_ms)
    if len(dedupe) > s.DEDUPE_MAX:
        oldest = min(dedupe, key=lambda known: known.issued_at_ms)
        floor_ms = max(floor_ms, oldest.issued_at_ms + 1)
        dedupe = tuple(known for known in dedupe if known.issued_at_ms >= floor_ms)
    return dedupe, floor_ms


def evolve(state: State | None, event: r.Event) -> State:
    """The state after one more fact; `Unfoldable` where the lifecycle has no such arrow."""
    body = event.body
    allowed = targets(state.status if state else None, type(body))
    if not allowed and state is not None and isinstance(body, r.SessionHeld):
        return state  # said by a version that could not read this history: it was held, or had ended, before
    if not allowed:
        raise _cannot_follow(state, event)
    if state is None:
        return _opened(body)
    status = allowed[0]
    # Most facts are an activity's, and a `match` asks for one class after another: a fortieth of a processor's time.
    if isinstance(body, activities.Active):
        return compensations.follow(state, activities.evolve(state, status, body), event)
    if isinstance(body, resources.Resource):
        return resources.evolve(state, body, event.envelope.on_behalf_of)
    match body:
        case r.TurnStarted():
            return _turn_started(state, body)
        case r.TurnContinued():
            return _continued(state, body)
        case r.ReplySent() | r.VersionMarked() | r.RunStarted():
            return replace(state, steps=body.step)
        case r.ArtifactRecorded():
            return replace(_relied_on(state, body), steps=body.step)
        case r.AttributesSet():
            return replace(state, attributes=body.attributes, steps=body.step)
        case r.ArtifactChanged():
            return _relied_on(state, body)
        case r.TurnCompleted():
            left = _left(state, body.state)
            return repairs.left(_turn_ended(state, status, left), left)
        case r.SessionCompleted() | r.SessionFailed() | r.SessionCancelled():
            return _ended(state, status)
        case r.SessionWaiting():
            return replace(state, status=status)
        case r.CancellationRequested() | r.CommandRefused():
            return state
        case r.LateResultRecorded():
            return compensations.follow(state, state, event)
        case r.CompensationStarted():
            return compensations.started(state, status, body)
        case r.CompensationsReleased():
            return compensations.released(state, body)
        case (
            r.NondeterminismFound()
            | r.SessionHeld()
            | r.CommandParked()
            | r.SessionReleased()
            | r.SessionReset()
            | r.SessionPinned()
            | r.RecoveryRequested()
        ):
            return _evolve_hold(state, status, body, event.envelope)
        case r.SessionOpened():
            raise Unfoldable(f"the session is open already (seq {event.envelope.seq})")
        case (
            r.MessageReceived()
            | r.TriggerReceived()
            | r.SignalReceived()
            | r.SignalAwaited()
            | r.SignalDelivered()
            | r.InboxAwaited()
            | r.InboxTaken()
            | r.WaitWithdrawn()
        ):
            return receiving.evolve(state, status, body, event.envelope.actor)
        case _:
            return _evolve_obligation(state, status, body, event.envelope.actor)


def _evolve_hold(state: State, status: str, body: Holding, envelope: r.Envelope) -> State:
    """What a fact means for a session that cannot go on, or is mended by an operator."""
    match body:
        case r.NondeterminismFound():
            return replace(state, status=status, hold=_diverged(body))
        case r.SessionHeld():
            held = replace(state, status=status, hold=s.Hold(body.reason, body.detail))
            return compensations.held(held)
        case r.CommandParked():
            return replace(state, parked=(*state.parked, _parked(body, envelope)))
        case r.SessionReleased():
            return replace(state, status=_released(state), hold=None, parked=(), recoveries=0)
        case r.SessionReset():
            return repairs.reset(state, status, body)
        case r.SessionPinned():
            return repairs.pinned(state, body)
        case r.RecoveryRequested():
            return replace(state, recoveries=state.recoveries + (not body.activity_id))


def _cannot_follow(state: State | None, event: r.Event) -> Unfoldable:
    standing, name = state.status if state else "no session", type(event.body).__name__
    return Unfoldable(f"{name} cannot follow {standing} (seq {event.envelope.seq})")


def _diverged(body: r.NondeterminismFound) -> s.Hold:
    told = f"at turn {body.turn}, step {body.step}: history holds {body.expected}, the code gave {body.actual}"
    return s.Hold("nondeterminism", told)


def _left(state: State, left: r.Payload) -> r.Payload:
    """The state as a whole: what the fact leaves out of it stands in the one before."""
    try:
        return expanded(left, state.data)
    except InvalidPayload as error:
        raise Unfoldable(error.message) from error


def _continued(state: State, body: r.TurnContinued) -> State:
    return replace(
        state,
        data=_left(state, body.state),
        data_version=state.workflow_version,
        steps=body.steps,
        recoveries=0,
        grants=(),
        attributes_before=state.attributes,
        resources_before=state.resources,
    )


def _evolve_obligation(state: State, status: str, body: Obligated, actor: str) -> State:
    """What a fact means for what the session owes or awaits."""
    match body:
        case r.TimerSet():
            timer = s.OpenTimer(body.timer_id, body.step, body.due_ms)
            return replace(state, timers=(*state.timers, timer), steps=body.step)
        case r.TimerFired() | r.TimerCancelled():
            left = tuple(t for t in state.timers if t.timer_id != body.timer_id)
            return replace(state, status=status, timers=left)
        case r.JobAwaited() | r.JobCompleted() | r.JobFailed() | r.JobExpired() | r.JobWithdrawn():
            return jobs.evolve(state, status, body, actor)
        case (
            r.ChildStarted()
            | r.ChildCompleted()
            | r.ChildFailed()
            | r.ChildCancelled()
            | r.ChildExpired()
            | r.ChildWithdrawn()
            | r.LateChildRecorded()
        ):
            return children.evolve(state, status, body)
        case _:
            return approvals.evolve(state, status, body, actor)


def _opened(body: r.EventBody) -> State:
    if not isinstance(body, r.SessionOpened):
        raise Unfoldable(f"{type(body).__name__} cannot be a session's first event")
    return State(
        workflow=body.workflow,
        attributes=body.attributes,
        parent=body.parent,
        tainted_by=body.tainted_by,
    )


def _turn_started(state: State, body: r.TurnStarted) -> State:
    message, queue = None, state.queue
    if body.message_id is not None:
        if not queue or queue[0].message_id != body.message_id:
            raise Unfoldable(
                f"turn {body.turn} takes message {body.message_id!r}, which is not first in the queue"
            )
        message, queue = queue[0], queue[1:]
    return replace(
        state,
        status=Status.RUNNING,
        turn=body.turn,
        steps=0,
        recoveries=0,
        workflow_version=body.workflow_version,
        versions=body.versions,
        message=message,
        queue=queue,
        attributes_before=state.attributes,
        resources_before=state.resources,
    )


def _turn_ended(state: State, status: str, data: r.Payload | None) -> State:
    return replace(
        state,
        status=status,
        data=data,
        message=None,
        activities=(),
        approvals=(),
        timers=(),
        grants=(),
        uncertain=(),
        receives=(),
        jobs=(),
        children=(),
        hold=None,
        parked=(),
    )


def _ended(state: State, status: str) -> State:
    """What is left of a session to which nothing can happen: enough to know repeats, and late results."""
    ended = _turn_ended(state, status, None)
    return replace(
        ended,
        versions=(),
        queue=(),
        decided=(),
        signals=(),
        artifacts=(),
        attributes=(),
        attributes_before=(),
        past_jobs=(),
        past_children=(),
        resources=(),
        resources_before=(),
        registered=(),
        undoing=None,
        data_version=0,
        pinned=0,
        past_turns=(),
    )


def _relied_on(state: State, body: r.ArtifactRecorded | r.ArtifactChanged) -> State:
    others = tuple(a for a in state.artifacts if a.artifact_id != body.artifact_id)
    artifacts = (*others, s.Artifact(body.artifact_id, body.version))
    return replace(state, artifacts=artifacts[-s.ARTIFACTS_MAX :])


def _parked(body: r.CommandParked, envelope: r.Envelope) -> s.ParkedCommand:
    cause = envelope.cause
    return s.ParkedCommand(
        fingerprint=body.fingerprint,
        command=body.command,
        at_ms=envelope.at_ms,
        topic=cause.topic,
        partition=cause.partition,
        offset=cause.offset,
        command_hash=cause.command_hash,
        vouched_by=envelope.vouched_by,
    )


def _released(state: State) -> str:
    """Back to where it stood: a turn that is not over goes on, and so does what takes effects back."""
    if state.undoing is not None:
        return Status.COMPENSATING
    if state.message is not None:
        return Status.RUNNING
    return Status.SUSPENDED if state.turn else Status.OPENED
