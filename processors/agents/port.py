"""The model port: messages in, chunks out, and one answer at the end. All of it is JSON-able, and frozen."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

Role = Literal["system", "user", "assistant"]

Finish = Literal["stop", "length", "refusal", "tool", "other"]
"""Why an answer ended: by itself, at a limit of tokens, by a refusal or filter, to call a tool, or else."""


@dataclass(frozen=True, slots=True)
class ChatMessage:
    """One message of a conversation."""

    role: Role
    content: str


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens as the endpoint counts them, cached input included; null where it does not say."""

    input_tokens: int | None = None
    output_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Chunk:
    """The next piece of an answer; `usage` is what the endpoint has counted so far, where it says so."""

    text: str
    usage: Usage | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole answer. `model` is the exact model that gave it, in the endpoint's words."""

    text: str
    model: str
    usage: Usage = field(default_factory=Usage)
    finish: Finish = "stop"


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


def joined(pieces: Iterable[str]) -> str:
    """The text of an answer. Endpoints may cut a character beyond U+FFFF in two; its halves are put together again."""
    text = "".join(pieces)
    if text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
