"""The adapter for Anthropic's Messages API."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .endpoint import CONNECT_S_DEFAULT, IDLE_S_DEFAULT, EndpointModel, count
from .errors import ClientMissing
from .port import Answer, ChatMessage, Chunk, Finish, Usage, joined

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

    async def _request(self, client: Any, messages: Sequence[ChatMessage]) -> Any:
        system = "\n\n".join(m.content for m in messages if m.role == "system")
        return await client.messages.create(
            model=self.name,
            max_tokens=self._tokens_max,
            messages=[
                {"role": m.role, "content": m.content} for m in messages if m.role != "system"
            ],
            stream=True,
            extra_body=self._options | ({"system": system} if system else {}),
        )

    def _reading(self) -> _Reading:
        return _Reading(self.name)


@dataclass(slots=True)
class _Reading:
    """Events of a message, whole once `message_stop` has come."""

    model: str
    pieces: list[str] = field(default_factory=list)
    usage: Usage = field(default_factory=Usage)
    finish: Finish = "other"
    stopped: bool = False

    def read(self, event: Any) -> Chunk | None:
        """See `Reading.read`; events that this adapter has no use for (thinking, tools, later kinds) are no text."""
        match event.type:
            case "message_start":
                self.model = event.message.model or self.model
                return self._count(event.message.usage)
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
        return Answer(joined(self.pieces), self.model, self.usage, self.finish)

    def _count(self, usage: Any) -> Chunk:
        """Counts are cumulative: the last one that is told stands."""
        inputs = [n for name in INPUTS if (n := count(getattr(usage, name, None))) is not None]
        output = count(getattr(usage, "output_tokens", None))
        self.usage = Usage(
            sum(inputs) if inputs else self.usage.input_tokens,
            self.usage.output_tokens if output is None else output,
        )
        return Chunk("", self.usage)
