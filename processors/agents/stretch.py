"""One stretch of an agent's turn: some rounds of think, act and observe, and how a turn ends.

```
budget ─▶ inbox ─▶ too long? ─ yes ─▶ summary ─▶ again
   ▲                   no
   │                   ▼
   │                 model ─ text ─▶ the end
   │                 calls
   │                   ▼
   └── results ◀─ each call: objection? approval? run
```
Nothing here may fail for what a model writes, a tool raises, or a person decides: each of these is a text that the
model reads. What a hook of the user's raises holds the session, as in any workflow.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Generic, Literal, Protocol, TypeVar

from ..activities.definitions import Action, Activity
from ..workflow.definitions import Message
from ..workflow.errors import ActivityError
from ..workflow.turn import Turn
from .acting import Acting, cut, named
from .budget import Budget
from .conversation import Conversation
from .port import Answer, ChatMessage, ToolCall
from .tools import Output, Tool, Wrong

S = TypeVar("S", bound=Conversation)
S_contra = TypeVar("S_contra", bound=Conversation, contravariant=True)

STRETCH_STEPS = 4
"""Calls of the model between two `again`s: a replay goes through no more of them, and a request repeats no more than they
added. Each `again` is one more snapshot of the whole."""

KEPT_MESSAGES = 12
"""The newest messages, which a summary leaves as they are, if they are not more than half of what may be."""

ROUND_RESULTS_MAX = 4
"""Results of one answer together, in results of full length: where there are more, each gets less."""

CALLS_MAX = 64
"""Calls of one answer that are made."""

OUTPUT_TOOL = "answer"

ANSWER_BY_TOOL = f"Give your answer by calling the tool '{OUTPUT_TOOL}'."

SUMMARISE = (
    "Our conversation is getting too long. Do not call a tool now. Write down all that is needed to go on from here: what is "
    "wanted, what was found out, what was done (with ids and amounts), what was declined, and what is left to do."
)


class Agent(Protocol[S_contra]):
    """What a stretch needs to know of its agent; see `AgentLoop`."""

    prompt: ChatMessage
    tools: dict[str, Tool]
    given: dict[str, Callable[[Message], Any]]
    output: Output[Any] | None
    thinks: Activity[Answer]
    budget: Budget
    compact_above: int | None
    on_uncertain: Literal["wait", "raise"]
    result_characters_max: int

    def heard(self, message: Message) -> str: ...
    def objection(
        self, talk: S_contra, action: Action[Any], before: Sequence[Action[Any]]
    ) -> str | None: ...
    def observed(self, talk: S_contra, action: Action[Any], result: Any) -> str: ...
    def is_done(self, talk: S_contra) -> bool: ...
    async def answered(self, turn: Turn, talk: S_contra, answer: Any) -> None: ...
    async def gave_up(self, turn: Turn, talk: S_contra, why: str) -> None: ...


class Stretch(Generic[S]):
    """The state of one stretch; `talk` is decoded afresh for each replay, so it may be changed in place."""

    def __init__(self, agent: Agent[S], turn: Turn, talk: S, message: Message) -> None:
        self._agent = agent
        self._turn = turn
        self._talk = talk
        self._message = message

    async def run(self) -> S:
        """The state to go on from: at the turn's end, or after so many rounds."""
        talk = self._talk
        if talk.turn != self._turn.number:
            talk.turn = self._turn.number
            self._agent.budget.begin(talk)
            self._hear(self._message)
        for _ in range(STRETCH_STEPS):
            if why := await self._why_not():
                return await self._give_up(f"I have stopped before I was done: {why}.")
            if talk.steps:
                for more in await self._turn.inbox():
                    self._hear(more)
            if await self._compacted():
                break
            answer = await self._ask()
            if isinstance(answer, ActivityError):
                told = f"the model gave no answer ({named(answer.failure)})"
                return await self._give_up(f"I cannot go on: {told}.")
            if await self._is_over(answer):
                talk.rest()
                return talk
        return self._turn.again(talk)

    def _hear(self, message: Message) -> None:
        text = self._agent.heard(message)
        self._talk.append(ChatMessage("user", text if text.strip() else "(an empty message)"))

    async def _why_not(self) -> str:
        """Why the model may not be asked again, once somebody has decided where that is needed; nothing where it may."""
        budget = self._agent.budget
        while (missing := budget.missing(self._talk)) is not None:
            if why := await budget.renew(self._turn, self._talk, missing):
                return why
        return ""

    async def _ask(self, *more: ChatMessage) -> Answer | ActivityError:
        asked = [self._agent.prompt, *self._talk.messages, *more]
        try:
            answer = await self._turn.run(self._agent.thinks.call(asked))
        except ActivityError as error:
            return error
        self._talk.count(answer, asked)
        return answer

    async def _give_up(self, why: str) -> S:
        self._talk.append(ChatMessage("assistant", why))
        await self._agent.gave_up(self._turn, self._talk, why)
        self._talk.rest()
        return self._talk

    async def _is_over(self, answer: Answer) -> bool:
        """Takes in the answer, makes its calls, says what is to be said; whether that was the end of the turn."""
        agent, turn, talk = self._agent, self._turn, self._talk
        calls = talk.heard(answer)
        if not calls and agent.output is not None:
            talk.append(ChatMessage("user", ANSWER_BY_TOOL))
            return False
        if not calls:
            await agent.answered(turn, talk, answer.text)
            return True
        given = self._output(calls)
        if given is not None and not isinstance(given, Wrong):
            talk.append(ChatMessage("tool", "Taken.", call_id=calls[0].id))
            await agent.answered(turn, talk, given)
            return True
        await self._act(calls, is_cut=answer.finish == "length")
        if not agent.is_done(talk):
            return False
        if answer.text.strip():
            await agent.answered(turn, talk, answer.text)
        return True

    async def _act(self, calls: Sequence[ToolCall], *, is_cut: bool) -> None:
        """Makes the calls side by side, and appends one result for each, in their order."""
        agent, talk = self._agent, self._talk
        acting = Acting(self._turn, agent.on_uncertain, partial(agent.observed, talk))
        asked = self._actions(calls, is_cut=is_cut)
        results = await self._turn.gather(*map(acting.result, asked))
        most = agent.result_characters_max
        most = min(most, max(1, most * ROUND_RESULTS_MAX // len(calls)))
        for call, result in zip(calls, results, strict=True):
            talk.append(ChatMessage("tool", cut(result, most), call_id=call.id))

    def _actions(self, calls: Sequence[ToolCall], *, is_cut: bool) -> list[Action[Any] | str]:
        """What is to be run for each call, or why nothing is."""
        given = {name: value(self._message) for name, value in self._agent.given.items()}
        actions: list[Action[Any]] = []
        found: list[Action[Any] | str] = []
        for number, call in enumerate(calls, start=1):
            one: Action[Any] | str
            if number > CALLS_MAX:
                one = f"one answer may hold {CALLS_MAX} calls"
            elif is_cut and number == len(calls):
                one = "your answer was cut at its limit of tokens before this call was whole"
            else:
                one = self._action(call, given, actions)
            found.append(one)
            actions += [one] if isinstance(one, Action) else []
        return found

    def _action(
        self, call: ToolCall, given: Mapping[str, Any], before: Sequence[Action[Any]]
    ) -> Action[Any] | str:
        agent = self._agent
        if agent.output is not None and call.name == OUTPUT_TOOL:
            wrong = agent.output.read(call)
            return wrong.told if isinstance(wrong, Wrong) else f"call '{OUTPUT_TOOL}' alone"
        tool = agent.tools.get(call.name)
        if tool is None:
            known = ", ".join(agent.tools) or "none"
            return f"there is no tool {call.name!r}; the tools are: {known}"
        action = tool.action(call, given)
        if isinstance(action, str):
            return action
        return agent.objection(self._talk, action, before) or action

    def _output(self, calls: Sequence[ToolCall]) -> Any:
        """The answer of the wanted type, if these calls are that one alone."""
        output = self._agent.output
        if output is None or len(calls) > 1 or calls[0].name != OUTPUT_TOOL:
            return None
        return output.read(calls[0])

    async def _compacted(self) -> bool:
        """Whether a summary of the older part was asked for; the next stretch begins with what is left."""
        most, talk = self._agent.compact_above, self._talk
        if most is None or talk.context <= max(most, talk.summary_above):
            return False
        at = talk.kept_from(messages_max=KEPT_MESSAGES, tokens_max=most // 2)
        if at <= 1:
            return False  # there is nothing but a summary before what stays
        summary = await self._ask(ChatMessage("user", SUMMARISE))
        if isinstance(summary, ActivityError) or not summary.text.strip():
            talk.summary_above = talk.context + most // 2
        else:
            talk.summarised(summary.text, at)
        return True
