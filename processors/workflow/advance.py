"""The fourth verb: what the workflow does next, after one more fact.

The coroutine is a cache: where it is missing (crash, eviction, failed transaction) it is rebuilt from the journal.
"""

from __future__ import annotations

from dataclasses import replace

from ...commands import children, resources
from ...commands import decide as deciding
from ...commands.check import Facts
from ...commands.next_valid import next_valid, obligations
from ...events import evolve_repairs, freezing
from ...events import records as r
from ...events.evolve_resources import Attaches
from ...events.state import State, Status
from .answers import read_message
from .choosing import Position, Workflows, choose
from .claims import CLAIM_FAULTS, Claims, held_by
from .compensations import overfull
from .definitions import Message
from .driver import Stretch
from .facts import INFORMS, RESOLVES, STARTS, is_asked
from .replay import Divergence, rebuild
from .stepping import TurnContext

TURN_ENDED = "the turn ended"
"""Why the engine withdraws what is open when a workflow ends its turn."""

_IDLE = (Status.OPENED, Status.SUSPENDED)


@freezing.dataclass(frozen=True, slots=True)
class Advanced:
    """The facts that follow, and the coroutine to keep (none: it ended, or was dropped)."""

    bodies: list[r.EventBody]
    stretch: Stretch | None


def advance(
    workflows: Workflows, position: Position, event: r.Event, stretch: Stretch | None, facts: Facts
) -> Advanced:
    """Drives the workflow after `event`; gives what it asks for next."""
    state = position.state
    if state.hold is not None or state.ended or state.undoing is not None:
        _drop(stretch)
        return Advanced([], None)
    if state.status in _IDLE:
        _drop(stretch)
        return Advanced(_next_turn(workflows, position, facts) if state.queue else [], None)
    if not isinstance(event.body, _RESUMES) or _is_of_an_attempt(event.body):
        if stretch is not None and isinstance(event.body, INFORMS) and not is_asked(event.body):
            stretch.learn(event.body)
        return Advanced([], stretch)
    try:
        if stretch is not None and not stretch.dead and not isinstance(event.body, _REBUILDS):
            asked = stretch.feed(event)
        else:
            _drop(stretch)
            rebuilt = _rebuild(workflows, position, facts)
            if not isinstance(rebuilt, tuple):
                return Advanced([rebuilt], None)
            stretch, asked = rebuilt
        stretch.claims.store(asked)
    except CLAIM_FAULTS as fault:
        _drop(stretch)
        return Advanced([held_by(fault)], None)
    bodies = [_complete(body, state) for body in asked]
    if told := overfull(state, bodies):
        _drop(stretch)
        return Advanced([r.SessionHeld("workflow_misuse", told)], None)
    if bodies and isinstance(bodies[-1], _ENDS):
        _drop(stretch)
        stretch = None
    return Advanced(bodies, stretch)


_REBUILDS = STARTS | r.SessionReleased | r.RecoveryRequested
"""Facts after which the coroutine that is kept counts for nothing."""

_RESUMES = RESOLVES | _REBUILDS

_ENDS = r.TurnContinued | r.TurnCompleted | r.SessionCompleted | r.SessionFailed | r.SessionHeld


def _is_of_an_attempt(body: r.EventBody) -> bool:
    """Whether what was recovered is an attempt: what comes of it follows as a fact of its own."""
    return isinstance(body, r.RecoveryRequested) and bool(body.activity_id)


def _next_turn(workflows: Workflows, position: Position, facts: Facts) -> list[r.EventBody]:
    state = position.state
    chosen = choose(workflows, position, facts.rollouts)
    if isinstance(chosen, r.SessionHeld):
        return [chosen]
    workflow, rollout_offset = chosen
    versions = [r.Version("workflow", f"{workflow.name}:{workflow.version}")]
    versions += [r.Version(name, version) for name, version in workflow.versions]
    queued = state.queue[0]
    started = r.TurnStarted(
        turn=state.turn + 1,
        trigger=queued.trigger,
        reason=queued.reason,
        message_id=queued.message_id,
        workflow=workflow.name,
        workflow_version=workflow.version,
        versions=tuple(versions),
        rollout_offset=rollout_offset,
    )
    return [started]


def _rebuild(
    workflows: Workflows, position: Position, facts: Facts
) -> tuple[Stretch, list[r.EventBody]] | r.SessionHeld | r.NondeterminismFound:
    state = position.state
    workflow = workflows.version(state.workflow, state.workflow_version)
    if workflow is None:
        told = f"workflow {state.workflow!r} version {state.workflow_version} is not loaded: deploy it, then release"
        return r.SessionHeld("workflow_missing", told)
    context = context_of(position, facts)
    message = message_of(state, Claims(position.tenant, facts.digest_key, facts.blobs))
    rebuilt = rebuild(workflow, context, state.data, message, position.journal)
    if isinstance(rebuilt, Divergence):
        return r.NondeterminismFound(state.turn, rebuilt.step, rebuilt.expected, rebuilt.actual)
    rebuilt.stretch.claims.forget(position.journal)
    return rebuilt.stretch, rebuilt.leftover


def context_of(position: Position, facts: Facts) -> TurnContext:
    """The stretch that the journal is of: the turn's first, or what `again` began."""
    begun = position.journal[0].body if position.journal else None
    stretch, steps = (begun.stretch, begun.steps) if isinstance(begun, r.TurnContinued) else (0, 0)
    return TurnContext(
        position.tenant,
        position.session_id,
        position.state.turn,
        facts.digest_key,
        stretch,
        steps,
        facts.blobs,
        position.state.requester,
        position.state.attributes_before,
        parent=position.state.parent,
        data_version=position.state.data_version,
        resources=position.state.resources_before,
    )


def message_of(state: State, claims: Claims) -> Message:
    """What the turn answers."""
    queued = state.message
    if queued is None:
        return Message(id="", actor="", text="", data=None)
    payload = claims.handed(queued.message)
    return read_message(queued.message_id, queued.actor, payload, queued.trigger, queued.reason)


def _complete(body: r.EventBody, state: State) -> r.EventBody:
    """Fills in what only the state knows."""
    match body:
        case r.TurnCompleted():
            after = replace(
                state,
                status=Status.SUSPENDED,
                approvals=(),
                timers=(),
                activities=(),
                uncertain=(),
                receives=(),
                jobs=(),
                children=(),
            )
            after = evolve_repairs.left(after, body.state)
            return replace(body, obligations=obligations(after), next_valid=next_valid(after))
        case r.SessionCompleted() | r.SessionFailed():
            return replace(body, messages_unread=len(state.queue))
        case r.ActivityCancelled():
            attempts = {a.activity_id: a.attempt for a in state.activities}
            attempts |= {u.activity_id: u.attempt for u in state.uncertain}
            return replace(body, attempt=attempts.get(body.activity_id, body.attempt))
        case _:
            return body


def withdrawals(state: State, end: r.EventBody) -> list[r.EventBody]:
    """What is over with this fact: all that is open when a turn ends, but for children that are cancelled with a session.

    A resource is when its session ends, and when another is attached in its place.
    """
    if isinstance(end, Attaches):
        return [*resources.replaced(state, end)]
    told = deciding.withdrawals(state, TURN_ENDED)
    if isinstance(end, r.SessionCompleted | r.SessionFailed | r.CompensationStarted):
        told += resources.ended(state)
    waited_for = isinstance(end, r.CompensationStarted)
    return told if waited_for else [*children.withdrawals(state, TURN_ENDED), *told]


def _drop(stretch: Stretch | None) -> None:
    if stretch is not None:
        stretch.drop()
