"""What processors tell each other about children, for the sessions that they own: begin, end, be cancelled.

Each of these commands is written with the fact that it follows from, in one transaction, and its id is derived: so it is
there once, unless somebody copies it. What fences it is the child's id. A child is opened once, an end is a fact once, and
only where somebody waits for it; of one that nobody waits for any more it is recorded that it came late, once.
"""

from __future__ import annotations

from ..events import records as r
from ..events.failures import CHILD_CANCELLED, CHILD_FAILED, CHILD_NOT_STARTED
from ..events.state import State
from ..events.verdicts import CANCELLED, COMPLETED, EXPIRED, FAILED, WITHDRAWN
from . import models as m

CHANNEL = "child"
"""How these commands come in."""

SHOWN_MAX = 200
"""Characters of an id in a sentence."""

OWN = "wakeful."
"""How the names of workflows begin that are in the engine, whichever app is loaded."""

CANCELLED_WITH = "the session that opened it has ended"
EXPIRED_WITH = "it had not ended in time"
"""Why a child is cancelled, where nobody gives another reason."""


def start_id(child_id: str) -> str:
    """The id of the command that opens a child; that of its first message, too."""
    return f"start:{child_id}"


def why_not_started(
    body: m.StartChild, workflows: frozenset[str], now_ms: int
) -> tuple[str, str, str] | None:
    """Why a child is not opened of which there is nothing yet: the check that fails, its reason, and a sentence."""
    if now_ms >= body.parent.deadline_ms:
        told = f"its parent waited for it until {body.parent.deadline_ms}, and the log's time is {now_ms}"
        return "freshness", "too_late", told
    if body.workflow in workflows:
        return None
    told = f"no workflow {body.workflow[:SHOWN_MAX]!r} is loaded here (loaded: {named(workflows)}): load it, or name one of these"
    return "scope", "unknown_workflow", told


def named(workflows: frozenset[str]) -> str:
    """The workflows of the app that is loaded, for people: those of the engine itself are nobody's choice."""
    return ", ".join(sorted(w for w in workflows if not w.startswith(OWN))) or "none"


def opened(body: m.StartChild) -> r.SessionOpened:
    """The first fact of a child."""
    return r.SessionOpened(body.workflow, body.attributes, body.parent, body.tainted_by)


def why_not_again(state: State | None, body: m.StartChild) -> tuple[str, str, str] | None:
    """What is wrong with opening a session that is there; nothing where it is this very child, and so a repeat."""
    parent = None if state is None else state.parent
    if parent is not None and parent.session_id == body.parent.session_id:
        return None
    return "ordering", "already_open", "a session of this id is there, and is no child of this one"


def is_its_child(state: State, body: m.CancelChild) -> bool:
    """Whether whoever cancels it has opened it."""
    return state.parent is not None and state.parent.session_id == body.parent_id


def ended(state: State, body: m.EndChild) -> list[r.EventBody]:
    """What its end means for the session that opened it; nothing for a repeat, and for one that has ended itself."""
    if any(child.child_id == body.child_id for child in state.children):
        return [_end(body)]
    for past in state.past_children:
        if past.child_id == body.child_id and past.end in (EXPIRED, WITHDRAWN):
            return [r.LateChildRecorded(body.child_id, body.end, body.result, body.failure)]
    return []


def withdrawals(state: State, told: str) -> list[r.EventBody]:
    """The end of the wait for each child that is open; a command cancels it."""
    return [r.ChildWithdrawn(child.child_id, told) for child in state.children]


def not_started(command: m.Command, check_failed: str, told: str) -> m.EndChild | None:
    """What the parent is told where its child was not opened; nothing for a command that opens none."""
    if not isinstance(command.body, m.StartChild):
        return None
    failure = r.Failure(CHILD_NOT_STARTED, check_failed, told, "")
    return m.EndChild(command.header.session_id, FAILED, None, failure)


def end_of(child_id: str, body: r.EventBody, tainted_by: tuple[str, ...]) -> m.EndChild | None:
    """What a child tells its parent with this fact, if it is its end."""
    match body:
        case r.SessionCompleted():
            return m.EndChild(child_id, COMPLETED, body.outcome, None, tainted_by)
        case r.SessionFailed():
            of_child = body.failure
            failure = r.Failure(CHILD_FAILED, of_child.type or of_child.kind, of_child.message, "")
            return m.EndChild(child_id, FAILED, None, failure, tainted_by)
        case r.SessionCancelled():
            return m.EndChild(child_id, CANCELLED, None, None, tainted_by)
        case _:
            return None


def failure_of(body: r.ChildFailed | r.ChildCancelled) -> r.Failure:
    """What its parent is told of a child that did not complete."""
    if isinstance(body, r.ChildFailed):
        return body.failure
    return r.Failure(CHILD_CANCELLED, "", "it was cancelled", "")


def _end(body: m.EndChild) -> r.EventBody:
    if body.end == COMPLETED and body.result is not None:
        return r.ChildCompleted(body.child_id, body.result, body.tainted_by)
    if body.failure is not None:
        return r.ChildFailed(body.child_id, body.failure, body.tainted_by)
    return r.ChildCancelled(body.child_id, body.tainted_by)
