"""The adapter for OpenAI and whatever speaks its chat protocol: hosted, or a server of your own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from .calls import read_arguments, written_arguments
from .endpoint import EndpointModel, count, tool_name, with_tools
from .errors import ClientMissing
from .port import Answer, ChatMessage, Chunk, Finish, ToolCall, ToolSpec, Usage, joined

FINISHES: dict[str, Finish] = {
    "stop": "stop",
    "length": "length",
    "content_filter": "refusal",
    "tool_calls": "tool",
    "function_call": "tool",
}


class OpenAIModel(EndpointModel):
    """A chat model over the `openai` client, which reads OPENAI_API_KEY and OPENAI_BASE_URL where they are not given."""

    def _library(self) -> Any:
        try:
            import openai
        except ModuleNotFoundError as missing:
            raise ClientMissing(
                f"{self.name} needs {missing.name}: pip install 'wakeful[models]'"
            ) from None
        return openai

    def _connect(self, library: Any) -> Any:
        return library.AsyncOpenAI(
            base_url=self._base_url,
            api_key=self._api_key,
            max_retries=0,
            timeout=library.Timeout(self._idle_s, connect=self._connect_s),
        )

    async def _request(
        self, client: Any, messages: Sequence[ChatMessage], tools: Sequence[ToolSpec]
    ) -> Any:
        return await client.chat.completions.create(
            model=self.name,
            messages=[_message(m) for m in messages],
            stream=True,
            stream_options={"include_usage": True},
            extra_body=with_tools(self._options, [_tool(tool) for tool in tools]),
        )

    def _reading(self) -> _Reading:
        return _Reading(self.name)


def _message(message: ChatMessage) -> dict[str, Any]:
    written: dict[str, Any] = {"role": message.role, "content": message.content}
    if message.calls:
        written["content"] = message.content or None
        written["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {
                    "name": tool_name(call.name),
                    "arguments": written_arguments(call.arguments),
                },
            }
            for call in message.calls
        ]
    if message.role == "tool":
        written["tool_call_id"] = message.call_id
    return written


def _tool(tool: ToolSpec) -> dict[str, Any]:
    told = {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
    return {"type": "function", "function": told}


@dataclass(slots=True)
class _Call:
    """A call on its way: its name comes first, its arguments in pieces."""

    id: str = ""
    name: str = ""
    pieces: list[str] = field(default_factory=list)

    def whole(self) -> ToolCall:
        return ToolCall(self.id, self.name, read_arguments(joined(self.pieces)))


@dataclass(slots=True)
class _Reading:
    """Chunks of a chat completion, whole once a reason for its end has come."""

    model: str
    pieces: list[str] = field(default_factory=list)
    usage: Usage = field(default_factory=Usage)
    finish: Finish | None = None
    refused: bool = False
    id: str = ""
    calls: dict[int, _Call] = field(default_factory=dict)

    def read(self, event: Any) -> Chunk | None:
        """See `Reading.read`."""
        self.model = event.model or self.model
        self.id = self.id or _text(event.id)
        if event.usage is not None:
            self.usage = Usage(
                count(event.usage.prompt_tokens), count(event.usage.completion_tokens)
            )
        choices = event.choices or ()
        text = "".join(self._text(choice) for choice in choices)
        called = "".join(self._called(choice) for choice in choices)
        self.pieces.append(text)
        told = text or called or event.usage is not None
        return Chunk(text, self.usage, called) if told else None

    def answer(self) -> Answer | None:
        """See `Reading.answer`."""
        if self.finish is None:
            return None
        finish: Finish = "refusal" if self.refused else self.finish
        calls = tuple(call.whole() for call in self.calls.values())
        return Answer(joined(self.pieces), self.model, self.usage, finish, calls, self.id)

    def _called(self, choice: Any) -> str:
        """Takes in the pieces of calls; one is told from the next by its index, or by an id where servers count none."""
        pieces = []
        for part in getattr(choice.delta, "tool_calls", None) or ():
            index = part.index if isinstance(part.index, int) else len(self.calls)
            known = self.calls.get(index)
            if known is not None and part.id and known.id and part.id != known.id:
                index = max(self.calls) + 1
            call = self.calls.setdefault(index, _Call())
            call.id = call.id or _text(part.id)
            if part.function is not None:
                call.name = call.name or _text(part.function.name)
                call.pieces.append(_text(part.function.arguments))
                pieces.append(call.pieces[-1])
        return "".join(pieces)

    def _text(self, choice: Any) -> str:
        if choice.finish_reason is not None:
            self.finish = FINISHES.get(choice.finish_reason, "other")
        refusal = getattr(choice.delta, "refusal", None)
        self.refused = self.refused or bool(refusal)
        text = refusal or choice.delta.content or ""
        if not isinstance(text, str):
            raise TypeError(f"a chunk's text is {type(text).__name__}")
        return text


def _text(value: Any) -> str:
    if value is not None and not isinstance(value, str):
        raise TypeError(f"a part of a chunk is {type(value).__name__}")
    return value or ""
