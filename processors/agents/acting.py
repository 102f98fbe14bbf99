"""One call of a tool, from what the model wrote to the one result that it reads, whatever happened between."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from ...events.failures import RAISED
from ...events.records import Failure
from ...events.shown import worded
from ..activities.definitions import Action
from ..workflow.errors import ActivityError, Uncertain
from ..workflow.turn import Turn
from .budget import not_granted

NOT_DONE = "Not carried out: "
"""What the result of a call begins with where certainly nothing was done."""

DOUBTFUL = (
    "Nobody knows whether it was carried out ({0.kind}: {0.message}). "
    "Do not call it again; find out first, or tell the user."
)


@dataclass(frozen=True, slots=True)
class Acting:
    """How calls are made. `show` makes the text of a result; what it raises is the agent's own fault."""

    turn: Turn
    on_uncertain: Literal["wait", "raise"]
    show: Callable[[Action[Any], Any], str]

    async def result(self, asked: Action[Any] | str) -> str:
        """The result of a call, or of what is wrong with it."""
        if isinstance(asked, str):
            return f"{NOT_DONE}{asked.rstrip('.')}."
        try:
            needs = asked.needs_approval()
        except Exception as error:  # noqa: BLE001 - the rule of the user's, about what a model wrote
            return f"{NOT_DONE}its approval rule cannot be asked ({worded(error)})."
        if not needs:
            return await self._run(asked)
        approval = await self.turn.approval(asked)
        if not approval.granted:
            return f"{NOT_DONE}{not_granted(approval)}."
        if approval.action.arguments == asked.arguments:
            return await self._run(approval.action)
        changed = json.dumps(approval.action.arguments, ensure_ascii=False)
        told = f"{approval.actor} has changed the arguments to {changed}."
        return f"{told}\n{await self._run(approval.action)}"

    async def _run(self, action: Action[Any]) -> str:
        try:
            result = await self.turn.run(action, on_uncertain=self.on_uncertain)
        except Uncertain as doubt:
            return DOUBTFUL.format(doubt.reason)
        except ActivityError as error:
            return f"Failed ({named(error.failure)}): {error.failure.message}"
        return self.show(action, result)


def named(failure: Failure) -> str:
    """What a failure is called: an exception by its name, without its module, all else by the engine's word."""
    raised = failure.type.rpartition(".")[2] if failure.kind == RAISED else ""
    return raised or failure.kind


def shown(action: Action[Any], result: Any) -> str:
    """A result as text: a text as it is, all else as its JSON."""
    if isinstance(result, str):
        return result
    return json.dumps(action.activity.stored(result), ensure_ascii=False)


def cut(text: str, characters_max: int) -> str:
    """Its beginning, where it is too long for a transcript, and how much is missing."""
    if len(text) <= characters_max:
        return text
    return f"{text[:characters_max]}\n(cut here: {len(text) - characters_max} more characters)"
