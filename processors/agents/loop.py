"""`AgentLoop`: think, act, observe, as a workflow over activities.

A turn asks the model, makes the calls that it wants (side by side, each by its own rules), shows it their results, and
goes round until it answers. The transcript is the state: what is kept of it, and what is asked of the model, is the
same list, which only grows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from typing_extensions import TypeVar

from ..activities.contracts import Retry
from ..activities.declaring import SCHEDULE_TO_CLOSE_DEFAULT
from ..activities.definitions import Action, Activity
from ..activities.rules import Needs
from ..activities.signatures import Declined
from ..durations import Duration
from ..workflow.definitions import Message, Upgrade, Workflow, checked
from ..workflow.engine import ON_UNCERTAIN
from ..workflow.turn import Turn
from .acting import shown
from .budget import budget_of
from .chat import QUEUE, RETRY_DEFAULT, TIMEOUT_DEFAULT, chat, check_takes_tools
from .conversation import Conversation, read_of
from .port import ChatMessage, ToolModel, ToolSpec
from .stretch import OUTPUT_TOOL, Stretch
from .tools import Output, Tool, digest_of, output_of, tools_of

S = TypeVar("S", bound=Conversation, default=Conversation)

STEPS_MAX_DEFAULT = 50

COMPACT_ABOVE_DEFAULT = 40_000
"""Tokens; about 160 KB of text, so that a transcript fits into one record with room for what is added."""

RESULT_CHARACTERS_MAX = 16_000

SIZE_MIN = 200
"""Tokens of a transcript, or characters of a result: with less there is nothing to go on from."""


class AgentLoop(Workflow[S]):
    """An agent as a workflow: declared once at the top of a module, as `@workflow` functions are.

    `tools` are activities: their names, docstrings and signatures are what the model is told, their contracts and
    approval rules hold as in any workflow. `given` are arguments that the model neither sees nor chooses: by name, a
    function of the message that the turn answers. `output` is a type that the answer has to have.

    `steps_max` calls of the model and `tokens_max` tokens are what a turn may use; then it waits for an approval by
    `budget` to go on for as much again. Above `compact_above` tokens the older part of the transcript is summarised.

    `versions` of each turn name the model, the prompt (`prompt_version`, or its digest) and each tool (its digest).
    Raise `version` where the prompt or these numbers change: a turn ends on the version that it began with.

    What else is to be different is a method of a subclass: `heard`, `objection`, `observed`, `is_done`, `answered`,
    `gave_up`. They run in the workflow: no I/O, no clock, the same at each replay.
    """

    def __init__(
        self,
        *,
        name: str,
        version: int,
        model: ToolModel,
        prompt: str,
        tools: Sequence[Activity[Any]] = (),
        given: Mapping[str, Callable[[Message], Any]] | None = None,
        output: Any = None,
        prompt_version: str | None = None,
        versions: Mapping[str, str] | None = None,
        state: type[S] = Conversation,  # type: ignore[assignment] # as its TypeVar's default says
        upgrade: Upgrade | None = None,
        steps_max: int | None = STEPS_MAX_DEFAULT,
        tokens_max: int | None = None,
        budget: Needs = Needs("supervisor"),  # noqa: B008 it is frozen
        compact_above: int | None = COMPACT_ABOVE_DEFAULT,
        on_uncertain: Literal["wait", "raise"] = "wait",
        result_characters_max: int = RESULT_CHARACTERS_MAX,
        queue: str = QUEUE,
        timeout: Duration = TIMEOUT_DEFAULT,
        schedule_to_close: Duration = SCHEDULE_TO_CLOSE_DEFAULT,
        retry: Retry = RETRY_DEFAULT,
    ) -> None:
        told = f"agent {name!r}"
        version, others = checked(name, version, versions, upgrade)
        check_takes_tools(model)
        _check(told, prompt, on_uncertain, compact_above, result_characters_max)
        self.prompt = ChatMessage("system", prompt)
        self.given = dict(given or {})
        self.tools: dict[str, Tool] = {
            tool.spec.name: tool for tool in tools_of(tools, tuple(self.given), told)
        }
        self.output: Output[Any] | None = None
        if output is not None:
            self.output = output_of(output, OUTPUT_TOOL, told, taken=self.tools)
        self.thinks = chat(
            model,
            tools=self.specs,
            name=f"{name}.v{version}.model",
            queue=queue,
            timeout=timeout,
            schedule_to_close=schedule_to_close,
            retry=retry,
        )
        self.budget = budget_of(
            f"{name}.v{version}.go_on",
            told,
            steps=steps_max,
            tokens=tokens_max,
            rule=budget,
            queue=queue,
        )
        self.compact_above = compact_above
        self.on_uncertain = on_uncertain
        self.result_characters_max = result_characters_max
        super().__init__(
            self._function(state),
            name=name,
            version=version,
            versions=self._versions(model.name, prompt_version) | others,
            upgrade=upgrade,
        )
        self.activities = (self.thinks, self.budget.goes_on, *tools)

    @property
    def specs(self) -> list[ToolSpec]:
        """The tools as its model is told of them."""
        specs = [tool.spec for tool in self.tools.values()]
        return specs if self.output is None else [*specs, self.output.spec]

    def heard(self, message: Message) -> str:
        """What the model reads of a message, or of what else began the turn."""
        return read_of(message)

    def objection(self, talk: S, action: Action[Any], before: Sequence[Action[Any]]) -> str | None:
        """Why a call may not be made, for the model to read; null where it may.

        It is asked before anybody is asked for approval. `before` are the calls of the same answer that are made.
        """

    def observed(self, talk: S, action: Action[Any], result: Any) -> str:  # noqa: ARG002 for subclasses
        """What the model reads of a tool's result; the place to keep something of it in the state."""
        return shown(action, result)

    def is_done(self, talk: S) -> bool:  # noqa: ARG002 for subclasses
        """Whether the turn ends after these results, without asking the model again."""
        return False

    async def answered(self, turn: Turn, talk: S, answer: Any) -> None:  # noqa: ARG002 for subclasses
        """Says the answer: a text, or the `output`. Here a session may be completed, too."""
        await turn.say(answer)

    async def gave_up(self, turn: Turn, talk: S, why: str) -> None:  # noqa: ARG002 for subclasses
        """Says that the turn ends without an answer, and why."""
        await turn.say(why)

    def _versions(self, model: str, prompt: str | None) -> dict[str, str]:
        """What is active beside the workflow itself; digests of what has no version of its own."""
        return {
            "model": model,
            "prompt": digest_of(self.prompt.content) if prompt is None else prompt,
            **{f"tool {tool.spec.name}": tool.version for tool in self.tools.values()},
            **({"output": digest_of(self.output.spec.parameters)} if self.output else {}),
        }

    def _function(self, state: type[S]) -> Callable[..., Any]:
        async def loop(turn: Turn, state: Any, message: Message) -> Any:
            return await Stretch(self, turn, state, message).run()

        loop.__annotations__ |= {"state": state, "return": state}
        return loop


def _check(
    told: str, prompt: object, on_uncertain: object, compact_above: object, characters_max: object
) -> None:
    if not isinstance(prompt, str) or not prompt.strip():
        raise Declined(f"{told} has prompt={prompt!r}: say in a text what it is there for")
    if on_uncertain not in ON_UNCERTAIN:
        raise Declined(
            f"{told} has on_uncertain={on_uncertain!r}: write 'wait' (a person resolves it) or 'raise' (the model is told)"
        )
    for what, number in (
        ("compact_above", compact_above),
        ("result_characters_max", characters_max),
    ):
        if number is None and what == "compact_above":
            continue
        if isinstance(number, bool) or not isinstance(number, int) or number < SIZE_MIN:
            raise Declined(f"{told} has {what}={number!r}: give a whole number from {SIZE_MIN}")
