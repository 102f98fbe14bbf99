"""Steps and tokens that a turn of an agent may use, and the action by which somebody lets it go on for more."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field

from ..activities.contracts import Write
from ..activities.definitions import Action, Activity, activity
from ..activities.rules import Needs
from ..activities.signatures import Declined
from ..workflow.approval import Approval
from ..workflow.errors import ActivityError
from ..workflow.turn import Turn
from .conversation import Conversation

Count = Annotated[int, Field(ge=0)]


@dataclass(frozen=True, slots=True)
class Budget:
    """What a turn has without asking, null where there is no limit, and who lets it go on."""

    steps: int | None
    tokens: int | None
    goes_on: Activity[None]

    def begin(self, talk: Conversation) -> None:
        """A turn begins, and has all of it."""
        talk.steps_allowed = self.steps or 0
        talk.tokens_allowed = self.tokens or 0

    def missing(self, talk: Conversation) -> Action[None] | None:
        """What has to be allowed before the model is asked again: as much as there was, of what is used up."""
        steps = self.steps if self.steps is not None and talk.steps >= talk.steps_allowed else 0
        spent = self.tokens is not None and talk.tokens >= talk.tokens_allowed
        tokens = self.tokens if spent and self.tokens is not None else 0
        return self.goes_on.call(steps, tokens) if steps or tokens else None

    async def renew(self, turn: Turn, talk: Conversation, missing: Action[None]) -> str:
        """Asks for more; why there is none, in words, or nothing where somebody has allowed it."""
        asked = await turn.approval(missing)
        if not asked.granted:
            return not_granted(asked)
        try:
            await turn.run(asked.action)
        except ActivityError as error:
            return error.failure.message
        talk.steps_allowed += asked.action.arguments["steps"]
        talk.tokens_allowed += asked.action.arguments["tokens"]
        return ""


def budget_of(
    name: str, told: str, *, steps: int | None, tokens: int | None, rule: Needs, queue: str
) -> Budget:
    """The budget of an agent; `name` is that of the action that is proposed when it is used up."""
    for what, most in (("steps_max", steps), ("tokens_max", tokens)):
        if most is not None and (isinstance(most, bool) or not isinstance(most, int) or most < 1):
            raise Declined(
                f"{told} has {what}={most!r}: give a whole number from 1, or None for no limit"
            )

    async def go_on(steps: Count, tokens: Count) -> None:
        """Lets the turn go on for so many more calls of its model, and so many more tokens."""

    declared = activity(
        contract=Write(idempotent=True), name=name, queue=queue, timeout="10s", approval=rule
    )
    return Budget(steps, tokens, declared(go_on))


def not_granted(asked: Approval[Any]) -> str:
    """How a proposal ended that nobody granted."""
    if asked.decision == "answered":
        return f"{asked.actor} answers instead: {asked.answer}"
    if asked.decision == "expired":
        return "nobody approved it in time"
    because = f": {asked.comment}" if asked.comment else ""
    return f"{asked.actor} declined it{because}"
