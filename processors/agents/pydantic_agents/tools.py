"""The tools of an agent as activities: what is known of each by its function, and by the rules that its owner gives it."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, get_type_hints

from pydantic_ai import (
    Agent,
    ApprovalRequiredToolset,
    CombinedToolset,
    DeferredToolRequests,
    FilteredToolset,
    FunctionToolset,
    ModelMessagesTypeAdapter,
    ModelRequestNode,
    PreparedToolset,
    RunContext,
    Tool,
)
from pydantic_ai.capabilities import AbstractCapability, CapabilityOrdering
from pydantic_ai.exceptions import UnexpectedModelBehavior
from pydantic_ai.messages import (
    ModelRequest,
    ModelRequestPart,
    ModelResponse,
    RetryInfo,
    ToolCallPart,
    ToolReturnPart,
)
from pydantic_ai.tools import DeferredToolResults
from pydantic_ai.toolsets import AbstractToolset
from pydantic_core import to_jsonable_python
from typing_extensions import override

from ...activities.contracts import Contract, NothingDone, Read, Retry, Write
from ...activities.definitions import ONCE, Activity, activity
from ...activities.inside import key_of_call, task_of_call
from ...activities.rules import Needs
from ...activities.signatures import Declined
from ...durations import Duration
from ..tools import digest_of
from .serving import Deps, deps_of, no_waits

GATED = Needs("supervisor")

_SAME_NAMES = (ApprovalRequiredToolset, FilteredToolset, PreparedToolset)
"""Wrappers whose tools have the names that their functions have."""


class Undeclared(NothingDone):
    """A tool wanted what its rules do not provide for; nothing was done."""


@dataclass(frozen=True, slots=True)
class Rules:
    """How a tool may run: what `@activity` is told of a function. Without any, it is called at most once, and approved before.

    `approval` is null where nobody is to be asked; a `Read()` asks nobody.
    """

    contract: Contract = Write()  # noqa: RUF009 it is frozen
    approval: Needs | None = GATED
    queue: str | None = None
    timeout: Duration | None = None
    schedule_to_close: Duration | None = None
    retry: Retry = ONCE
    untrusted: bool = False

    @property
    def asks(self) -> Needs | None:
        """Who is asked, where somebody is."""
        return None if isinstance(self.contract, Read) and self.approval is GATED else self.approval


@dataclass(frozen=True, slots=True)
class Known:
    """A tool of an agent, the activity that calls it, and whether its calls run alone."""

    tool: Tool[Any]
    activity: Activity[list[Any]]

    @property
    def alone(self) -> bool:
        return self.tool.sequential

    @property
    def version(self) -> str:
        """A digest of what the model is told and of how it may run: it changes where one of them does."""
        rule = self.activity.approval
        shape = self.tool.function_schema.json_schema
        terms = [self.activity.contract.word, rule.approver if rule else ""]
        return digest_of([self.tool.name, self.tool.description or "", shape, *terms])


def tools_of(
    agent: Agent[Any, Any],
    rules: Mapping[str, Rules],
    *,
    told: str,
    prefix: str,
    queue: str,
    deps: Deps | None,
) -> dict[str, Known]:
    """An activity for each tool of the agent; `Declined` where one cannot be known before it runs, or rules are of none."""
    found: dict[str, Known] = {}
    for tool in _functions(agent.toolsets, told):
        if tool.name in found:
            raise Declined(f"{told} has the tool {tool.name!r} twice: rename one")
        known = rules.get(tool.name, Rules())
        if not isinstance(known, Rules):
            raise Declined(
                f"{told} has {known!r} for the tool {tool.name!r}: write Rules(Read()), or Rules(Write(…), approval=…)"
            )
        found[tool.name] = Known(tool, _activity(agent, tool, known, told, prefix, queue, deps))
    unknown = sorted(set(rules) - set(found))
    if unknown:
        raise Declined(
            f"{told} has rules for {unknown!r}, and its tools are: {', '.join(found) or 'none'}"
        )
    return found


def _functions(toolsets: Iterable[AbstractToolset[Any]], told: str) -> Iterator[Tool[Any]]:
    for toolset in toolsets:
        if isinstance(toolset, FunctionToolset):
            yield from toolset.tools.values()
        elif isinstance(toolset, CombinedToolset):
            yield from _functions(toolset.toolsets, told)
        elif isinstance(toolset, _SAME_NAMES):
            yield from _functions([toolset.wrapped], told)
        else:
            raise Declined(
                f"{told} has a {type(toolset).__name__}, whose tools are not known before it runs: "
                "give the agent functions as tools, so that each has rules of its own"
            )


def _activity(
    agent: Agent[Any, Any],
    tool: Tool[Any],
    rules: Rules,
    told: str,
    prefix: str,
    queue: str,
    deps: Deps | None,
) -> Activity[list[Any]]:
    rule = rules.asks
    if tool.requires_approval and (rule is None or rule.when is not None):
        raise Declined(
            f"{told} has the tool {tool.name!r} with requires_approval=True, and its rules let calls pass that nobody "
            "approves: give it approval=Needs(…) without when=, or take requires_approval away"
        )
    return activity(
        contract=rules.contract,
        name=f"{prefix}{tool.name}",
        queue=queue if rules.queue is None else rules.queue,
        timeout=rules.timeout,
        schedule_to_close=rules.schedule_to_close,
        approval=rule,
        retry=rules.retry,
        untrusted=rules.untrusted,
    )(_caller(agent, tool, rules, deps))


def _caller(agent: Agent[Any, Any], tool: Tool[Any], rules: Rules, deps: Deps | None) -> Any:
    """A function with the tool's own parameters, which has the agent call it; it gives the parts of its result."""
    single = tool.function_schema.single_arg_name
    writes = isinstance(rules.contract, Write)
    rule = rules.asks
    always = rule is not None and rule.when is None

    async def call(**arguments: Any) -> list[Any]:
        given = to_jsonable_python(arguments)
        approved = always or task_of_call().start_by_ms is not None
        made = ToolCallPart(tool.name, given[single] if single else given, key_of_call())
        with no_waits():
            parts = await _call(agent, made, await deps_of(deps, writes=writes), approved=approved)
        request = ModelRequest(parts=parts)
        stored: list[Any] = ModelMessagesTypeAdapter.dump_python([request], mode="json")[0]["parts"]
        return stored

    function = tool.function
    try:
        hints = get_type_hints(function, include_extras=True)
    except (NameError, TypeError, AttributeError):
        hints = dict(function.__annotations__)
    parameters = list(inspect.signature(function).parameters.values())[1 if tool.takes_ctx else 0 :]
    call.__signature__ = inspect.Signature(parameters, return_annotation=list[Any])  # type: ignore[attr-defined]
    call.__annotations__ = {p.name: hints[p.name] for p in parameters if p.name in hints}
    call.__annotations__["return"] = list[Any]
    call.__name__, call.__doc__ = tool.name, tool.description
    return call


async def _call(
    agent: Agent[Any, Any], call: ToolCallPart, deps: Any, *, approved: bool
) -> list[ModelRequestPart]:
    """Has the agent make one call, with its capabilities and validators, and ends it before its model is asked.

    `Undeclared` where the tool would not be called: it wants an approval, or somebody else to make the call.
    """
    results = DeferredToolResults(approvals={call.tool_call_id: True}) if approved else None
    try:
        async with agent.iter(
            None,
            message_history=[ModelRequest(parts=[]), ModelResponse(parts=[call])],
            deferred_tool_results=results,
            capabilities=[_Undeferred()],
            deps=deps,
            infer_name=False,
        ) as run:
            node: Any = run.next_node
            while not isinstance(node, ModelRequestNode):
                node = await run.next(node)
            return list(node.request.parts)
    except UnexpectedModelBehavior as error:  # the tool allows no retries, and asked for one
        if error.__cause__ is None:
            raise
        return [
            ToolReturnPart(
                call.tool_name,
                str(error.__cause__),
                call.tool_call_id,
                outcome="retried",
                retry=RetryInfo(cause="model_retry", attempt=1, max_retries=0),
            )
        ]


class _Undeferred(AbstractCapability[Any]):
    """Refuses what a tool would have somebody else decide or do."""

    @override
    def get_ordering(self) -> CapabilityOrdering | None:
        return CapabilityOrdering(position="outermost")

    @override
    async def handle_deferred_tool_calls(
        self, ctx: RunContext[Any], *, requests: DeferredToolRequests
    ) -> DeferredToolResults | None:
        for wanted, calls in (
            ("an approval", requests.approvals),
            ("its call to be made elsewhere", requests.calls),
        ):
            for call in calls:
                raise Undeclared(
                    f"the tool {call.tool_name!r} asked for {wanted}, which its rules do not provide for: "
                    "give it approval=Needs(…)"
                )
        return None
