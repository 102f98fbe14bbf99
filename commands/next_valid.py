"""Which commands a session would take now, and why not the others: for consoles, refusals and park events."""

from __future__ import annotations

from ..events.records import NextValid, Obligation
from ..events.state import OpenActivity, State, Status
from ..events.verdicts import UNCERTAIN

ARTIFACTS_SHOWN = 10
"""The last ones that were relied on: an event does not name a thousand."""


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
    )


def obligations(state: State) -> tuple[Obligation, ...]:
    """What the session owes or awaits, each with its expiry rule, in the order it came up."""
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
    ]
    return tuple(obligation for _, obligation in sorted(owed, key=lambda pair: pair[0]))


def why_ended(state: State) -> str:
    """The sentence for a session to which nothing can happen any more."""
    return f"the session is {state.status.lower()}: open a new one"


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
    if state.ended:
        return False, why_ended(state)
    if state.hold is not None:
        return True, "kept until an operator releases the session, then decided in order"
    idle = state.status in (Status.OPENED, Status.SUSPENDED)
    return True, "starts a turn at once" if idle else "queues behind the running turn"


def _cancel(state: State) -> tuple[bool, str]:
    return (False, why_ended(state)) if state.ended else (True, "ends the session for good")


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
    if state.ended:
        return False, why_ended(state)
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


def _resolve(state: State) -> tuple[bool, str]:
    if state.ended:
        return False, why_ended(state)
    if not state.uncertain:
        return False, "no activity is uncertain"
    return True, ", ".join(f"{u.activity_id} ({u.name})" for u in state.uncertain)
