"""How a session that ends takes back what it did: what it does next, from its state alone.

No workflow is asked, so it goes on where its code is gone, or holds the session. Effects are taken back one after
another, the last one first, each by an ordinary activity. One that may still happen is waited for: until its worker says
what became of it, or nobody can begin it any more.
"""

from __future__ import annotations

from ..events import records as r
from ..events import verdicts
from ..events.due import awaited_by
from ..events.evolve_compensations import CANCELLED, FAILED, standing
from ..events.keys import effect_key
from ..events.state import State
from ..events.undoing import OPEN, Registered, Undoing

COMPENSATION_FAILED = "compensation_failed"
"""The hold of a session whose effect could not be taken back; a release tries again."""


def stop(state: State, reason: str, withdrawals: list[r.EventBody]) -> list[r.EventBody]:
    """The whole stop: nothing of the workflow is dispatched from the first of these facts on.

    Asked once more while it is held for a compensation, it leaves the rest as it is and says so.
    """
    requested = [r.CancellationRequested(reason), *withdrawals]
    if state.undoing is not None:
        return [*requested, _cancelled(state, state.undoing)]
    started = begin(state, CANCELLED, None)
    if started.compensating or started.children:
        return [*requested, started]
    return [*requested, r.SessionCancelled(started.done, started.undone, started.uncertain)]


def instead_of(state: State, failed: r.SessionFailed) -> r.SessionFailed | r.CompensationStarted:
    """The failure of the session, or what comes before it."""
    if state.undoing is not None:
        return failed  # it comes after all that
    started = begin(state, FAILED, failed.failure)
    return started if started.compensating or started.children else failed


def begin(state: State, cause: str, failure: r.Failure | None) -> r.CompensationStarted:
    """What is to be taken back, which children end first, and what is known of all else, once all that runs is let go."""
    left = tuple(one.activity_id for one in reversed(standing(state)))
    done = (s.activity_id for s in state.settled if s.outcome == verdicts.COMPLETED)
    return r.CompensationStarted(
        turn=state.turn,
        cause=cause,
        failure=failure,
        compensating=left,
        done=tuple(one for one in done if one not in left),
        undone=tuple(a.proposal_id for a in state.approvals),
        uncertain=tuple(one for one in may_have_run(state) if one not in left),
        children=tuple(child.child_id for child in state.children),
    )


def following(state: State, tenant: str, session_id: str, now_ms: int) -> r.EventBody | None:
    """The next fact, where nothing is open that it has to wait for."""
    undoing = state.undoing
    if undoing is None or state.hold is not None or state.ended:
        return None
    if undoing.failed:
        return r.SessionHeld(COMPENSATION_FAILED, _told(state, undoing))
    if state.activities or state.uncertain or state.children:
        return None
    if not state.registered:
        return _ended(state, undoing)
    if any(over_by_ms > now_ms for over_by_ms, _ in awaited_by(state)):
        return None
    last = state.registered[-1]
    return _request(state, undoing, last, (tenant, session_id), now_ms)


def running(state: State) -> list[tuple[str, int]]:
    """The newest attempts of what is open or in doubt."""
    open_ones = [(a.activity_id, a.attempt) for a in state.activities]
    return open_ones + [(u.activity_id, u.attempt) for u in state.uncertain]


def may_have_run(state: State) -> list[str]:
    """Those of which an attempt was dispatched."""
    never = {
        a.activity_id for a in state.activities if a.withheld_ms is not None and a.attempt == 1
    }
    return [activity_id for activity_id, _ in running(state) if activity_id not in never]


def _request(
    state: State, undoing: Undoing, last: Registered, place: tuple[str, str], now_ms: int
) -> r.ActivityRequested:
    """Tried again it is the same activity, under the same key: only its attempts go on."""
    undo = last.compensation
    activity_id = undoing.activity_id or f"{state.turn}.{state.steps + 1}"
    return r.ActivityRequested(
        activity_id=activity_id,
        turn=state.turn,
        step=int(activity_id.partition(".")[2]),
        name=undo.name,
        queue=undo.queue,
        contract=undo.contract,
        arguments=undo.arguments,
        digest=undo.digest,
        idempotency_key=effect_key(*place, activity_id),
        attempt=undoing.attempts + 1,
        start_to_close_ms=undo.start_to_close_ms,
        deadline_ms=now_ms + undo.schedule_to_close_ms,
        approval=verdicts.UNGATED,
        proposal_id=None,
        retry=undo.retry,
        settle_ms=undo.settle_ms,
        heartbeat_ms=undo.heartbeat_ms,
        untrusted=undo.untrusted,
        compensates=last.activity_id,
    )


def _told(state: State, undoing: Undoing) -> str:
    last = state.registered[-1]
    more = len(state.registered) - 1
    behind = f", and {more} more wait behind it" if more else ""
    return (
        f"{last.compensation.name} did not take back {last.name} ({last.activity_id}){behind}: {undoing.failed}; release "
        "the session to try again, or cancel it to leave them as they are"
    )


def _ended(state: State, undoing: Undoing) -> r.SessionCancelled | r.SessionFailed:
    if undoing.cause == FAILED and undoing.failure is not None:
        return r.SessionFailed(
            state.turn,
            undoing.failure,
            messages_unread=len(state.queue),
            done=undoing.done,
            compensated=undoing.compensated,
            uncertain=undoing.uncertain,
            children=undoing.children,
        )
    return _cancelled(state, undoing)


def _cancelled(state: State, undoing: Undoing) -> r.SessionCancelled:
    return r.SessionCancelled(
        undoing.done,
        undoing.undone,
        undoing.uncertain,
        undoing.compensated,
        tuple(one.activity_id for one in reversed(state.registered)),
        (*undoing.children, *(r.ChildEnd(child.child_id, OPEN) for child in state.children)),
    )
