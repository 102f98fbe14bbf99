"""What must hold of attempts: each was let go, or withheld, by the policy in force where it says, and began while that stood."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from ...commands.policy import Deciding, Executing, Policy, Question, Ruling
from ...events import records as r
from ...events.contracts import IDEMPOTENT
from ...events.failures import AUTHORITY_STALE, FORBIDDEN, TAKEN_OVER, UNAPPROVED
from ...events.log.protocol import Record
from ...events.records import Event
from ...events.retries import NOTHING_RAN
from ...events.state import NEVER_MS
from ...processors.activities.standing import KNOWN_MS
from ...processors.control import POLICY_KEY
from ...processors.simulation import clock
from ...processors.simulation.attempts import Start
from ...processors.simulation.policies import MANY, in_force
from ...processors.simulation.workload import APP
from ...processors.simulation.world import World
from .planting import Mutant, plant

Attempt = r.ActivityRequested | r.ActivityRetried | r.ActivityReturned

LACKING = (UNAPPROVED, FORBIDDEN)
"""How an attempt fails that lacks authority."""


@dataclass(slots=True)
class _Session:
    """What one session's facts have said so far."""

    requests: dict[str, r.ActivityRequested] = field(default_factory=dict)
    proposals: dict[str, r.ApprovalRequested] = field(default_factory=dict)
    approved_by: dict[str, list[Event]] = field(default_factory=lambda: defaultdict(list))
    uses: dict[str, str] = field(default_factory=dict)
    artifacts: dict[str, str] = field(default_factory=dict)
    tainted: bool = False
    for_whom: dict[str, str | None] = field(default_factory=dict)
    """For whom each activity was asked for."""


def attempts_have_authority(
    control: Sequence[Record], events: Sequence[Event], unpublished: Policy
) -> Iterator[str]:
    """What is dispatched was permitted, by people who still might; what is withheld was not, or what it rests on changed."""
    sessions: dict[str, _Session] = defaultdict(_Session)
    for event in events:
        body, session = event.body, sessions[event.envelope.session_id]
        match body:
            case r.ArtifactRecorded() | r.ArtifactChanged():
                session.artifacts[body.artifact_id] = body.version
            case r.ApprovalRequested():
                session.proposals[body.proposal_id] = body
            case r.ApprovalGranted() | r.ApprovalVoted():
                _approved(session, event, body)
            case r.ApprovalVoided():
                session.uses = {a: p for a, p in session.uses.items() if p != body.proposal_id}
            case r.ActivityCompleted() | r.ActivityFailed() if body.worker or isinstance(
                body, r.ActivityCompleted
            ):
                session.tainted |= session.requests[body.activity_id].untrusted
            case r.ActivityRequested() | r.ActivityRetried() | r.ActivityReturned():
                if isinstance(body, r.ActivityRequested):
                    session.requests[body.activity_id] = body
                    session.for_whom[body.activity_id] = event.envelope.on_behalf_of
                    if body.proposal_id is not None:
                        session.uses[body.activity_id] = body.proposal_id
                policy = in_force(control, event.envelope.control_offset, unpublished)
                yield from _judged(session, event, body, policy)
            case _:
                pass  # the others bear on no attempt


def _approved(session: _Session, event: Event, body: r.ApprovalGranted | r.ApprovalVoted) -> None:
    session.approved_by[body.proposal_id].append(event)
    activity_id = session.proposals[body.proposal_id].activity_id
    if isinstance(body, r.ApprovalGranted) and activity_id is not None:
        session.uses[activity_id] = body.proposal_id


def _judged(session: _Session, event: Event, body: Attempt, policy: Policy) -> Iterator[str]:
    name = f"{event.envelope.session_id} {body.activity_id}"
    why = _against(session, event, body, policy)
    if body.withheld_ms is None and body.policy_hash != policy.set_hash:
        yield f"an attempt of {name} is dispatched, and does not say by which policy set"
    if why and body.withheld_ms is None:
        yield f"an attempt of {name} is dispatched at control offset {event.envelope.control_offset}: {why}"
    if not why and body.withheld_ms is not None:
        yield f"an attempt of {name} is withheld, and nothing speaks against it"
    if body.withheld_ms is None or not why or policy.set_hash is None:
        return  # without a set nobody may, until there is one
    lifted = _executing(session, event, body, policy, by=MANY).allowed  # had all approved it
    if lifted and body.withheld_ms == NEVER_MS:
        yield f"an attempt of {name} is forbidden for good, and approved it could go out"
    if not lifted and body.withheld_ms != NEVER_MS:
        yield f"people are asked to approve {name}, which could not go out whoever approved it"


def _executing(
    session: _Session, event: Event, body: Attempt, policy: Policy, by: tuple[str, ...]
) -> Ruling:
    request, tenant = session.requests[body.activity_id], event.envelope.tenant
    act = Executing(request.name, request.contract, "", None, "", by, session.tainted)
    return policy.rule(Question(tenant, "", None, "", act))


def _asks_itself(session: _Session, body: Attempt) -> bool:
    """Whether it takes an effect back and was registered with a rule."""
    effect = session.requests.get(session.requests[body.activity_id].compensates or "")
    return bool(effect and effect.compensation and effect.compensation.approver)


def _own(session: _Session, body: Attempt, by: tuple[str, ...]) -> bool:
    """Whether the one for whom it is approved it, against its rule in the code; what takes an effect back is its effect's."""
    request = session.requests[body.activity_id]
    rule = APP.activities[request.name].approval
    whose = session.for_whom[request.compensates or request.activity_id]
    return bool(rule and rule.four_eyes and whose in by)


def _against(session: _Session, event: Event, body: Attempt, policy: Policy) -> str:
    """What forbids to dispatch the attempt."""
    envelope, used = event.envelope, session.uses.get(body.activity_id)
    if used is None and _asks_itself(session, body):
        return "its own rule asks for an approval"
    if used is None and policy.set_hash is None:
        return ""
    approvals = session.approved_by[used] if used is not None else []
    by = tuple(each.envelope.actor for each in approvals)
    ruling = _executing(session, event, body, policy, by)
    if not ruling.allowed:
        return "; ".join(ruling.reasons)
    if used is None:
        return ""
    if _own(session, body, by):
        return "it was approved by the one for whom it is, and its rule is four eyes"
    asked = session.proposals[used]
    deciding = Deciding("approve", asked.name, asked.contract, "", None, asked.approver, "")
    for each in approvals:
        question = Question(envelope.tenant, each.envelope.actor, None, "", deciding)
        if not policy.rule(question).allowed:
            return f"{each.envelope.actor} approved it and may not any more"
    if _other_policies(policy, asked):
        return "other policies apply to it"
    changed = [v for v in asked.relies_on if session.artifacts.get(v.name, v.version) != v.version]
    return f"it relies on {changed}" if changed else ""


def approvals_are_of_now(
    control: Sequence[Record], events: Sequence[Event], unpublished: Policy
) -> Iterator[str]:
    """Nobody says yes to what was shown under other policies."""
    proposals: dict[tuple[str, str], r.ApprovalRequested] = {}
    for event in events:
        body, envelope = event.body, event.envelope
        if isinstance(body, r.ApprovalRequested):
            proposals[envelope.session_id, body.proposal_id] = body
        if not isinstance(body, r.ApprovalGranted | r.ApprovalVoted):
            continue
        asked = proposals[envelope.session_id, body.proposal_id]
        if _other_policies(in_force(control, envelope.control_offset, unpublished), asked):
            yield f"{body.proposal_id} was approved, and other policies apply to it than when it was shown"


def _other_policies(policy: Policy, asked: r.ApprovalRequested) -> bool:
    if asked.policies is None or policy.set_hash is None:
        return False
    deciding = Deciding("approve", asked.name, asked.contract, "", None, asked.approver, "")
    return policy.applicable_hash(Question("", "", None, "", deciding)) != asked.policies


def bodies_begin_in_time(
    control: Sequence[Record], events: Sequence[Event], starts: Sequence[Start]
) -> Iterator[str]:
    """What uses an approval begins before its time is over, and all on no policy older than what its worker has to know."""
    published = [record for record in control if record.key == POLICY_KEY]
    by_set = {
        (event.envelope.session_id, event.envelope.seq)
        for event in events
        if getattr(event.body, "policy_hash", None) is not None
    }
    for start in starts:
        name, task = f"{start.command_id} on {start.worker}", start.task
        if task.start_by_ms is not None and start.at_ms >= task.start_by_ms:
            yield f"{name} began {start.at_ms - task.start_by_ms} ms after its authority had aged"
        if task.control_offset is None:
            if (task.session_id, task.event_seq) in by_set:
                yield f"{name} began by a policy set, and its worker was not told by which"
            continue
        since = [record for record in published if record.offset >= task.control_offset]
        late_ms = start.at_ms - min((record.timestamp_ms for record in since), default=start.at_ms)
        if late_ms > KNOWN_MS:
            yield (
                f"{name} began by policy below control offset {task.control_offset}, "
                f"{late_ms} ms after more of it was published"
            )


def nothing_begun_is_called_undone(
    events: Sequence[Event], starts: Sequence[Start]
) -> Iterator[str]:
    """What failed for want of authority was begun by nobody, but in attempts that say that they have done nothing."""
    requests: dict[tuple[str, str], r.ActivityRequested] = {}
    harmless: set[tuple[str, str, int]] = set()
    for event in events:
        body, session, at_ms = event.body, event.envelope.session_id, event.envelope.at_ms
        if isinstance(body, r.ActivityRequested):
            requests[session, body.activity_id] = body
        if isinstance(body, r.ActivityRetryScheduled) and body.failure.kind in NOTHING_RAN:
            harmless.add((session, body.activity_id, body.attempt - 1))
        if not isinstance(body, r.ActivityFailed) or body.failure.kind not in LACKING:
            continue
        request = requests[session, body.activity_id]
        if request.contract != IDEMPOTENT:
            continue
        for start in starts:
            attempt = (session, body.activity_id, start.task.attempt)
            same = start.idempotency_key == request.idempotency_key
            if same and start.at_ms <= at_ms and attempt not in harmless:
                yield f"{start.command_id} was begun by {start.worker}, and is said not to have been carried out"


def gates(events: Sequence[Event]) -> Counter[str]:
    """What became of attempts at which authority was looked, counted; see `met.py`."""
    counts: Counter[str] = Counter()
    withheld: set[tuple[str, str]] = set()
    for event in events:
        body = event.body
        key = (event.envelope.session_id, getattr(body, "activity_id", None) or "")
        match body:
            case r.ActivityRequested() | r.ActivityRetried() | r.ActivityReturned():
                aged = getattr(body, "reason", "") in (AUTHORITY_STALE, TAKEN_OVER)
                counts["gate: given back as authority_stale"] += aged
                if body.withheld_ms is None:
                    counts["gate: dispatched once approved"] += key in withheld
                    withheld.discard(key)
                    continue
                counts["gate: withheld once more"] += key in withheld
                counts[f"gate: withheld by {type(body).__name__}"] += 1
                withheld.add(key)
            case r.ApprovalVoided():
                counts[f"gate: void by {body.reason}"] += 1
            case r.ApprovalRequested(supersedes=None) if body.activity_id is not None:
                counts["gate: withheld without a rule of its own"] += 1
            case r.ActivityFailed() | r.ActivityUncertain():
                counts["gate: not approved"] += body.failure.kind == UNAPPROVED
                counts["gate: forbidden whoever approves"] += body.failure.kind == FORBIDDEN
            case r.ActivityCancelled():
                counts["gate: cancelled while withheld"] += key in withheld
            case _:
                pass  # the others bear on no attempt
    return +counts


def nothing_is_over_early(world: World) -> Iterator[str]:
    """No worker takes an attempt for past its deadline before the log's clock is, however its own clock leaps."""
    for worker in world.workers:
        for command_id in worker.hasty:
            yield f"{worker.name} took {command_id} for over before its deadline"


def _leaps(now_ms: Callable[[], int], monotonic: Callable[[], float]) -> Callable[[], int]:
    """The wall's clock, as it goes."""
    del monotonic
    return now_ms


HASTY_MUTANTS: tuple[Mutant, ...] = (
    Mutant("drops tasks by a clock that leapt", plant((clock, "unhurried", _leaps)), seed=3),
)
