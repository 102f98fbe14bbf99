"""`durable`: an agent of Pydantic AI as a workflow, each request to its model and each call of a tool an activity."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import version as version_of
from typing import Any, Literal

from pydantic_ai import Agent
from pydantic_ai.models import Model
from pydantic_ai.usage import UsageLimits

from ...activities.contracts import Retry
from ...activities.declaring import SCHEDULE_TO_CLOSE_DEFAULT
from ...activities.signatures import Declined
from ...durations import Duration
from ...workflow.definitions import Message, Upgrade, Workflow, checked
from ...workflow.engine import ON_UNCERTAIN
from ...workflow.turn import Turn
from ..chat import QUEUE, TIMEOUT_DEFAULT
from ..conversation import read_of
from .asking import RETRY_DEFAULT, asks
from .rounds import Rounds
from .serving import Deps
from .talk import Talk
from .tools import Known, Rules, tools_of


class DurableAgent(Workflow[Talk]):
    """What `durable` makes of an agent: a workflow whose state is the agent's history.

    What is to be different is a method of a subclass: `heard`, `answered`, `gave_up`. They run in the workflow: no I/O,
    no clock, the same at each replay.

    `tools` are rules by a tool's name; a tool without is called at most once, when a supervisor has approved the call.
    `deps` makes the agent's deps for each attempt, of what is known of its session. `limits` count for a turn.
    `prefix` comes before the names of tools in those of their activities, by default `name.`: versions that are loaded
    together need one each. Raise `version` where the agent's instructions or tools change.
    """

    def __init__(
        self,
        agent: Agent[Any, Any],
        *,
        version: int,
        name: str | None = None,
        tools: Mapping[str, Rules] | None = None,
        deps: Deps | None = None,
        limits: UsageLimits | None = None,
        prefix: str | None = None,
        versions: Mapping[str, str] | None = None,
        upgrade: Upgrade | None = None,
        on_uncertain: Literal["wait", "raise"] = "wait",
        queue: str = QUEUE,
        timeout: Duration = TIMEOUT_DEFAULT,
        schedule_to_close: Duration = SCHEDULE_TO_CLOSE_DEFAULT,
        retry: Retry = RETRY_DEFAULT,
    ) -> None:
        named = _checked(agent, name, deps, on_uncertain)
        counted, others = checked(named, version, versions, upgrade)
        self.agent = agent
        self.on_uncertain = on_uncertain
        self.tools: dict[str, Known] = tools_of(
            agent,
            tools or {},
            told=f"agent {named!r}",
            prefix=f"{named}." if prefix is None else prefix,
            queue=queue,
            deps=deps,
        )
        self.asks = asks(
            agent,
            name=f"{named}.v{counted}.model",
            deps=deps,
            limits=limits or UsageLimits(),
            queue=queue,
            timeout=timeout,
            schedule_to_close=schedule_to_close,
            retry=retry,
        )
        super().__init__(
            self._function(),
            name=named,
            version=counted,
            versions=self._versions() | others,
            upgrade=upgrade,
        )
        self.activities = (self.asks, *(known.activity for known in self.tools.values()))

    def heard(self, message: Message) -> str:
        """What the model reads of a message, or of what else began the turn."""
        return read_of(message)

    async def answered(self, turn: Turn, talk: Talk, output: Any) -> None:  # noqa: ARG002 for subclasses
        """Says the output: a text, or the JSON of what the agent's type makes. Here a session may be completed, too."""
        await turn.say(output)

    async def gave_up(self, turn: Turn, talk: Talk, why: str) -> None:  # noqa: ARG002 for subclasses
        """Says that the turn ends without an answer, and why."""
        await turn.say(why)

    def _versions(self) -> dict[str, str]:
        """What is active beside the workflow itself."""
        model = self.agent.model
        return {
            "pydantic-ai": version_of("pydantic-ai-slim"),
            "model": model.model_name if isinstance(model, Model) else str(model),
            **{f"tool {name}": known.version for name, known in self.tools.items()},
        }

    def _function(self) -> Any:
        async def rounds(turn: Turn, talk: Talk, message: Message) -> Talk:
            return await Rounds(self, turn, talk, message).run()

        return rounds


def durable(agent: Agent[Any, Any], *, version: int, **options: Any) -> DurableAgent:
    """The agent as a workflow, at the top of a module; `DurableAgent` says what the options are."""
    return DurableAgent(agent, version=version, **options)


def _checked(agent: object, name: str | None, deps: object, on_uncertain: object) -> str:
    """The agent's name, where a workflow can be made of it."""
    if not isinstance(agent, Agent):
        raise Declined(f"durable() has {agent!r}: give a pydantic_ai.Agent")
    named = name or agent.name
    if not named:
        raise Declined(
            f"{agent!r} has no name: write Agent(…, name='desk'), or durable(…, name='desk')"
        )
    if agent.model is None:
        raise Declined(f"agent {named!r} has no model: write Agent('provider:model', …)")
    if deps is not None and not callable(deps):
        raise Declined(
            f"agent {named!r} has deps={deps!r}: give a function of 'access' that makes them on the worker"
        )
    if on_uncertain not in ON_UNCERTAIN:
        raise Declined(
            f"agent {named!r} has on_uncertain={on_uncertain!r}: write 'wait' (a person resolves it) or 'raise' (the model is told)"
        )
    return named
