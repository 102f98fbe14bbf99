"""What facts about activities mean for a session: what runs, rests, is settled, or in doubt."""

from __future__ import annotations

from hashlib import sha256

from . import records as r
from . import state as s
from .contracts import IDEMPOTENT, WAIT
from .errors import Unfoldable
from .failures import TAKEN_OVER
from .replacing import replace
from .retries import perhaps_done
from .state import OpenActivity, State
from .verdicts import CANCELLED, COMPLETED, FAILED, UNCERTAIN

Active = (
    r.ActivityRequested
    | r.ActivityStarted
    | r.ActivityProgressed
    | r.ActivityReturned
    | r.ActivityRetryScheduled
    | r.ActivityRetried
    | r.ActivityCompleted
    | r.ActivityFailed
    | r.ActivityUncertain
    | r.ActivityResolved
    | r.ActivityCancelled
)


def evolve(state: State, status: str, body: Active) -> State:
    """The state after one more fact about an activity; `status` is where the fact leads."""
    match body:
        case r.ActivityRequested():
            return _requested(state, body)
        case r.ActivityStarted():
            return _changed(state, replace(_running(state, body), started=True))
        case r.ActivityProgressed():
            return _changed(state, replace(_running(state, body), progress=body.progress))
        case r.ActivityReturned():
            return _returned(state, body)
        case r.ActivityRetryScheduled():
            return _retry_scheduled(state, body)
        case r.ActivityRetried():
            return _retried(state, body)
        case r.ActivityCompleted():
            return _settled(state, status, body, COMPLETED, body.result.digest)
        case r.ActivityFailed():
            return _settled(state, status, body, FAILED, failure_digest(body.failure))
        case r.ActivityResolved():
            return _settled(state, status, body, body.resolution, b"")
        case r.ActivityCancelled():
            return _settled(state, state.status, body, CANCELLED, b"")
        case r.ActivityUncertain():
            return _in_doubt(state, body)


def failure_digest(failure: r.Failure) -> bytes:
    """What tells a repeated failure from another one."""
    told = f"{failure.kind}\0{failure.type}\0{failure.message}"
    return sha256(told.encode(errors="surrogatepass")).digest()


def _requested(state: State, body: r.ActivityRequested) -> State:
    used = next((g for g in state.grants if g.proposal_id == body.proposal_id), None)
    if body.proposal_id is not None and used is None:
        raise Unfoldable(
            f"activity {body.activity_id} uses approval {body.proposal_id}, which is not granted"
        )
    running = s.OpenActivity(
        body.activity_id,
        body.step,
        body.name,
        body.attempt,
        body.deadline_ms,
        body.retry,
        contract=body.contract,
        heartbeat_ms=body.heartbeat_ms,
        on_uncertain=body.on_uncertain,
        withheld_ms=body.withheld_ms,
        grant=used,
        denied=_forbidden(body),
        untrusted=body.untrusted,
    )
    return replace(
        state,
        activities=(*state.activities, running),
        grants=tuple(g for g in state.grants if g.proposal_id != body.proposal_id),
        steps=body.step,
    )


def _returned(state: State, body: r.ActivityReturned) -> State:
    running = _running(state, body)
    again = replace(
        running,
        attempt=running.attempt + 1,
        started=False,
        returned=running.returned + 1,
        doubtful=running.doubtful or _perhaps_begun(running, body),
        withheld_ms=body.withheld_ms,
        denied=_forbidden(body),
    )
    return _changed(state, again)


def _perhaps_begun(running: OpenActivity, body: r.ActivityReturned) -> bool:
    """Whether the attempt that is given back may have begun: in another worker's hands, who cannot be asked."""
    return running.contract == IDEMPOTENT and (running.started or body.reason == TAKEN_OVER)


def _retry_scheduled(state: State, body: r.ActivityRetryScheduled) -> State:
    """The failed attempt is remembered, so that its report sent again is a repeat."""
    failed = body.attempt - 1
    running = _open(state, body.activity_id)
    if running.attempt != failed or running.retry_due_ms is not None:
        raise Unfoldable(
            f"activity {body.activity_id} is to be retried, but attempt {failed} does not run"
        )
    resting = replace(
        running,
        retry_due_ms=body.due_ms,
        started=False,
        doubtful=perhaps_done(running, body.failure),
    )
    digest = failure_digest(body.failure)
    return _remember(_changed(state, resting), body.activity_id, failed, "retried", digest)


def _retried(state: State, body: r.ActivityRetried) -> State:
    resting = _open(state, body.activity_id)
    scheduled = resting.attempt == body.attempt - 1 and resting.retry_due_ms is not None
    if not scheduled and not (resting.attempt == body.attempt and _is_approved(resting)):
        raise Unfoldable(
            f"attempt {body.attempt} of activity {body.activity_id} was not scheduled, and is dispatched"
        )
    going = replace(
        resting,
        attempt=body.attempt,
        retry_due_ms=None,
        withheld_ms=body.withheld_ms,
        denied=_forbidden(body),
        deadline_ms=resting.deadline_ms if body.deadline_ms is None else body.deadline_ms,
    )
    return _changed(state, going)


def _forbidden(body: r.ActivityRequested | r.ActivityRetried | r.ActivityReturned) -> str:
    """By what, in words, where no approval would help; empty where one may, or the attempt goes out."""
    if body.withheld_ms != s.NEVER_MS:
        return ""
    by = (
        f"forbidden by {', '.join(body.policy_ids)}"
        if body.policy_ids
        else "permitted by no policy"
    )
    return (
        f"{by} (policy set {(body.policy_hash or b'').hex()[: s.HASH_SHOWN]}), whoever approves it"
    )


def _is_approved(activity: OpenActivity) -> bool:
    return activity.withheld_ms is not None and activity.grant is not None


def _settled(
    state: State,
    status: str,
    body: r.ActivityCompleted | r.ActivityFailed | r.ActivityResolved | r.ActivityCancelled,
    outcome: str,
    digest: bytes,
) -> State:
    """The outcome of one that was open, or of one that was uncertain."""
    activity_id = body.activity_id
    open_ones: tuple[OpenActivity | s.Uncertain, ...] = (*state.activities, *state.uncertain)
    known = next((one for one in open_ones if one.activity_id == activity_id), None)
    if known is None:
        raise Unfoldable(f"activity {activity_id} has an outcome but is not open")
    settled = replace(
        state,
        status=status,
        tainted_by=_tainted_by(state, known, body),
        activities=tuple(a for a in state.activities if a.activity_id != activity_id),
        uncertain=tuple(u for u in state.uncertain if u.activity_id != activity_id),
    )
    return _remember(settled, activity_id, body.attempt, outcome, digest)


def _in_doubt(state: State, body: r.ActivityUncertain) -> State:
    """It waits for a resolution, unless its workflow asked to decide by itself."""
    running = _open(state, body.activity_id)
    left = tuple(a for a in state.activities if a.activity_id != body.activity_id)
    uncertain = state.uncertain
    if running.on_uncertain == WAIT:
        doubt = s.Uncertain(
            running.activity_id,
            running.step,
            running.name,
            body.attempt,
            body.failure.message,
            running.untrusted,
        )
        uncertain = (*uncertain, doubt)
    tainted_by = state.tainted_by
    if running.on_uncertain != WAIT:  # its workflow reads what the tool said
        tainted_by = _tainted_by(state, running, body)
    digest = failure_digest(body.failure)
    state = replace(state, activities=left, uncertain=uncertain, tainted_by=tainted_by)
    return _remember(state, body.activity_id, body.attempt, UNCERTAIN, digest)


def _tainted_by(
    state: State, settled: OpenActivity | s.Uncertain, body: r.EventBody
) -> tuple[str, ...]:
    """What it returned, or said in failing, came into the session; for good, as whatever follows may rest on it."""
    known, name = state.tainted_by, settled.name
    said = isinstance(body, r.ActivityCompleted) or (
        isinstance(body, r.ActivityFailed | r.ActivityUncertain) and body.worker
    )
    if not (settled.untrusted and said) or name in known or len(known) >= s.TAINTS_MAX:
        return known
    return (*known, name)


def _remember(state: State, activity_id: str, attempt: int, outcome: str, digest: bytes) -> State:
    settled = (*state.settled, s.Settled(activity_id, attempt, outcome, digest))
    return replace(state, settled=settled[-s.SETTLED_MAX :])


def _open(state: State, activity_id: str) -> OpenActivity:
    for activity in state.activities:
        if activity.activity_id == activity_id:
            return activity
    raise Unfoldable(f"activity {activity_id} is not open")


def _running(
    state: State, body: r.ActivityStarted | r.ActivityProgressed | r.ActivityReturned
) -> OpenActivity:
    activity = _open(state, body.activity_id)
    rests = activity.retry_due_ms is not None or activity.withheld_ms is not None
    if activity.attempt != body.attempt or rests:
        raise Unfoldable(f"attempt {body.attempt} of activity {body.activity_id} does not run")
    return activity


def _changed(state: State, activity: OpenActivity) -> State:
    return replace(
        state,
        activities=tuple(
            activity if a.activity_id == activity.activity_id else a for a in state.activities
        ),
    )
