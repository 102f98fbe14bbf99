"""One request to the model, as an activity: the agent runs up to the calls that it wants, and makes none of them.

What runs is the agent itself, with its instructions, capabilities, validators and output types; a capability of ours,
given to this run alone, takes every call of a tool to itself once its arguments are valid. The run is left at once behind
the model's answer, so each request is recorded by itself, and so is each answer that did not fit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from pydantic import BaseModel, TypeAdapter
from pydantic_ai import (
    Agent,
    CallDeferred,
    CallToolsNode,
    DeferredToolRequests,
    ModelMessagesTypeAdapter,
    ModelRequestNode,
    RunContext,
    ToolDefinition,
)
from pydantic_ai.capabilities import AbstractCapability, CapabilityOrdering
from pydantic_ai.exceptions import ModelAPIError, UnexpectedModelBehavior
from pydantic_ai.messages import ModelMessage, ModelRequest, ToolCallPart
from pydantic_ai.run import AgentRun
from pydantic_ai.tools import DeferredToolResults, ToolDenied
from pydantic_ai.usage import RunUsage, UsageLimits
from pydantic_core import to_jsonable_python
from typing_extensions import override

from ...activities.contracts import Read, Retry
from ...activities.definitions import Activity, activity
from ...activities.inside import key_of_call
from ...durations import Duration
from ..errors import FINAL
from .serving import Deps, deps_of, model_failure, no_waits

ARGUMENTS = "arguments"
"""The key of a deferred call's metadata that holds its valid arguments."""

NEVER = (*FINAL, "UserError", "UsageLimitExceeded", "TooManyRetries", "IncompleteToolCall")
"""Failures after which asking again is of no use."""

RETRY_DEFAULT = Retry(attempts=4, never=NEVER)

_USAGE = TypeAdapter(RunUsage)


class Asked(BaseModel):
    """A call that the model wants: its id in the history, the tool's name, and arguments that fit it."""

    id: str
    tool: str
    arguments: dict[str, Any]


class Step(BaseModel):
    """What one request to the model came to.

    `messages` is what it adds to the history, `usage` what the turn has used by now. It is over (`done`, with its
    `output` as JSON), or there are `calls` to make, or the model is to be asked again with what is wrong.
    """

    messages: list[Any]
    usage: dict[str, Any]
    calls: list[Asked] = []
    done: bool = False
    output: Any = None


class TooManyRetries(UnexpectedModelBehavior):
    """The model was told what is wrong as often as the agent's `retries` allow."""


class Deferring(AbstractCapability[Any]):
    """Makes no call, and takes note of what would be called: its `calls`, by their ids."""

    def __init__(self) -> None:
        self.calls: dict[str, Asked] = {}

    @override
    def get_ordering(self) -> CapabilityOrdering | None:
        return CapabilityOrdering(position="outermost")

    @override
    async def prepare_tools(
        self, ctx: RunContext[Any], tool_defs: list[ToolDefinition]
    ) -> list[ToolDefinition]:
        return [
            replace(one, kind="function") if one.kind == "unapproved" else one for one in tool_defs
        ]

    @override
    async def before_tool_execute(
        self, ctx: RunContext[Any], *, call: ToolCallPart, tool_def: ToolDefinition, args: Any
    ) -> Any:
        raise CallDeferred(metadata={ARGUMENTS: to_jsonable_python(args)})

    @override
    async def handle_deferred_tool_calls(
        self, ctx: RunContext[Any], *, requests: DeferredToolRequests
    ) -> DeferredToolResults | None:
        """Answers each with nothing, so that the run goes on to its next request, which is not made."""
        for call in (*requests.calls, *requests.approvals):
            known = requests.metadata.get(call.tool_call_id, {})
            arguments = known[ARGUMENTS] if ARGUMENTS in known else call.args_as_dict()
            self.calls[call.tool_call_id] = Asked(
                id=call.tool_call_id, tool=call.tool_name, arguments=arguments
            )
        return requests.build_results(
            calls={call.tool_call_id: None for call in requests.calls},
            approvals={call.tool_call_id: ToolDenied() for call in requests.approvals},
        )


def asks(
    agent: Agent[Any, Any],
    *,
    name: str,
    deps: Deps | None,
    limits: UsageLimits,
    queue: str,
    timeout: Duration,
    schedule_to_close: Duration,
    retry: Retry,
) -> Activity[Step]:
    """The activity that asks this agent's model once."""

    async def ask(messages: list[Any], texts: list[str], began: int, used: dict[str, Any]) -> Step:
        """Asks the model of the agent once, and makes none of the calls that it wants."""
        history = ModelMessagesTypeAdapter.validate_python(messages)
        check_retries(history[began:])
        deferring = Deferring()
        try:
            with no_waits():
                async with agent.iter(
                    (texts[0] if len(texts) == 1 else texts) or None,
                    message_history=history or None,
                    deps=await deps_of(deps, writes=False),
                    usage=_USAGE.validate_python(used),
                    usage_limits=limits,
                    run_id=key_of_call(),
                    capabilities=[deferring],
                    infer_name=False,
                ) as run:
                    step = await _one_request(run, deferring)
        except ModelAPIError as error:
            raise model_failure(error) from error
        before = used.get("tool_calls", 0)
        step.usage["tool_calls"] = before
        counted = _USAGE.validate_python({**step.usage, "tool_calls": before + len(step.calls)})
        if step.calls:
            limits.check_before_tool_call(counted)
        return step

    return activity(
        contract=Read(),
        name=name,
        queue=queue,
        timeout=timeout,
        schedule_to_close=schedule_to_close,
        retry=retry,
    )(ask)


async def _one_request(run: AgentRun[Any, Any], deferring: Deferring) -> Step:
    """Drives a run to behind the first answer of its model."""
    node: Any = run.next_node
    while not isinstance(node, CallToolsNode):
        node = await run.next(node)
    order = [call.tool_call_id for call in node.model_response.tool_calls]
    node = await run.next(node)
    new = run.new_messages()
    step = Step(messages=_stored(new), usage=_USAGE.dump_python(run.usage, mode="json"))
    if run.result is not None:
        step.done, step.output = True, to_jsonable_python(run.result.output)
        return step
    assert isinstance(node, ModelRequestNode)
    calls = deferring.calls
    step.calls = [calls[one] for one in order if one in calls]
    left = [one for one in node.request.parts if getattr(one, "tool_call_id", None) not in calls]
    if left:
        step.messages += _stored([replace(node.request, parts=left)])
    return step


def check_retries(history: Sequence[ModelMessage]) -> None:
    """Raises `TooManyRetries` where one tool, or the output, was wrong more often than may be.

    Each run of the agent counts from nothing, so what counts is what the messages of the turn say of themselves.
    """
    wrong: dict[str, int] = {}
    for message in history:
        if not isinstance(message, ModelRequest):
            continue
        failed: dict[str, int | None] = {}
        right: set[str] = set()
        for part in message.parts:
            name = getattr(part, "tool_name", None) or "output"
            retry = getattr(part, "retry", None)
            if retry is not None and retry.attempt is None:
                continue  # this one is free
            if retry is not None:
                failed[name] = retry.max_retries
            elif part.part_kind == "tool-return":
                right.add(name)
        for name in right - set(failed):
            wrong.pop(name, None)
        for name, most in failed.items():
            wrong[name] = wrong.get(name, 0) + 1
            if most is not None and wrong[name] > most:
                raise TooManyRetries(f"{name!r} was wrong {wrong[name]} times, and may be {most}")


def _stored(messages: Sequence[ModelMessage]) -> list[Any]:
    stored: list[Any] = ModelMessagesTypeAdapter.dump_python(list(messages), mode="json")
    return stored
