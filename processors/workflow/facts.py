"""Which facts a workflow asks for, which end its waits, and how a replay tells one from another."""

from __future__ import annotations

from ...events import records as r

STARTS = r.TurnStarted | r.TurnContinued
"""Facts that run the function from its top; a journal begins with one."""

ASKED = (
    r.ActivityRequested
    | r.ApprovalRequested
    | r.TimerSet
    | r.SignalAwaited
    | r.InboxAwaited
    | r.JobAwaited
    | r.ChildStarted
    | r.RunStarted
    | r.ReplySent
    | r.VersionMarked
    | r.ArtifactRecorded
    | r.AttributesSet
    | r.CompensationsReleased
    | r.ResourceAttached
    | r.ResourceReattached
    | r.ResourceReleased
    | r.TurnContinued
    | r.TurnCompleted
    | r.SessionCompleted
    | r.SessionFailed
    | r.TimerCancelled
    | r.ApprovalWithdrawn
    | r.ActivityCancelled
    | r.WaitWithdrawn
    | r.JobWithdrawn
    | r.ChildWithdrawn
)
"""Facts that a workflow asks for; the last six where `first` lets a wait go. See `is_asked` for one that may not be."""

WAITS = (
    r.ActivityRequested
    | r.ApprovalRequested
    | r.TimerSet
    | r.SignalAwaited
    | r.InboxAwaited
    | r.JobAwaited
    | r.ChildStarted
)
"""Those among them that begin a wait."""

INFORMS = r.ApprovalRequested | r.ArtifactChanged | r.ResourceExpired
"""Facts that a stretch takes note of without going on, where it has not asked for them."""

RESOLVES = (
    r.ActivityCompleted
    | r.ActivityFailed
    | r.ActivityUncertain
    | r.ActivityResolved
    | r.ApprovalGranted
    | r.ApprovalRejected
    | r.ApprovalExpired
    | r.ApprovalAnswered
    | r.TimerFired
    | r.SignalDelivered
    | r.InboxTaken
    | r.JobCompleted
    | r.JobFailed
    | r.JobExpired
    | r.ChildCompleted
    | r.ChildFailed
    | r.ChildCancelled
    | r.ChildExpired
)
"""Facts that end a wait, or may (`ActivityUncertain`); every other one passes the workflow by."""


def is_asked(body: r.EventBody) -> bool:
    """Whether a workflow asked for it: a proposal that takes another one's place, or that policy wants, is the engine's own."""
    return isinstance(body, ASKED) and not (
        isinstance(body, r.ApprovalRequested)
        and (body.supersedes is not None or body.activity_id is not None)
    )


def describe(body: r.EventBody) -> str:
    """One asked-for fact in words, with the digest that tells it from its like."""
    match body:
        case r.ActivityRequested():
            undo = body.compensation
            back = f", taken back by {undo.name} {undo.digest.hex()[:12]}" if undo else ""
            return f"activity {body.name} with arguments {body.digest.hex()[:12]}{back}"
        case r.ApprovalRequested():
            return f"approval of {body.name} with arguments {body.digest.hex()[:12]}"
        case r.TimerSet():
            return f"sleep until {body.due_ms}"
        case r.SignalAwaited():
            return f"wait for signal {body.name!r}"
        case r.InboxAwaited():
            return "wait for a message" if body.wait else "look into the inbox"
        case r.JobAwaited():
            return f"job {body.name!r}"
        case r.ChildStarted():
            return f"child {body.workflow!r} with input {body.input.digest.hex()[:12]}"
        case r.RunStarted():
            return f"run {body.run_id!r} of {body.workflow!r}, {body.reason!r}, with {body.data.digest.hex()[:12]}"
        case r.ReplySent():
            return f"reply {body.message.digest.hex()[:12]}"
        case r.VersionMarked():
            return f"version mark {body.change!r}"
        case r.ArtifactRecorded():
            return f"artifact {body.artifact_id!r} in version {body.version!r}"
        case r.AttributesSet():
            now = [f"{a.name}={a.value}" for a in body.attributes if a.name in body.changed]
            return f"attributes {', '.join(body.changed)}, now {', '.join(now) or 'none'}"
        case r.CompensationsReleased():
            return "that what was done stands"
        case r.ResourceAttached() | r.ResourceReattached():
            again = " again" if isinstance(body, r.ResourceReattached) else ""
            back = (
                f", given back by {body.release.name} {body.release.digest.hex()[:12]}"
                if body.release
                else ""
            )
            return f"resource {body.kind!r} attached{again}, handle {body.handle.digest.hex()[:12]}{back}"
        case r.ResourceReleased():
            return f"resource {body.kind!r} released"
        case r.SessionHeld():
            told = body.detail.strip().splitlines()
            return f"hold: {body.reason}: {told[-1] if told else ''}"
        case _:
            return _describe_end(body)


def _describe_end(body: r.EventBody) -> str:
    match body:
        case r.TurnContinued():
            return f"again with state {body.state.digest.hex()[:12]}"
        case r.TurnCompleted():
            return f"end of turn with state {body.state.digest.hex()[:12]}"
        case r.SessionCompleted():
            return f"completion with outcome {body.outcome.digest.hex()[:12]}"
        case r.SessionFailed():
            return f"failure {body.failure.kind}"
        case r.TimerCancelled():
            return f"withdrawal of sleep {body.timer_id}"
        case r.ApprovalWithdrawn():
            return f"withdrawal of approval {body.proposal_id}"
        case r.ActivityCancelled():
            return f"cancellation of activity {body.activity_id}"
        case r.JobWithdrawn():
            return f"withdrawal of job {body.job_id}"
        case r.ChildWithdrawn():
            return f"withdrawal of child {body.child_id}"
        case r.WaitWithdrawn():
            return f"withdrawal of wait {body.wait_id}"
        case _:
            return type(body).__name__


def step_of(body: r.EventBody | None) -> int:
    """The step that a fact is the record of, or how many there were when it ended them."""
    step = getattr(body, "step", None)
    return step if isinstance(step, int) else int(getattr(body, "steps", 0))
