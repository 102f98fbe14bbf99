"""What a workflow is told about an approval that it asked for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic

from typing_extensions import TypeVar

from ...events.payloads import load_json
from ...events.verdicts import APPROVED
from ..activities.definitions import Action
from .answers import Ended

NOT_NEEDED = "not_needed"

R_co = TypeVar("R_co", covariant=True, default=Any)


@dataclass(frozen=True, slots=True)
class Approval(Generic[R_co]):
    """How a proposal ended: `decision` is approved, rejected, expired, answered or not_needed.

    `action` is what may be run: the action that was asked for, or what an approver made of it. `answer` is what was
    said instead of a decision, for the model to read; a text where it is one.
    """

    granted: bool
    decision: str
    actor: str
    comment: str
    action: Action[R_co]
    answer: Any = None


def approval_of(action: Action[R_co], ended: Ended) -> Approval[R_co]:
    """In a workflow's words what `answers.py` has read in the log."""
    answer = None if ended.answer is None else load_json(ended.answer)
    if isinstance(answer, dict) and set(answer) == {"text"}:
        answer = answer["text"]
    if ended.arguments is not None:
        action = Action(action.activity, load_json(ended.arguments))
    granted = ended.decision == APPROVED
    return Approval(granted, ended.decision, ended.actor, ended.comment, action, answer)
