"""A session's events as a story in words: per turn what was asked, done, decided and said. No clock and no I/O.

What belongs together is one line: a call with its failures and its result, a request with its decision.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ...events import records as r
from ...events.failures import TAKEN_OVER
from ...events.state import MESSAGE
from ...events.verdicts import EXPIRED
from .text import last_line, shown_text, span, when
from .words import TEXT_MAX, WHY_MAX, as_json, withheld

LINE_MAX = 400


@dataclass(slots=True)
class Line:
    """One thing that happened: when it began, and what became of it."""

    at_ms: int
    text: str


@dataclass(slots=True)
class Chapter:
    """What happened in one turn; in the first one, before any turn."""

    title: str
    turn: int
    at_ms: int
    lines: list[Line] = field(default_factory=list)


@dataclass(slots=True)
class Story:
    """All chapters, and since when each open thing stands as it does, by its id."""

    chapters: list[Chapter] = field(default_factory=list)
    queued: dict[str, tuple[Chapter, Line]] = field(default_factory=dict)
    """What was asked for and has started no turn yet, by the id of the message or the trigger."""
    since_ms: dict[str, int] = field(default_factory=dict)


Tell = Callable[[r.Envelope, Any], str]


def _said(payload: r.Payload) -> str:
    return shown_text(as_json(payload), TEXT_MAX)


def _why(failure: r.Failure) -> str:
    return shown_text(": ".join(filter(None, (failure.kind, failure.message))), WHY_MAX)


def _how_begun(reason: str) -> str:
    return ", which another worker may have begun" if reason == TAKEN_OVER else " unrun"


def _stalled(body: r.RecoveryRequested) -> str:
    if not body.activity_id:
        return "the session, which did not go on"
    return f"activity {body.activity_id}, whose attempt {body.attempt} had stalled"


def _noted(comment: str, before: str = " ") -> str:
    return f"{before}({shown_text(comment, TEXT_MAX)})" if comment else ""


def _withheld(
    body: r.ActivityRequested | r.ActivityRetried | r.ActivityReturned, attempt: int
) -> str:
    told = withheld(body)
    return f"; attempt {attempt} was {told}" if told else ""


def _asks(body: r.ApprovalRequested) -> str:
    """Why it is asked where the code did not: policy wants it, or what was shown before is void."""
    return f", since {'; '.join(body.because)}" if body.because else ""


def _attributes(body: r.AttributesSet) -> str:
    return ", ".join(f"{one.name}={one.value}" for one in body.attributes) or "nothing"


def _taken_back(body: r.SessionCancelled | r.SessionFailed) -> str:
    """What was taken back, and what was to be and stands; nothing where nothing was."""
    told = f"; taken back: {_names(body.compensated)}" if body.compensated else ""
    return told + (
        f"; not taken back: {_names(body.not_compensated)}" if body.not_compensated else ""
    )


def _stops(body: r.CompensationStarted) -> str:
    """The children that it cancels first."""
    return f"; first it cancels {_names(body.children)}" if body.children else ""


def _called(body: r.ActivityRequested) -> str:
    """How it came to be called: by its workflow, or to take the effect of another back."""
    if body.compensates is None:
        return "called"
    again = ", again," if body.attempt > 1 else ""
    return f"to take back {body.compensates},{again} called"


def _of(body: r.SessionOpened) -> str:
    return f", as a child of {body.parent.session_id}" if body.parent is not None else ""


def _names(ids: tuple[str, ...]) -> str:
    return ", ".join(ids) or "none"


def _ended(body: r.SessionCancelled | r.SessionFailed) -> str:
    """How the children ended that it took with it; nothing where there were none."""
    told = ", ".join(f"{one.child_id} ({one.end})" for one in body.children)
    return f"; children: {told}" if told else ""


def _resource(
    body: r.ResourceAttached | r.ResourceReattached | r.ResourceExpired | r.ResourceReleased,
) -> str:
    return f"{body.kind} ({body.resource_id})"


def _over(body: r.ResourceExpired) -> str:
    """Why it is held no more."""
    if body.failure is not None:
        return f"a tool found it gone ({body.failure.message})"
    return "its time was over" if body.reason == EXPIRED else body.reason


_ENDED = {"completed": "completed", "failed": "failed", "cancelled": "was cancelled"}


OPENS: Mapping[type, tuple[str, Tell]] = {
    r.ActivityRequested: (
        "activity_id",
        lambda _, b: f"{_called(b)} {b.name} ({_said(b.arguments)}){_withheld(b, b.attempt)}",
    ),
    r.ApprovalRequested: (
        "proposal_id",
        lambda _, b: f"asked {b.approver} to approve {b.name} ({_said(b.arguments)}){_asks(b)}",
    ),
    r.TimerSet: ("timer_id", lambda _, b: f"set a timer for {when(b.due_ms)}"),
    r.SignalAwaited: ("wait_id", lambda _, b: f"asked for signal {b.name}"),
    r.JobAwaited: (
        "job_id",
        lambda _, b: f"asked for job {b.name}, until {when(b.expires_at_ms)}",
    ),
    r.ChildStarted: (
        "child_id",
        lambda _, b: f"opened child {b.workflow} ({_said(b.input)}), until {when(b.expires_at_ms)}",
    ),
    r.InboxAwaited: ("wait_id", lambda _, b: f"asked for messages{' to come' if b.wait else ''}"),
}
"""Facts that begin a line: the field with the id under which it goes on, and its words."""

GOES_ON: Mapping[type, tuple[str, Tell]] = {
    r.ActivityRetryScheduled: (
        "activity_id",
        lambda _, b: f"; attempt {b.attempt - 1} failed ({_why(b.failure)})",
    ),
    r.ActivityRetried: (
        "activity_id",
        lambda _, b: _withheld(b, b.attempt) or f"; attempt {b.attempt} began",
    ),
    r.ActivityReturned: (
        "activity_id",
        lambda _, b: (
            f"; attempt {b.attempt} was given back{_how_begun(b.reason)}{_noted(b.reason)}"
            + _withheld(b, b.attempt + 1)
        ),
    ),
    r.ActivityCompleted: (
        "activity_id",
        lambda _, b: f": {_said(b.result)}{' (found by its look-up)' if b.recovered else ''}",
    ),
    r.ActivityFailed: ("activity_id", lambda _, b: f": it failed ({_why(b.failure)})"),
    r.ActivityUncertain: (
        "activity_id",
        lambda _, b: f": nobody knows whether it was done ({_why(b.failure)})",
    ),
    r.ActivityResolved: (
        "activity_id",
        lambda e, b: f"; {e.actor} says that it {b.resolution}{_noted(b.comment)}",
    ),
    r.ActivityCancelled: ("activity_id", lambda _, b: f": no longer wanted{_noted(b.reason)}"),
    r.LateResultRecorded: (
        "activity_id",
        lambda _, b: f"; a late result of attempt {b.attempt} changed nothing",
    ),
    r.ApprovalGranted: ("proposal_id", lambda e, b: f": {e.actor} approved it{_noted(b.comment)}"),
    r.ApprovalRejected: ("proposal_id", lambda e, b: f": {e.actor} declined it{_noted(b.comment)}"),
    r.ApprovalExpired: ("proposal_id", lambda *_: ": nobody decided in time"),
    r.ApprovalVoted: (
        "proposal_id",
        lambda e, b: f": {e.actor} approved it, and others must, too{_noted(b.comment)}",
    ),
    r.ApprovalAnswered: ("proposal_id", lambda e, b: f": {e.actor} said “{_said(b.answer)}”"),
    r.ApprovalVoided: (
        "proposal_id",
        lambda e, b: f": void from {when(e.at_ms)} on, since {'; '.join(b.drift)}",
    ),
    r.ApprovalWithdrawn: ("proposal_id", lambda _, b: f": withdrawn{_noted(b.reason)}"),
    r.TimerFired: ("timer_id", lambda *_: ": it fired"),
    r.TimerCancelled: ("timer_id", lambda _, b: f": no longer wanted{_noted(b.reason)}"),
    r.SignalDelivered: ("wait_id", lambda _, b: f": it came ({_said(b.data)})"),
    r.JobCompleted: (
        "job_id",
        lambda e, b: f": {e.actor} said that it is done ({_said(b.result)})",
    ),
    r.JobFailed: ("job_id", lambda e, b: f": {e.actor} said that it failed ({_why(b.failure)})"),
    r.JobExpired: ("job_id", lambda *_: ": nobody said in time what became of it"),
    r.JobWithdrawn: ("job_id", lambda _, b: f": no longer wanted{_noted(b.reason)}"),
    r.ChildCompleted: ("child_id", lambda _, b: f": it ended with {_said(b.result)}"),
    r.ChildFailed: ("child_id", lambda _, b: f": it failed ({_why(b.failure)})"),
    r.ChildCancelled: ("child_id", lambda *_: ": it was cancelled"),
    r.ChildExpired: ("child_id", lambda *_: ": it had not ended in time, and is cancelled"),
    r.ChildWithdrawn: ("child_id", lambda _, b: f": no longer wanted{_noted(b.reason)}"),
    r.LateChildRecorded: ("child_id", lambda _, b: f"; it {_ENDED[b.end]} after that"),
    r.InboxTaken: (
        "wait_id",
        lambda _, b: (
            f": took {len(b.messages)}"
            + "".join(f", {shown_text(m.actor)} said “{_said(m.message)}”" for m in b.messages)
        ),
    ),
    r.WaitWithdrawn: ("wait_id", lambda _, b: f": no longer wanted{_noted(b.reason)}"),
}
"""Facts that go on with a line."""

SETTLES = (
    *(r.ActivityCompleted, r.ActivityFailed, r.JobCompleted, r.JobFailed),
    *(r.ChildCompleted, r.ChildFailed),
    *(r.ApprovalGranted, r.ApprovalRejected, r.ApprovalAnswered),
)
"""Facts after which it is said how long it took."""

STANDS_ANEW = (
    *OPENS,
    *(r.ActivityRetryScheduled, r.ActivityRetried, r.ActivityReturned, r.ActivityUncertain),
)
"""Facts from which on something stands as it does."""

ALONE: Mapping[type, Tell] = {
    r.SessionOpened: lambda e, b: f"{e.actor} opened it for workflow {b.workflow}{_of(b)}",
    r.MessageReceived: lambda e, b: f"{e.actor} said “{_said(b.message)}”",
    r.TriggerReceived: lambda e, b: f"{e.actor} asked for a turn: {b.trigger}{_noted(b.reason)}",
    r.SignalReceived: lambda e, b: f"{e.actor} sent signal {b.name} ({_said(b.data)})",
    r.RunStarted: lambda _, b: (
        f"set {b.workflow} to work as {b.run_id}: {b.trigger}{_noted(b.reason)}"
    ),
    r.ReplySent: lambda _, b: f"replied “{_said(b.message)}”",
    r.TurnCompleted: lambda _, b: f"the turn was done; steps: {b.steps}",
    r.TurnContinued: lambda _, b: f"went on from the top of its function, stretch {b.stretch}",
    r.VersionMarked: lambda _, b: f"took the new side of change {b.change}",
    r.ArtifactRecorded: lambda _, b: f"relied on {b.artifact_id}, version {b.version}",
    r.AttributesSet: lambda _, b: f"is found by {_attributes(b)}",
    r.ArtifactChanged: lambda e, b: f"{e.actor} said that {b.artifact_id} is {b.version} now",
    r.SessionCompleted: lambda _, b: f"the session ended with {_said(b.outcome)}",
    r.SessionFailed: lambda _, b: (
        f"the session failed ({_why(b.failure)}){_taken_back(b)}{_ended(b)}"
    ),
    r.CancellationRequested: lambda e, b: f"{e.actor} asked it to stop{_noted(b.reason)}",
    r.SessionCancelled: lambda _, b: (
        f"it was cancelled; done: {_names(b.done)}; not run: {_names(b.undone)}; "
        f"nobody knows: {_names(b.uncertain)}{_taken_back(b)}{_ended(b)}"
    ),
    r.CompensationStarted: lambda _, b: (
        f"it {'was stopped' if b.failure is None else f'failed ({_why(b.failure)})'}, and takes back, in this order: "
        f"{_names(b.compensating)}{_stops(b)}"
    ),
    r.ResourceAttached: lambda _, b: f"holds {_resource(b)}, until {when(b.expires_at_ms)}",
    r.ResourceReattached: lambda _, b: f"holds {_resource(b)} again, until {when(b.expires_at_ms)}",
    r.ResourceExpired: lambda _, b: f"holds {_resource(b)} no more: {_over(b)}",
    r.ResourceReleased: lambda _, b: f"gave {_resource(b)} back",
    r.CompensationsReleased: lambda *_: "said that what was done so far stands",
    r.NondeterminismFound: lambda _, b: (
        f"held: step {b.step} was {b.expected}, and the code now does {b.actual}"
    ),
    r.SessionHeld: lambda _, b: f"held: {b.reason}{_noted(last_line(b.detail))}",
    r.CommandParked: lambda e, b: f"kept a {b.command_type} of {e.actor} until it is released",
    r.SessionReleased: lambda e, b: f"{e.actor} released it{_noted(b.reason)}",
    r.SessionReset: lambda e, b: (
        f"{e.actor} took it back to the end of turn {b.to_turn}{_noted(b.reason)}; done since then, and standing: "
        f"{_names(b.done)}; nobody knows: {_names(b.uncertain)}"
        f"{'' if b.message_id is None else '; what the open turn answered is answered again'}"
    ),
    r.SessionPinned: lambda e, b: (
        f"{e.actor} {'took its pin back' if b.version is None else f'pinned it to version {b.version}'}{_noted(b.reason)}"
    ),
    r.RecoveryRequested: lambda e, b: f"{e.actor} recovered {_stalled(b)}{_noted(b.reason)}",
    r.CommandRefused: lambda e, b: (
        f"refused a {b.command_type} of {e.actor}: {b.reason}{_noted(b.detail)}"
    ),
}
"""Facts that are a line of their own. Those that are nowhere say nothing that others do not."""


def tell(events: Iterable[r.Event]) -> Story:
    """The story of these events of one session, in their order; a part of them makes a part of the story."""
    story = Story()
    open_lines: dict[str, Line] = {}
    for event in events:
        envelope, body = event.envelope, event.body
        if isinstance(body, r.TurnStarted):
            _begin(story, envelope, body)
            continue
        if not story.chapters:
            story.chapters.append(Chapter("before that", 0, envelope.at_ms))
        chapter = story.chapters[-1]
        if type(body) in ALONE:
            words = shown_text(ALONE[type(body)](envelope, body), LINE_MAX)
            line = Line(envelope.at_ms, words)
            chapter.lines.append(line)
            if isinstance(body, r.MessageReceived | r.TriggerReceived):
                id_ = body.message_id if isinstance(body, r.MessageReceived) else body.trigger_id
                story.queued[id_] = (chapter, line)
        else:
            _add(story, chapter, open_lines, event)
    return story


def _begin(story: Story, envelope: r.Envelope, body: r.TurnStarted) -> None:
    """A new chapter; what started its turn is told there, and not where it came in."""
    occasion = "" if body.trigger == MESSAGE else f", by {body.trigger}{_noted(body.reason)}"
    title = f"turn {body.turn}{occasion}"
    chapter = Chapter(title, body.turn, envelope.at_ms)
    asked = story.queued.pop(body.message_id or "", None)
    if asked is not None:
        before, line = asked
        before.lines.remove(line)
        chapter.lines.append(line)
        if not before.lines:
            story.chapters.remove(before)
    story.chapters.append(chapter)


def _add(story: Story, chapter: Chapter, open_lines: dict[str, Line], event: r.Event) -> None:
    """Begins a line, or goes on with the one that it belongs to, whatever chapter that is in."""
    envelope, body = event.envelope, event.body
    kind = type(body)
    name, words = OPENS.get(kind) or GOES_ON.get(kind) or ("", None)
    if words is None:
        return
    id_ = getattr(body, name)
    if kind in STANDS_ANEW:
        story.since_ms[id_] = envelope.at_ms
    line = open_lines.get(id_)
    if kind in OPENS or line is None:
        line = Line(envelope.at_ms, "" if kind in OPENS else id_)  # its beginning was not given
        open_lines[id_] = line
        chapter.lines.append(line)
    line.text += words(envelope, body)
    if isinstance(body, r.ApprovalRequested) and (held := open_lines.get(body.activity_id or "")):
        again = "asked" if body.supersedes is None else "asked again"
        held.text += f": {'; '.join(body.because)}; {again}"
    if isinstance(body, SETTLES):
        line.text += f", after {span(max(0, envelope.at_ms - line.at_ms))}"
