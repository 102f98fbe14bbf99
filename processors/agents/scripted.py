"""Models without a network, for tests and first steps: a script, and a function."""

from __future__ import annotations

import inspect
import re
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from .calls import written_arguments
from .errors import RequestRejected
from .port import Answer, ChatMessage, Chunk, ToolCall, ToolSpec, Usage

CHUNK_CHARACTERS = 8
"""About what an endpoint sends at a time."""

CALLS_KEPT_MAX = 1_000


@dataclass(frozen=True, slots=True)
class Cut:
    """A reply whose stream ends after this text, and before an answer."""

    text: str


Reply = str | Answer | Cut | Exception | ToolCall | Sequence[ToolCall]
"""What a script or a function gives: a text, a call of a tool or several, a whole answer, a cut stream, or an exception to
raise. A call without an id is given one.
"""


class ScriptedModel:
    """Answers from a list, one per call and in order; or by rules, patterns that are searched in the last message.

    The first rule that fits is used. A list lives in one process: workers that are started again begin it again.
    """

    def __init__(
        self, replies: Sequence[Reply] | Mapping[str, Reply], *, name: str = "scripted-1"
    ) -> None:
        self.name = name
        self.calls: deque[list[ChatMessage]] = deque(maxlen=CALLS_KEPT_MAX)
        self._rules: list[tuple[re.Pattern[str], Reply]] | None = None
        self._replies: Iterator[Reply] = iter(())
        if isinstance(replies, str):
            raise TypeError("replies is one text: give a list of replies, or rules by pattern")
        if isinstance(replies, Mapping):
            self._rules = [(re.compile(p, re.IGNORECASE), r) for p, r in replies.items()]
        else:
            self._replies = iter(list(replies))

    async def stream(
        self, messages: Sequence[ChatMessage], *, tools: Sequence[ToolSpec] = ()
    ) -> AsyncGenerator[Chunk | Answer]:
        """See `Model.stream`; `RequestRejected` where the script has nothing to say. It looks at no tools."""
        del tools
        self.calls.append(list(messages))
        for part in _parts(self._reply(messages), self.name, messages):
            yield part

    def _reply(self, messages: Sequence[ChatMessage]) -> Reply:
        if self._rules is None:
            for reply in self._replies:
                return reply
            raise RequestRejected(f"the script of {self.name} is at its end: give it more replies")
        text = messages[-1].content if messages else ""
        for pattern, reply in self._rules:
            if pattern.search(text):
                return reply
        raise RequestRejected(f"no rule of {self.name} fits {text[:80]!r}: end with the rule '.*'")


class FunctionModel:
    """Whatever an async or plain function of the messages returns."""

    def __init__(
        self,
        function: Callable[[list[ChatMessage]], Reply | Awaitable[Reply]],
        *,
        name: str = "function-1",
    ) -> None:
        self.name = name
        self._function = function

    async def stream(
        self, messages: Sequence[ChatMessage], *, tools: Sequence[ToolSpec] = ()
    ) -> AsyncGenerator[Chunk | Answer]:
        """See `Model.stream`."""
        del tools
        given = self._function(list(messages))
        reply = await given if inspect.isawaitable(given) else given
        for part in _parts(reply, self.name, messages):
            yield part


def _parts(reply: Reply, name: str, messages: Sequence[ChatMessage]) -> Iterator[Chunk | Answer]:
    if isinstance(reply, Exception):
        raise reply.with_traceback(None)
    text = reply if isinstance(reply, str) else getattr(reply, "text", "")
    for start in range(0, len(text), CHUNK_CHARACTERS):
        yield Chunk(text[start : start + CHUNK_CHARACTERS])
    if isinstance(reply, Cut):
        return
    answer = reply if isinstance(reply, Answer) else _answer(reply, name, messages)
    for call in answer.calls:
        yield Chunk("", arguments=written_arguments(call.arguments))
    yield answer


def _answer(
    reply: str | ToolCall | Sequence[ToolCall], name: str, messages: Sequence[ChatMessage]
) -> Answer:
    if isinstance(reply, str):
        return Answer(reply, name, _counted(messages, reply))
    given = (reply,) if isinstance(reply, ToolCall) else tuple(reply)
    calls = tuple(
        call if call.id else replace(call, id=f"call-{len(messages)}-{n}")
        for n, call in enumerate(given, start=1)
    )
    written = " ".join(f"{call.name} {written_arguments(call.arguments)}" for call in calls)
    return Answer("", name, _counted(messages, written), "tool", calls)


def _counted(messages: Sequence[ChatMessage], text: str) -> Usage:
    """Words, as a stand-in for tokens."""
    return Usage(sum(len(m.content.split()) for m in messages), len(text.split()))
