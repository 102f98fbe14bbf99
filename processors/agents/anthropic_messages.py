"""The adapter for Anthropic's Messages API."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .calls import read_arguments
from .endpoint import (
    CONNECT_S_DEFAULT,
    IDLE_S_DEFAULT,
    EndpointModel,
    count,
    tool_name,
    with_tools,
)
from .errors import ClientMissing
from .port import Answer, ChatMessage, Chunk, Finish, ToolCall, ToolSpec, Usage, joined

FINISHES: dict[str, Finish] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "refusal",
    "tool_use": "tool",
}

INPUTS = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
"""Counted apart by this API, and together by others."""


class AnthropicModel(EndpointModel):
    """A model over the `anthropic` client, which reads ANTHROPIC_API_KEY where no key is given.

    `tokens_max` bounds the answer; this API has no default for it. Messages with the role `system` go before all
    others, in their order, as this API wants it.
    """

    def __init__(
        self,
        name: str,
        *,
        tokens_max: int,
        base_url: str | None = None,
        api_key: str | None = None,
        options: Mapping[str, Any] | None = None,
        idle_s: float = IDLE_S_DEFAULT,
        connect_s: float = CONNECT_S_DEFAULT,
    ) -> None:
        if tokens_max < 1:
            raise ValueError(f"tokens_max of {name} is {tokens_max}: it must be at least 1")
        self._tokens_max = tokens_max
        super().__init__(
            name,
            base_url=base_url,
            api_key=api_key,
            options=options,
            idle_s=idle_s,
            connect_s=connect_s,
        )

    def _library(self) -> Any:
        try:
            import anthropic
        except ModuleNotFoundError as missing:
            raise ClientMissing(
                f"{self.name} needs {missing.name}: pip install 'wakeful[models]'"
            ) from None
        return anthropic

    def _connect(self, library: Any) -> Any:
        return library.AsyncAnthropic(
            base_url=self._base_url,
            api_key=self._api_key,
            max_retries=0,
            timeout=library.Timeout(self._idle_s, connect=self._connect_s),
        )

    async def _request(
        self, client: Any, messages: Sequence[ChatMessage], tools: Sequence[ToolSpec]
    ) -> Any:
        system = "\n\n".join(m.content for m in messages if m.role == "system")
        return await client.messages.create(
            model=self.name,
            max_tokens=self._tokens_max,
            messages=_messages(messages),
            stream=True,
            extra_body=with_tools(self._options, [_tool(tool) for tool in tools])
            | ({"system": system} if system else {}),
        )

    def _reading(self) -> _Reading:
        return _Reading(self.name)


def _messages(messages: Sequence[ChatMessage]) -> list[dict[str, Any]]:
    """Results of tools that follow each other are one message of the user, as this API wants them."""
    written: list[dict[str, Any]] = []
    last = ""
    for message in messages:
        if message.role == "system":
            continue
        if message.role == "tool" and last == "tool":
            written[-1]["content"].append(_result(message))
        elif message.role == "tool":
            written.append({"role": "user", "content": [_result(message)]})
        elif message.calls:
            said = [{"type": "text", "text": message.content}] if message.content.strip() else []
            used = [_use(call) for call in message.calls]
            written.append({"role": "assistant", "content": [*said, *used]})
        else:
            written.append({"role": message.role, "content": message.content})
        last = message.role
    return written


def _result(message: ChatMessage) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": message.call_id, "content": message.content}


def _use(call: ToolCall) -> dict[str, Any]:
    """The API takes objects alone: what the model wrote instead is shown to it inside of one."""
    given = {"unreadable": call.arguments} if isinstance(call.arguments, str) else call.arguments
    return {"type": "tool_use", "id": call.id, "name": tool_name(call.name), "input": given}


def _tool(tool: ToolSpec) -> dict[str, Any]:
    return {
        "name": tool.name,
        "description": tool.description,
        "input_schema": tool.parameters,
    }


@dataclass(slots=True)
class _Use:
    """A call on its way: its name comes first, its arguments in pieces."""

    id: str
    name: str
    given: dict[str, Any]
    pieces: list[str] = field(default_factory=list)

    def whole(self) -> ToolCall:
        written = joined(self.pieces)
        if not written.strip():
            written = json.dumps(self.given)
        return ToolCall(self.id, self.name, read_arguments(written))


@dataclass(slots=True)
class _Reading:
    """Events of a message, whole once `message_stop` has come."""

    model: str
    pieces: list[str] = field(default_factory=list)
    usage: Usage = field(default_factory=Usage)
    finish: Finish = "other"
    stopped: bool = False
    id: str = ""
    uses: dict[int, _Use] = field(default_factory=dict)

    def read(self, event: Any) -> Chunk | None:
        """See `Reading.read`; events that this adapter has no use for (thinking, later kinds) are no text."""
        match event.type:
            case "message_start":
                self.model = event.message.model or self.model
                self.id = _text(event.message.id)
                return self._count(event.message.usage)
            case "content_block_start" if event.content_block.type == "tool_use":
                block = event.content_block
                given = block.input if isinstance(block.input, dict) else {}
                self.uses[event.index] = _Use(_text(block.id), _text(block.name), given)
                return None
            case "content_block_delta" if event.delta.type == "input_json_delta":
                piece = _text(event.delta.partial_json)
                if event.index in self.uses:  # else it is of a tool that the endpoint itself uses
                    self.uses[event.index].pieces.append(piece)
                return Chunk("", self.usage, piece)
            case "content_block_delta" if event.delta.type == "text_delta":
                if not isinstance(event.delta.text, str):
                    raise TypeError(f"a delta's text is {type(event.delta.text).__name__}")
                self.pieces.append(event.delta.text)
                return Chunk(event.delta.text, self.usage)
            case "message_delta":
                if event.delta.stop_reason is not None:
                    self.finish = FINISHES.get(event.delta.stop_reason, "other")
                return self._count(event.usage)
            case "message_stop":
                self.stopped = True
                return None
            case _:
                return None

    def answer(self) -> Answer | None:
        """See `Reading.answer`."""
        if not self.stopped:
            return None
        calls = tuple(use.whole() for use in self.uses.values())
        return Answer(joined(self.pieces), self.model, self.usage, self.finish, calls, self.id)

    def _count(self, usage: Any) -> Chunk:
        """Counts are cumulative: the last one that is told stands."""
        inputs = [n for name in INPUTS if (n := count(getattr(usage, name, None))) is not None]
        output = count(getattr(usage, "output_tokens", None))
        self.usage = Usage(
            sum(inputs) if inputs else self.usage.input_tokens,
            self.usage.output_tokens if output is None else output,
        )
        return Chunk("", self.usage)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"a part of a message is {type(value).__name__}")
    return value
