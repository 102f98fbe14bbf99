"""Which commands a session would take now, and why not the others: for consoles, refusals and park events."""

from __future__ import annotations

from collections.abc import Iterator

from ..events.due import awaited_by
from ..events.holding import RESOURCE
from ..events.records import NextValid, Obligation
from ..events.state import OpenActivity, State, Status
from ..events.verdicts import UNCERTAIN
from . import recovering
from .models import RecoverSession
from .repairs import ends_told

ARTIFACTS_SHOWN = 10
"""The last ones that were relied on: an event does not name a thousand."""

CHILDREN_SHOWN = 20
"""Of those that are open; the others are counted."""

_CANCEL = "CancelSession"
_TOO_LATE = frozenset(
    {"SendMessage", "SendSignal", "StartTurn", "StartRun", "ResetSession", "PinSession", _CANCEL}
)


def next_valid(state: State) -> tuple[NextValid, ...]:
    """One entry per external command, in a fixed order."""
    return (
        NextValid("SendMessage", *_send(state)),
        NextValid("DecideApproval", *_decide_approval(state)),
        NextValid("CancelSession", *_cancel(state)),
        NextValid("ReleaseSession", *_release(state)),
        NextValid("SendSignal", *_signal(state)),
        NextValid("StartTurn", *_send(state)),
        NextValid("ResolveActivity", *_resolve(state)),
        NextValid("ChangeArtifact", *_change(state)),
        NextValid("CompleteJob", *_complete(state)),
        NextValid("RecoverSession", *_recover(state)),
        NextValid("ResetSession", *_reset(state)),
        NextValid("PinSession", *_pin(state)),
    )


def obligations(state: State) -> tuple[Obligation, ...]:
    """What the session owes, awaits or holds, each with its expiry rule, in the order it came up."""
    owed = [
        *((a.step, _activity(a)) for a in state.activities),
        *(
            (a.step, Obligation("approval", a.proposal_id, a.name, a.expires_at_ms, "expires"))
            for a in state.approvals
        ),
        *(
            (t.step, Obligation("timer", t.timer_id, "sleep", t.due_ms, "fires"))
            for t in state.timers
        ),
        *(
            (u.step, Obligation(UNCERTAIN, u.activity_id, u.name, None, "waits to be resolved"))
            for u in state.uncertain
        ),
        *(
            (j.step, Obligation("job", j.job_id, j.name, j.expires_at_ms, "expires"))
            for j in state.jobs
        ),
        *((w.step, Obligation(w.kind, w.wait_id, w.name, None, "waits")) for w in state.receives),
        *_children(state),
        *(
            (h.step, Obligation(RESOURCE, h.resource_id, h.kind, h.expires_at_ms, "expires"))
            for h in state.resources
            if not h.gone
        ),
    ]
    ordered = (obligation for _, obligation in sorted(owed, key=lambda pair: pair[0]))
    return (*ordered, *_to_take_back(state))


def _children(state: State) -> Iterator[tuple[int, Obligation]]:
    """Those that expire first, and in one line how many more there are: a park for many is no larger than for some."""
    how = "ends, as it is cancelled" if state.undoing is not None else "expires"
    by_expiry = sorted(state.children, key=lambda child: (child.expires_at_ms, child.step))
    for child in by_expiry[:CHILDREN_SHOWN]:
        due_ms = child.expires_at_ms
        yield child.step, Obligation("child", child.child_id, child.workflow, due_ms, how)
    more = by_expiry[CHILDREN_SHOWN:]
    if more:
        told = f"{len(more)} more children"
        yield more[-1].step, Obligation("child", "", told, more[0].expires_at_ms, how)


def _to_take_back(state: State) -> Iterator[Obligation]:
    """Effects that are still to be taken back, in that order; the one whose turn it is, is an activity by now."""
    if state.undoing is None:
        return
    awaited = {activity_id: over_by_ms for over_by_ms, activity_id in awaited_by(state)}
    for one in reversed(state.registered):
        if one.activity_id == state.undoing.current:
            continue
        until_ms = awaited.get(one.activity_id)
        how = "taken back in its turn" if until_ms is None else "may still happen, then taken back"
        yield Obligation("compensation", one.activity_id, one.name, until_ms, how)


def why_ended(state: State) -> str:
    """The sentence for a session to which nothing can happen any more."""
    return f"the session is {state.status.lower()}: open a new one"


def why_ending(state: State, command: str) -> str:
    """The sentence for what comes too late to a session that takes back what it did; empty for what does not.

    Held meanwhile, it can be cancelled once more, and leaves the rest as it is.
    """
    undoing = state.undoing
    if undoing is None or command not in _TOO_LATE or (command == _CANCEL and state.hold):
        return ""
    left = len(state.registered)
    told = f"the session is {undoing.cause}, and takes back what it did ({left} to go): "
    if command == _CANCEL:
        return told + "wait until it has ended; should it be held, release it or cancel it then"
    return told + "open a new one"


def _activity(activity: OpenActivity) -> Obligation:
    """A running attempt fails at the deadline; one that rests runs again before that, and for one that waits no time runs."""
    if activity.waits_for_approval:
        return Obligation(
            "activity", activity.activity_id, activity.name, None, "waits for approval"
        )
    told, due_ms = "fails", activity.deadline_ms
    if activity.retry is not None and activity.retry_due_ms is not None:
        told = f"runs as attempt {activity.attempt + 1} of {activity.retry.attempts_max}"
        due_ms = activity.retry_due_ms
    return Obligation("activity", activity.activity_id, activity.name, due_ms, told)


def _send(state: State) -> tuple[bool, str]:
    if why := _too_late(state, "SendMessage"):
        return False, why
    if state.hold is not None:
        return True, "kept until an operator releases the session, then decided in order"
    idle = state.status in (Status.OPENED, Status.SUSPENDED)
    return True, "starts a turn at once" if idle else "queues behind the running turn"


def _cancel(state: State) -> tuple[bool, str]:
    if why := _too_late(state, _CANCEL):
        return False, why
    return True, "ends the session for good"


def _too_late(state: State, command: str) -> str:
    return why_ended(state) if state.ended else why_ending(state, command)


def _decide_approval(state: State) -> tuple[bool, str]:
    if state.ended:
        return False, why_ended(state)
    if not state.approvals:
        return False, "no approval is open"
    return True, ", ".join(f"{a.proposal_id} ({a.name}) by {a.approver}" for a in state.approvals)


def _release(state: State) -> tuple[bool, str]:
    if state.hold is None:
        return False, "the session is not held"
    return True, f"held: {state.hold.reason}"


def _signal(state: State) -> tuple[bool, str]:
    if why := _too_late(state, "SendSignal"):
        return False, why
    awaited = [receive.name for receive in state.receives if receive.kind == "signal"]
    return True, f"awaited: {', '.join(awaited)}" if awaited else "kept until a turn asks for it"


def _change(state: State) -> tuple[bool, str]:
    if state.ended:
        return False, why_ended(state)
    if not state.artifacts:
        return False, "the session relies on no artifact"
    return True, ", ".join(a.artifact_id for a in state.artifacts[-ARTIFACTS_SHOWN:])


def _complete(state: State) -> tuple[bool, str]:
    if state.ended:
        return False, why_ended(state)
    if not state.jobs:
        return False, "no job is awaited"
    return True, ", ".join(f"{j.job_id} ({j.name})" for j in state.jobs)


def _reset(state: State) -> tuple[bool, str]:
    if why := _too_late(state, "ResetSession"):
        return False, why
    if not state.turn:
        return False, "no turn has begun"
    return True, f"to the end of turn {ends_told(state)}"


def _pin(state: State) -> tuple[bool, str]:
    if why := _too_late(state, "PinSession"):
        return False, why
    if state.pinned:
        return True, f"turns begin on version {state.pinned}, until that is taken back"
    return True, "turns begin on that version from then on"


def _recover(state: State) -> tuple[bool, str]:
    if state.ended:
        return False, why_ended(state)
    running = ", ".join(
        f"{a.activity_id} attempt {a.attempt} ({a.name})" for a in recovering.running(state)
    )
    if running:
        return True, f"gives up what has stalled: {running}"
    nothing = recovering.why_not(state, RecoverSession("", 0, ""))
    return (True, "drives it again") if nothing is None else (False, nothing[1])


def _resolve(state: State) -> tuple[bool, str]:
    if state.ended:
        return False, why_ended(state)
    if not state.uncertain:
        return False, "no activity is uncertain"
    return True, ", ".join(f"{u.activity_id} ({u.name})" for u in state.uncertain)
