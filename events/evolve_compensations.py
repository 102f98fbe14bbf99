"""What facts mean for the effects that a session may have to take back, and for how far it has come with it.

An effect is registered with the request of its activity, in one fact, so that nothing can happen in between. It is
forgotten where it is certain that it never happened, where it was taken back, and where the session says that it stands.
"""

from __future__ import annotations

from . import records as r
from .contracts import IDEMPOTENT
from .evolve_resources import given_back
from .replacing import replace
from .retries import NOTHING_RAN
from .state import OpenActivity, State
from .undoing import DONE, OPEN, PERHAPS, Registered, Undoing
from .verdicts import COMPLETED

CANCELLED, FAILED = "cancelled", "failed"
"""Why a session ends that takes back what it did."""


def follow(before: State, state: State, event: r.Event) -> State:
    """The state after a fact about activities, as far as effects go; `before` is what stood before it."""
    body = event.body
    if isinstance(body, r.ActivityRequested):
        return _requested(state, body, event.envelope.on_behalf_of)
    if state.undoing is not None and _ends(state.undoing, body):
        return _undone(state, state.undoing, body)
    if state.undoing is not None and isinstance(body, r.LateResultRecorded):
        state = replace(state, undoing=_late_of_others(state.undoing, body))
    return _known_better(before, state, body) if state.registered else state


def started(state: State, status: str, body: r.CompensationStarted) -> State:
    """All but what takes effects back is over, and children that end; the message stays, as it says for whom that is done."""
    return replace(
        state,
        status=status,
        data=None,
        activities=(),
        approvals=(),
        timers=(),
        grants=(),
        uncertain=(),
        receives=(),
        jobs=(),
        hold=None,
        parked=(),
        undoing=Undoing(body.cause, body.failure, body.done, body.undone, body.uncertain),
    )


def released(state: State, body: r.CompensationsReleased) -> State:
    """What was done so far stands."""
    return replace(state, steps=body.step, registered=())


def held(state: State) -> State:
    """The failure is the hold's by now; a release tries again."""
    undoing = state.undoing
    return state if undoing is None else replace(state, undoing=replace(undoing, failed=""))


def standing(state: State) -> tuple[Registered, ...]:
    """What would be left to take back if all that runs were cancelled now, in the order it was registered.

    Resources come first, and so are given back last: what takes an effect back may need them.
    """
    open_ones = {a.activity_id: a for a in state.activities}
    let_go = (_let_go(one, open_ones.get(one.activity_id)) for one in state.registered)
    held = given_back(list(state.resources))
    return (*held, *(one for one in let_go if one is not None))


def _requested(state: State, body: r.ActivityRequested, on_behalf_of: str | None) -> State:
    undoing = state.undoing
    if undoing is not None:
        now = replace(
            undoing,
            current=body.compensates,
            activity_id=body.activity_id,
            attempts=body.attempt,
        )
        return replace(state, undoing=now)
    if body.compensation is None:
        return state
    one = Registered(
        body.activity_id,
        body.name,
        body.attempt,
        OPEN,
        body.compensation,
        on_behalf_of=on_behalf_of,
        contract=body.contract,
    )
    return replace(state, registered=(*state.registered, one))


def _ends(undoing: Undoing, body: r.EventBody) -> bool:
    ends = isinstance(body, r.ActivityCompleted | r.ActivityFailed | r.ActivityResolved)
    return ends and getattr(body, "activity_id", None) == undoing.activity_id


def _undone(state: State, undoing: Undoing, body: r.EventBody) -> State:
    """The end of an activity that takes an effect back: it is taken back, or the session will be held for it."""
    told = ""
    match body:
        case r.ActivityFailed():
            told = f"{body.failure.kind}: {body.failure.message}"
        case r.ActivityResolved() if body.resolution != COMPLETED:
            told = f"not_done: {body.comment or 'somebody found that it was not carried out'}"
        case _:
            pass
    if told:
        attempts = getattr(body, "attempt", undoing.attempts)
        return replace(state, undoing=replace(undoing, failed=told, attempts=attempts))
    current = undoing.current or ""
    now = replace(
        undoing,
        compensated=(*undoing.compensated, current),
        current=None,
        activity_id=None,
        attempts=0,
    )
    left = tuple(one for one in state.registered if one.activity_id != current)
    return replace(state, registered=left, undoing=now)


def _known_better(before: State, state: State, body: r.EventBody) -> State:
    """What a fact about the activity itself says of its effect."""
    activity_id = getattr(body, "activity_id", None)
    registered: list[Registered] = []
    for one in state.registered:
        known: Registered | None = one
        if one.activity_id == activity_id:
            known = _after(one, before, body)
        if known is not None:
            registered.append(known)
    return replace(state, registered=tuple(registered))


def _after(one: Registered, before: State, body: r.EventBody) -> Registered | None:
    activity = next((a for a in before.activities if a.activity_id == one.activity_id), None)
    match body:
        case r.ActivityCompleted():
            return replace(one, effect=DONE, over_by_ms=None)
        case r.ActivityResolved():
            return replace(one, effect=DONE) if body.resolution == COMPLETED else None
        case r.ActivityFailed():
            return replace(one, effect=PERHAPS) if _perhaps(activity, body.failure) else None
        case r.ActivityUncertain():
            return replace(one, effect=PERHAPS)
        case r.ActivityCancelled():
            return _let_go(one, activity)
        case r.LateResultRecorded() if not _is_current(before, one):
            return _late(one, body)
        case _:
            return one


def _perhaps(activity: OpenActivity | None, failure: r.Failure) -> bool:
    """Whether one that failed may have happened: only an idempotent write fails so, the others are in doubt then."""
    if activity is None or activity.contract != IDEMPOTENT:
        return False
    rests = activity.retry_due_ms is not None
    return activity.doubtful or not (rests or failure.kind in NOTHING_RAN)


def _let_go(one: Registered, activity: OpenActivity | None) -> Registered | None:
    """What is known of it once nobody waits for its activity any more."""
    if one.effect != OPEN or activity is None:
        return one
    if activity.withheld_ms is None and activity.retry_due_ms is None:
        return replace(
            one, effect=PERHAPS, attempt=activity.attempt, over_by_ms=activity.deadline_ms
        )
    return replace(one, effect=PERHAPS) if activity.doubtful else None


def _late(one: Registered, body: r.LateResultRecorded) -> Registered | None:
    """Its worker says what became of an attempt that nobody waited for.

    Of an idempotent write another worker may have been given the same attempt, so one that did nothing is not the last word.
    """
    ends = body.attempt == one.attempt
    over_by_ms = None if ends else one.over_by_ms
    if body.outcome == COMPLETED:
        return replace(one, effect=DONE, over_by_ms=over_by_ms)
    nothing_ran = body.failure is not None and body.failure.kind in NOTHING_RAN
    is_certain = ends and one.attempt == 1 and one.contract != IDEMPOTENT
    if one.effect == PERHAPS and nothing_ran and is_certain:
        return None
    return replace(one, over_by_ms=over_by_ms)


def _is_current(state: State, one: Registered) -> bool:
    return state.undoing is not None and state.undoing.current == one.activity_id


def _late_of_others(undoing: Undoing, body: r.LateResultRecorded) -> Undoing:
    """One that has no compensation, and of which nobody knew: it is done, after all."""
    if body.outcome != COMPLETED or body.activity_id not in undoing.uncertain:
        return undoing
    left = tuple(known for known in undoing.uncertain if known != body.activity_id)
    return replace(undoing, uncertain=left, done=(*undoing.done, body.activity_id))
