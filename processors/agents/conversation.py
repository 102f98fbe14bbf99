"""What a session of an agent keeps: its transcript, and how much of its turn's budget is used. Pure.

Rules:
- The list of messages is only appended to; a summary takes the place of its older part, and nothing else ever does.
- Each call has one result, behind its message and in the order of the calls, before anything else follows.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import replace

from pydantic import BaseModel

from ...events.state import MESSAGE
from ..workflow.definitions import Message
from .port import Answer, ChatMessage, ToolCall, Usage

BYTES_PER_TOKEN = 4
"""A guess, for endpoints that do not count, and for what none has counted yet."""

SUMMARY_HEAD = "(A summary of the conversation so far, in the place of its messages.)"

_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")


class Conversation(BaseModel):
    """The state of an `AgentLoop`; derive from it for fields of your own, each with a default.

    `turn` is the turn that is under way, 0 between turns; `steps` and `tokens` are what it has used, and the others
    what it may use. `context` is how many tokens the transcript has, about, and `summary_above` from how many on a
    summary is tried again that has failed before; `calls` counts the calls of tools.
    """

    messages: list[ChatMessage] = []
    turn: int = 0
    steps: int = 0
    steps_allowed: int = 0
    tokens: int = 0
    tokens_allowed: int = 0
    context: int = 0
    summary_above: int = 0
    calls: int = 0

    def append(self, message: ChatMessage) -> None:
        """Adds what somebody said, or what came of a call."""
        self.messages.append(message)
        self.context += tokens_in(message)

    def count(self, answer: Answer, asked: Sequence[ChatMessage]) -> None:
        """Books a call of the model: as its endpoint has counted, or by a guess."""
        read, written = _counted(answer, asked)
        self.steps += 1
        self.tokens += read + written
        self.context = read

    def heard(self, answer: Answer) -> tuple[ToolCall, ...]:
        """Takes the answer into the transcript; gives its calls, each under an id that no other has."""
        known = {call.id for message in self.messages for call in message.calls}
        calls = []
        for call in answer.calls:
            self.calls += 1
            fits = _ID.fullmatch(call.id) is not None and call.id not in known
            calls.append(call if fits else replace(call, id=self._free(known)))
            known.add(calls[-1].id)
        self.append(ChatMessage("assistant", answer.text, tuple(calls)))
        return tuple(calls)

    def rest(self) -> None:
        """The turn is over."""
        self.turn = self.steps = self.steps_allowed = self.tokens = self.tokens_allowed = 0

    def kept_from(self, *, messages_max: int, tokens_max: int) -> int:
        """Where a summary would end: the newest messages that stay, never from between a call and its result."""
        at = max(0, len(self.messages) - messages_max)
        while at > 0 and self.messages[at].role == "tool":
            at -= 1
        while at < len(self.messages) and (
            self.messages[at].role == "tool" or sum(map(tokens_in, self.messages[at:])) > tokens_max
        ):
            at += 1
        return at

    def summarised(self, summary: str, at: int) -> None:
        """Puts the summary in the place of the messages before `at`."""
        head = ChatMessage("user", f"{SUMMARY_HEAD}\n{summary}")
        self.messages = [head, *self.messages[at:]]
        self.summary_above = 0
        self.context = sum(map(tokens_in, self.messages))

    def _free(self, known: set[str]) -> str:
        number = self.calls
        while f"call-{number}" in known:
            number += 1
        return f"call-{number}"


def read_of(message: Message) -> str:
    """What a model reads of a message, or of what else began its turn."""
    if message.trigger != MESSAGE:
        data = "" if message.data is None else f"\n{json.dumps(message.data)}"
        return f"({message.trigger}: {message.reason}){data}"
    data = message.data
    is_text = bool(message.text) or (isinstance(data, dict) and "text" in data)
    return message.text if is_text else json.dumps(data)


def tokens_in(message: ChatMessage) -> int:
    """About how many tokens a message has."""
    calls = "".join(f"{call.name}{call.arguments}" for call in message.calls)
    return _tokens(message.content + calls)


def _counted(answer: Answer, asked: Sequence[ChatMessage]) -> tuple[int, int]:
    usage: Usage = answer.usage
    read = sum(map(tokens_in, asked)) if usage.input_tokens is None else usage.input_tokens
    said = tokens_in(ChatMessage("assistant", answer.text, answer.calls))
    return read, said if usage.output_tokens is None else usage.output_tokens


def _tokens(text: str) -> int:
    return -(-len(text.encode("utf-8", "surrogatepass")) // BYTES_PER_TOKEN)
