"""The adapter for OpenAI and whatever speaks its chat protocol: hosted, or a server of your own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from .endpoint import EndpointModel, count
from .errors import ClientMissing
from .port import Answer, ChatMessage, Chunk, Finish, Usage, joined

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

    async def _request(self, client: Any, messages: Sequence[ChatMessage]) -> Any:
        return await client.chat.completions.create(
            model=self.name,
            messages=[{"role": m.role, "content": m.content} for m in messages],
            stream=True,
            stream_options={"include_usage": True},
            extra_body=self._options,
        )

    def _reading(self) -> _Reading:
        return _Reading(self.name)


@dataclass(slots=True)
class _Reading:
    """Chunks of a chat completion, whole once a reason for its end has come."""

    model: str
    pieces: list[str] = field(default_factory=list)
    usage: Usage = field(default_factory=Usage)
    finish: Finish | None = None
    refused: bool = False

    def read(self, event: Any) -> Chunk | None:
        """See `Reading.read`."""
        self.model = event.model or self.model
        if event.usage is not None:
            self.usage = Usage(
                count(event.usage.prompt_tokens), count(event.usage.completion_tokens)
            )
        text = "".join(self._text(choice) for choice in event.choices or ())
        self.pieces.append(text)
        return Chunk(text, self.usage) if text or event.usage is not None else None

    def answer(self) -> Answer | None:
        """See `Reading.answer`."""
        if self.finish is None:
            return None
        finish: Finish = "refusal" if self.refused else self.finish
        return Answer(joined(self.pieces), self.model, self.usage, finish)

    def _text(self, choice: Any) -> str:
        if choice.finish_reason is not None:
            self.finish = FINISHES.get(choice.finish_reason, "other")
        refusal = getattr(choice.delta, "refusal", None)
        self.refused = self.refused or bool(refusal)
        text = refusal or choice.delta.content or ""
        if not isinstance(text, str):
            raise TypeError(f"a chunk's text is {type(text).__name__}")
        return text
