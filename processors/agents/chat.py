"""The `chat` activity: it streams inside one attempt and returns one whole answer, or fails with evidence."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import cast, overload

from ...events.limits import KIB, PAYLOAD_MAX
from ..activities.contracts import Read, Retry
from ..activities.declaring import SCHEDULE_TO_CLOSE_DEFAULT
from ..activities.definitions import Activity, activity
from ..activities.inside import overheard
from ..durations import Duration
from .errors import FINAL, EmptyAnswer, Evidence, ModelFailed, Refused, StreamCut
from .port import Answer, ChatMessage, Chunk, Model, ToolModel, ToolSpec, Usage, joined

QUEUE = "models"

TIMEOUT_DEFAULT = "120s"
"""Start-to-close: long answers take a minute or two."""

RETRY_DEFAULT = Retry(attempts=4, never=FINAL)
"""Three more tries for what may pass: 1 s, 2 s and 4 s apart, or as the endpoint asks."""

RESERVE_S_MAX = 1.0
"""The attempt ends itself this long before the worker would cancel it, since a cancelled one leaves no evidence."""

RESERVE_PART = 0.1
"""The same as a part of short time-outs."""

ANSWER_BYTES_MAX = PAYLOAD_MAX - 16 * KIB
"""A result has to fit into one record; a model that never stops is cut here."""

TOLD_CHARACTERS_MAX = 200
"""How much of a refusal is repeated in the failure's message; more of it is in the evidence."""


@overload
def chat(
    model: Model,
    *,
    name: str = ...,
    queue: str = ...,
    timeout: Duration = ...,
    schedule_to_close: Duration = ...,
    retry: Retry = ...,
) -> Activity[Answer]: ...
@overload
def chat(
    model: ToolModel,
    *,
    tools: Sequence[ToolSpec],
    name: str = ...,
    queue: str = ...,
    timeout: Duration = ...,
    schedule_to_close: Duration = ...,
    retry: Retry = ...,
) -> Activity[Answer]: ...
def chat(
    model: Model | ToolModel,
    *,
    tools: Sequence[ToolSpec] = (),
    name: str = "chat",
    queue: str = QUEUE,
    timeout: Duration = TIMEOUT_DEFAULT,
    schedule_to_close: Duration = SCHEDULE_TO_CLOSE_DEFAULT,
    retry: Retry = RETRY_DEFAULT,
) -> Activity[Answer]:
    """The activity that asks this model: `await turn.run(ask.call([ChatMessage("user", text)]))`.

    Two models in one app need two names. An attempt that ends without a whole answer fails, whatever it has heard:
    that is evidence (`evidence_of`), never part of a later answer. After a crash the model is asked again unless
    the answer had reached the log. With `tools` the answer may hold `calls`; who makes them is the workflow's affair.
    """
    told = tuple(tools)
    if told:
        check_takes_tools(model)

    async def ask(messages: list[ChatMessage]) -> Answer:
        """Asks the model once."""
        return await answer_of(model, messages, limit_s=limit_s, tools=told)

    made = activity(
        contract=Read(),
        name=name,
        queue=queue,
        timeout=timeout,
        schedule_to_close=schedule_to_close,
        retry=retry,
    )(ask)
    timeout_s = made.start_to_close_ms / 1000
    limit_s = timeout_s - min(RESERVE_S_MAX, RESERVE_PART * timeout_s)
    return made


def check_takes_tools(model: object) -> None:
    """`TypeError` where the model cannot be given tools."""
    stream = getattr(model, "stream", None)
    try:
        taken = inspect.signature(stream).parameters if callable(stream) else {}
    except ValueError:
        return  # something built in, which does not say what it takes
    if "tools" not in taken and not any(p.kind is p.VAR_KEYWORD for p in taken.values()):
        raise TypeError(
            f"model {getattr(model, 'name', model)!r} takes no tools: its stream needs them, as in "
            "'def stream(self, messages, *, tools=())'"
        )


async def answer_of(
    model: Model | ToolModel,
    messages: Sequence[ChatMessage],
    *,
    limit_s: float,
    tools: Sequence[ToolSpec] = (),
) -> Answer:
    """One attempt: the whole answer, or a `ModelFailed` that carries what was heard."""
    heard = _Heard(model.name)
    scope = asyncio.timeout(limit_s)
    try:
        async with scope:
            return _usable(await _listen(_asked(model, messages, tools), heard))
    except ModelFailed as error:
        raise _with_evidence(error, heard) from None
    except OSError as error:  # TimeoutError is one
        if scope.expired():
            cut = StreamCut(f"{model.name} gave no whole answer within {limit_s:g} s")
        elif heard.chunks:
            cut = StreamCut(f"{type(error).__name__}: {error}")
        else:
            raise
        raise _with_evidence(cut, heard) from None


def _asked(
    model: Model | ToolModel, messages: Sequence[ChatMessage], tools: Sequence[ToolSpec]
) -> AsyncGenerator[Chunk | Answer]:
    """The stream; models of users know nothing of tools, so they are told of them only where there are some."""
    if not tools:
        return model.stream(messages)
    return cast("ToolModel", model).stream(messages, tools=tools)


async def _listen(stream: AsyncGenerator[Chunk | Answer], heard: _Heard) -> Answer:
    async with aclosing(stream):
        async for part in stream:
            if isinstance(part, Answer):
                heard.answered(part)
                return part
            heard.add(part)
            overheard(part.text)
    raise StreamCut(f"{heard.model} stopped in the middle of its answer")


def _usable(answer: Answer) -> Answer:
    """The answer, where it is one."""
    if answer.finish == "refusal":
        told = answer.text.strip()[:TOLD_CHARACTERS_MAX] or "it gave no reason"
        raise Refused(f"{answer.model} declined to answer: {told}")
    if not answer.text.strip() and not answer.calls:
        raise EmptyAnswer(f"{answer.model} answered without a word (finish: {answer.finish})")
    return answer


def _with_evidence(error: ModelFailed, heard: _Heard) -> ModelFailed:
    """The failure to report: whatever ends a stream that has begun, has cut it."""
    after_ms = error.retry_after_ms
    if heard.chunks and not heard.whole and not isinstance(error, StreamCut):
        error = StreamCut(error.message, retry_after_ms=after_ms)
    error.leave(heard.evidence(after_ms))
    return error


@dataclass(slots=True)
class _Heard:
    """What came so far of one attempt."""

    model: str
    pieces: list[str] = field(default_factory=list)
    size: int = 0
    chunks: int = 0
    usage: Usage = field(default_factory=Usage)
    whole: bool = False

    def add(self, chunk: Chunk) -> None:
        """Takes note of a chunk; `StreamCut` where the answer becomes too long to be stored."""
        self.usage = chunk.usage or self.usage
        piece = chunk.text + chunk.arguments
        if not piece:
            return
        self.chunks += 1
        self.pieces += [chunk.text] if chunk.text else []
        self.size += len(piece.encode("utf-8", "backslashreplace"))
        if self.size > ANSWER_BYTES_MAX:
            raise StreamCut(
                f"the answer of {self.model} is longer than {ANSWER_BYTES_MAX} bytes: limit its tokens"
            )

    def answered(self, answer: Answer) -> None:
        """Takes note of the whole answer: what is wrong with it now is no cut."""
        self.model, self.usage, self.whole = answer.model, answer.usage, True
        self.pieces = [answer.text]

    def evidence(self, retry_after_ms: int | None) -> Evidence:
        """All of it, for the log."""
        text = joined(self.pieces)
        return Evidence(
            model=self.model,
            partial=text,
            characters=len(text),
            chunks=self.chunks,
            input_tokens=self.usage.input_tokens,
            output_tokens=self.usage.output_tokens,
            retry_after_ms=retry_after_ms,
        )
