"""The turn of a durable agent: ask its model, make the calls that it wants, show it their results, and go round.

Nothing here may fail for what a model writes, a tool raises, or a person decides: each of these is a part of a message
that the model reads. What a hook of the user's raises holds the session, as in any workflow.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import groupby
from typing import Any, Literal, Protocol

from pydantic_ai import ModelMessagesTypeAdapter
from pydantic_ai.messages import ModelRequest, ToolReturnPart

from ....events.shown import worded
from ...activities.definitions import Action, Activity, WrongArguments
from ...workflow.definitions import Message
from ...workflow.errors import ActivityError, Uncertain
from ...workflow.turn import Turn
from ..acting import DOUBTFUL, NOT_DONE, named
from ..budget import not_granted
from .asking import Asked, Step
from .talk import Talk
from .tools import Known

STRETCH_REQUESTS = 4
"""Requests to the model between two `again`s: a replay goes through no more of them."""


class Durable(Protocol):
    """What a turn needs to know of its agent; see `DurableAgent`."""

    tools: dict[str, Known]
    asks: Activity[Step]
    on_uncertain: Literal["wait", "raise"]

    def heard(self, message: Message) -> str: ...
    async def answered(self, turn: Turn, talk: Talk, output: Any) -> None: ...
    async def gave_up(self, turn: Turn, talk: Talk, why: str) -> None: ...


class Rounds:
    """One stretch of a turn; `talk` is decoded afresh for each replay, so it may be changed in place."""

    def __init__(self, agent: Durable, turn: Turn, talk: Talk, message: Message) -> None:
        self._agent = agent
        self._turn = turn
        self._talk = talk
        self._message = message

    async def run(self) -> Talk:
        """The state to go on from: at the turn's end, or after so many requests."""
        agent, turn, talk = self._agent, self._turn, self._talk
        if talk.turn != turn.number:
            talk.begin(turn.number)
            talk.unheard.append(agent.heard(self._message))
        for _ in range(STRETCH_REQUESTS):
            if talk.usage:
                talk.unheard.extend(map(agent.heard, await turn.inbox()))
            try:
                asked = agent.asks.call(talk.messages, talk.unheard, talk.began, talk.usage)
                step = await turn.run(asked)
            except ActivityError as error:
                talk.rest()
                why = f"{named(error.failure)}: {error.failure.message}"
                await agent.gave_up(turn, talk, f"I cannot go on ({why}).")
                return talk
            talk.heard(step.messages, step.usage)
            if step.done:
                talk.rest()
                await agent.answered(turn, talk, step.output)
                return talk
            if step.calls:
                await self._act(step.calls)
        return turn.again(talk)

    async def _act(self, calls: Sequence[Asked]) -> None:
        """Makes the calls side by side, those of sequential tools alone, and appends one request with all results."""
        parts: list[Any] = []
        for alone, group in groupby(calls, key=self._is_alone):
            some = list(group)
            together = [[one] for one in some] if alone else [some]
            for side_by_side in together:
                for result in await self._turn.gather(*map(self._result, side_by_side)):
                    parts.extend(result)
        request = ModelRequest(parts=[], timestamp=self._turn.now())
        stored = ModelMessagesTypeAdapter.dump_python([request], mode="json")[0]
        self._talk.messages.append({**stored, "parts": parts})
        self._talk.called(len(calls))

    def _is_alone(self, call: Asked) -> bool:
        known = self._agent.tools.get(call.tool)
        return known is not None and known.alone

    async def _result(self, call: Asked) -> list[Any]:
        """The parts of one result, whatever happened."""
        known = self._agent.tools.get(call.tool)
        if known is None:
            told = "no rules are known for this tool, so nobody may call it"
            return self._told(call, f"{NOT_DONE}{told}.", "denied")
        try:
            action = known.activity.call(**call.arguments)
            needs = action.needs_approval()
        except WrongArguments as error:
            told = f"the arguments of {call.tool} do not fit: {error.why}"
            return self._told(call, f"{NOT_DONE}{told}.", "failed")
        except Exception as error:  # noqa: BLE001 - a type or a rule of the user's, about what a model wrote
            return self._told(call, f"{NOT_DONE}{worded(error)}.", "failed")
        if not needs:
            return await self._run(call, action)
        approval = await self._turn.approval(action)
        if not approval.granted:
            return self._told(call, f"{NOT_DONE}{not_granted(approval)}.", "denied")
        parts = await self._run(call, approval.action)
        if approval.action.arguments != action.arguments:
            changed = json.dumps(approval.action.arguments, ensure_ascii=False)
            _note(parts[0], f"{approval.actor} has changed the arguments to {changed}.")
        return parts

    async def _run(self, call: Asked, action: Action[list[Any]]) -> list[Any]:
        try:
            parts = await self._turn.run(action, on_uncertain=self._agent.on_uncertain)
        except Uncertain as doubt:
            return self._told(call, DOUBTFUL.format(doubt.reason), "failed")
        except ActivityError as error:
            told = f"Failed ({named(error.failure)}): {error.failure.message}"
            return self._told(call, told, "failed")
        return [
            {**part, "tool_call_id": call.id} if "tool_call_id" in part else part for part in parts
        ]

    def _told(self, call: Asked, text: str, outcome: Literal["denied", "failed"]) -> list[Any]:
        """A result that no tool has made."""
        now = self._turn.now()
        part = ToolReturnPart(call.tool, text, call.id, outcome=outcome, timestamp=now)
        request = ModelRequest(parts=[part], timestamp=now)
        stored: list[Any] = ModelMessagesTypeAdapter.dump_python([request], mode="json")[0]["parts"]
        return stored


def _note(part: dict[str, Any], told: str) -> None:
    """Puts a word of ours before what a tool returned."""
    content = part["content"]
    part["content"] = (
        f"{told}\n{content}" if isinstance(content, str) else {"note": told, "result": content}
    )
