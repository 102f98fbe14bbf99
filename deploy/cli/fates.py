"""What became of an approval, and of the action that it is for, by the session's facts from the decision on. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...commands.decisions import EDITED
from ...events import records as r
from ...events.failures import FORBIDDEN
from ..exits import Exit
from ..telling.words import resolving

if TYPE_CHECKING:
    from .watching import Rest

Ended = r.ActivityCompleted | r.ActivityFailed | r.ActivityUncertain | r.ActivityCancelled


@dataclass(slots=True)
class Fate:
    """Of the proposal that counts: after an edit the one that took the place of the one that was shown.

    `void` says why, where it is, and `again` which took its place. `end` is how the activity that used it ended.
    """

    proposal_id: str
    edited: bool = False
    voted: bool = False
    granted: bool = False
    void: str = ""
    again: str | None = None
    activity_id: str | None = None
    end: Ended | None = None

    @property
    def is_one_vote(self) -> bool:
        """Whether others must approve as well, so that nothing follows yet."""
        return not self.granted and not self.void and (self.voted or self.edited)


def fate_of(proposal_id: str, facts: Iterable[r.EventBody]) -> Fate:
    """The fate by these facts, in their order; those of other proposals and activities say nothing."""
    fate, before = Fate(proposal_id), None
    for body in facts:
        match body:
            case r.ApprovalVoted(proposal_id=id_) if id_ == fate.proposal_id:
                fate.voted = True
            case r.ApprovalGranted(proposal_id=id_) if id_ == fate.proposal_id:
                fate.granted = True
            case r.ApprovalVoided(proposal_id=id_) if id_ == fate.proposal_id:
                fate.edited, fate.void = body.reason == EDITED, "; ".join(body.drift) or body.reason
            case r.ApprovalRequested(supersedes=id_) if id_ == fate.proposal_id:
                if fate.edited and fate.void:
                    fate.proposal_id, fate.void = body.proposal_id, ""
                else:
                    fate.again = body.proposal_id
            case r.ActivityRequested(proposal_id=id_) if id_ == fate.proposal_id:
                fate.activity_id = body.activity_id
            case r.ActivityRetried() if _goes_out_by(before, fate):
                fate.activity_id = body.activity_id
            case (
                r.ActivityCompleted()
                | r.ActivityFailed()
                | r.ActivityUncertain()
                | r.ActivityCancelled()
            ) if body.activity_id == fate.activity_id:
                fate.end = body
            case _:
                pass  # of something else
        before = body
    return fate


def _goes_out_by(before: r.EventBody | None, fate: Fate) -> bool:
    """Whether the fact before is the grant that a withheld activity waited for: its attempt is the very next fact."""
    return isinstance(before, r.ApprovalGranted) and before.proposal_id == fate.proposal_id


def judged(
    fate: Fate, rest: Rest | None, session_id: str, *, done: str, waits: str = ""
) -> tuple[Exit, str] | None:
    """The exit code and why, where what was approved is not carried out; null where nothing of it is to be told.

    `rest` is where the session came to rest, if that was awaited: only then is it asked what was carried out. `waits` says
    what it waits for there, and `done` what the command did.
    """
    look = f"see 'wakeful explain {session_id}'"
    if fate.is_one_vote:
        told = f"{done}, and others must approve {fate.proposal_id} as well"
        seen = f"{told}: see 'wakeful approval list --session {session_id}'"
        return (Exit.DONE if rest is None else Exit.NOT_IN_TIME), seen
    if fate.void:
        told = f"{done}, and the approval is void, since {fate.void}; {_then(fate, session_id)}"
        return Exit.REFUSED, told
    if rest is None or not rest.status or rest.status in ("Held", "Cancelled"):
        return None
    match fate.end:
        case r.ActivityCompleted():
            return None
        case r.ActivityFailed(failure=failure):
            why = f"{failure.kind}: {failure.message}"
            return Exit.REFUSED, f"{done}, and activity {fate.activity_id} failed ({why}): {look}"
        case r.ActivityUncertain(activity_id=id_, failure=failure):
            why = f"nobody knows whether activity {id_} was carried out ({failure.message})"
            return Exit.REFUSED, f"{done}, and {why}: {resolving(session_id, id_)}"
        case r.ActivityCancelled(reason=reason):
            return Exit.REFUSED, f"{done}, and not carried out ({reason}): {look}"
        case None if rest.status == "Waiting":
            return Exit.NOT_IN_TIME, f"{done}, and not carried out yet: {waits}"
        case None:
            return Exit.REFUSED, f"{done}, and the workflow has not carried it out: {look}"


def _then(fate: Fate, session_id: str) -> str:
    """What comes after an approval that is void, and who has to do what."""
    if fate.again is not None:
        return (
            f"people are asked again: look at {fate.again} in 'wakeful approval list --session {session_id}', "
            f"and mend what speaks against it before it is approved"
        )
    if isinstance(fate.end, r.ActivityFailed | r.ActivityUncertain):
        told = f"nobody is asked again: {fate.end.failure.message}"
        if fate.end.failure.kind == FORBIDDEN:
            told += "; see the set with 'wakeful policy show'; once another is published, let the agent ask anew"
        return told
    return f"see 'wakeful explain {session_id}'"
