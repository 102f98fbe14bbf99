"""Activities as a model sees them, and what it wants called as an action, or in words what is wrong with it."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from inspect import cleandoc
from typing import Any, Generic, TypeVar

from pydantic import TypeAdapter, ValidationError
from pydantic.errors import PydanticInvalidForJsonSchema
from pydantic_core import PydanticSerializationError

from ...events.shown import worded
from ..activities.definitions import Action, Activity, WrongArguments, problems
from ..activities.signatures import Declined
from ..stored_json import changed_kind
from .endpoint import TOOL_NAME_MAX
from .port import ToolCall, ToolSpec

T = TypeVar("T")

TOOLS_MAX = 128
"""What endpoints take; a model that has to choose among more chooses badly."""

DIGEST_CHARACTERS = 12

TOLD_CHARACTERS_MAX = 300
"""How much of what a model wrote is repeated to it."""

_NAME = re.compile(rf"[A-Za-z0-9_-]{{1,{TOOL_NAME_MAX}}}")


@dataclass(frozen=True, slots=True)
class Tool:
    """An activity, as a model is told of it; `given` are the arguments that it neither sees nor chooses."""

    activity: Activity[Any]
    spec: ToolSpec
    given: tuple[str, ...]

    @property
    def version(self) -> str:
        """A digest of what the model is told and of how the activity may run: it changes where one of them does."""
        rule = self.activity.approval
        terms = [self.activity.contract.word, rule.approver if rule else ""]
        return digest_of([self.spec.name, self.spec.description, self.spec.parameters, *terms])

    def action(self, call: ToolCall, given: Mapping[str, Any]) -> Action[Any] | str:
        """The action that is called for, or what is wrong with it, for the model to read."""
        if isinstance(call.arguments, str):
            return _no_object(call)
        hidden = [name for name in self.given if name in call.arguments]
        if hidden:
            return f"{call.name} takes no {', '.join(hidden)}"
        arguments = {**call.arguments, **{name: given[name] for name in self.given}}
        try:
            action = self.activity.call(**arguments)
        except WrongArguments as error:
            return f"the arguments of {call.name} do not fit: {error.why}"
        except Exception as error:  # noqa: BLE001 - a type of the user's that raises at what a model wrote
            return f"the arguments of {call.name} do not fit: {worded(error)}"
        changed = changed_kind(call.arguments, action.arguments)
        if changed is not None:
            return f"the arguments of {call.name} do not fit: {changed}"
        return action


@dataclass(frozen=True, slots=True)
class Output(Generic[T]):
    """The tool by which a model gives an answer of a type."""

    kind: TypeAdapter[T]
    spec: ToolSpec

    def read(self, call: ToolCall) -> T | Wrong:
        """The answer, or what is wrong with it."""
        if isinstance(call.arguments, str):
            return Wrong(_no_object(call))
        try:
            return self.kind.validate_python(call.arguments)
        except ValidationError as error:
            return Wrong(f"the arguments of {call.name} do not fit: {problems(error)}")


@dataclass(frozen=True, slots=True)
class Wrong:
    """Why something is no answer of the type."""

    told: str


def tools_of(
    activities: Sequence[Activity[Any]], given: Sequence[str], told: str
) -> tuple[Tool, ...]:
    """A tool for each; `Declined` where a model could not call one, in which `told` names the agent."""
    if len(activities) > TOOLS_MAX:
        raise Declined(f"{told} has {len(activities)} tools, and models take up to {TOOLS_MAX}")
    tools: dict[str, Tool] = {}
    for activity in activities:
        if not isinstance(activity, Activity):
            raise Declined(
                f"{told} has the tool {activity!r}: tools are activities, made by @activity"
            )
        name = activity.name
        if _NAME.fullmatch(name) is None:
            raise Declined(
                f"{told} has the tool {name!r}: models call tools by names of 1 to {TOOL_NAME_MAX} letters, digits, "
                "'_' and '-', so give the activity another name=…"
            )
        if name in tools:
            raise Declined(f"{told} has the tool {name!r} twice: rename one")
        tools[name] = _tool(activity, given, told)
    unused = [name for name in given if not any(name in tool.given for tool in tools.values())]
    if unused:
        raise Declined(f"{told} has given={unused!r}, and none of its tools takes that argument")
    return tuple(tools.values())


def output_of(kind: Any, name: str, told: str, *, taken: Collection[str]) -> Output[Any]:
    """The tool that takes an answer of this type; `Declined` where its JSON is no object, or its name is `taken`."""
    if name in taken:
        raise Declined(f"{told} has output=, and a tool {name!r} as well: rename that")
    try:
        adapter: TypeAdapter[Any] = TypeAdapter(kind)
        schema = adapter.json_schema()
    except Exception as error:
        raise Declined(
            f"{told} has output={kind!r}, which has no JSON schema ({worded(error)})"
        ) from error
    if schema.get("type") != "object":
        raise Declined(
            f"{told} has output={kind!r}, whose JSON is no object: give a pydantic BaseModel"
        )
    about = "Gives the final answer; call it alone, when nothing else is to be done."
    doc = schema.pop("description", "")
    return Output(adapter, ToolSpec(name, f"{about}\n{doc}".strip(), _plain(schema)))


def digest_of(value: Any) -> str:
    """A short name for what has no version of its own."""
    data = json.dumps(value, sort_keys=True, ensure_ascii=True).encode()
    return sha256(data).hexdigest()[:DIGEST_CHARACTERS]


def _tool(activity: Activity[Any], given: Sequence[str], told: str) -> Tool:
    try:
        schema = activity.schema()
    except (PydanticInvalidForJsonSchema, PydanticSerializationError) as error:
        raise Declined(
            f"{told} has the tool {activity.name!r}, whose arguments have no JSON schema: {worded(error)}"
        ) from error
    properties = schema.setdefault("properties", {})
    hidden = tuple(name for name in given if properties.pop(name, None) is not None)
    required = [name for name in schema.pop("required", ()) if name not in hidden]
    if required:
        schema["required"] = required
    described = cleandoc(activity.__doc__ or "")
    return Tool(activity, ToolSpec(activity.name, described, _plain(schema)), hidden)


def _plain(schema: dict[str, Any]) -> dict[str, Any]:
    """Without the titles that pydantic makes of names: they are words that the model would be billed for."""
    schema.pop("title", None)
    for known in schema.get("properties", {}).values():
        known.pop("title", None)
    return schema


def _no_object(call: ToolCall) -> str:
    text = str(call.arguments)
    try:
        json.loads(text)
        why = "they are no object, or hold what JSON does not have"
    except (ValueError, RecursionError) as error:
        why = str(error)
    shown = text if len(text) <= TOLD_CHARACTERS_MAX else f"{text[:TOLD_CHARACTERS_MAX]}…"
    return f"the arguments of {call.name} are no JSON object ({why}): {shown}"
