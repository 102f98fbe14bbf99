"""The model port: messages and tools in, chunks out, and one answer at the end. All of it is JSON-able, and frozen.

What an answer or a message does not have is not written: those without tools look as they did before there were any,
so that their digests and their histories stay.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from pydantic import SerializerFunctionWrapHandler, model_serializer

Role = Literal["system", "user", "assistant", "tool"]

Finish = Literal["stop", "length", "refusal", "tool", "other"]
"""Why an answer ended: by itself, at a limit of tokens, by a refusal or filter, to call a tool, or else."""


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """A tool as a model is told of it; `parameters` is the JSON schema of an object."""

    name: str
    description: str
    parameters: dict[str, Any]


@dataclass(frozen=True, slots=True)
class ToolCall:
    """What a model wants called. `arguments` are a text, as it came, where they are no JSON object."""

    id: str
    name: str
    arguments: dict[str, Any] | str


@dataclass(frozen=True, slots=True)
class ChatMessage:
    """One message of a conversation: one of an assistant may hold `calls`, one of a tool is the result of `call_id`."""

    role: Role
    content: str
    calls: tuple[ToolCall, ...] = ()
    call_id: str = ""

    @model_serializer(mode="wrap")
    def _written(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return _without(write(self), "calls", "call_id")


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens as the endpoint counts them, cached input included; null where it does not say."""

    input_tokens: int | None = None
    output_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Chunk:
    """The next piece of an answer: of its text, or of a call's `arguments`. `usage` is what the endpoint has counted so far,
    where it says so.
    """

    text: str
    usage: Usage | None = None
    arguments: str = ""


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole answer, or the `calls` that have to come first. `model` is the exact model that gave it, and `id` the name
    of this answer, in the endpoint's words.
    """

    text: str
    model: str
    usage: Usage = field(default_factory=Usage)
    finish: Finish = "stop"
    calls: tuple[ToolCall, ...] = ()
    id: str = ""

    @model_serializer(mode="wrap")
    def _written(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return _without(write(self), "calls", "id")


class Model(Protocol):
    """Whoever answers a conversation."""

    @property
    def name(self) -> str:
        """The model that is asked, with its version: it belongs into `versions=` of the workflow."""
        ...

    def stream(self, messages: Sequence[ChatMessage]) -> AsyncGenerator[Chunk | Answer]:
        """Chunks as they come, then the `Answer`: an async generator, written `async def` with `yield`.

        One call is one attempt: nothing is retried inside, and what goes wrong raises a `ModelFailed`. A stream
        that ends without an answer was cut, whatever its reason.
        """
        ...


class ToolModel(Model, Protocol):
    """A model that can be given tools."""

    def stream(
        self, messages: Sequence[ChatMessage], *, tools: Sequence[ToolSpec] = ()
    ) -> AsyncGenerator[Chunk | Answer]:
        """See `Model.stream`; the `Answer` may hold calls of these tools, and of others, since models make mistakes."""
        ...


def joined(pieces: Iterable[str]) -> str:
    """The text of an answer. Endpoints may cut a character beyond U+FFFF in two; its halves are put together again."""
    text = "".join(pieces)
    if text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


def _without(written: dict[str, Any], *names: str) -> dict[str, Any]:
    """What is written, but for those of these that are empty."""
    return {name: value for name, value in written.items() if value or name not in names}
