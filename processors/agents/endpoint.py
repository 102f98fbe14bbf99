"""What the adapters share: options, one client per event loop, and the events of a stream read into an answer."""

from __future__ import annotations

import asyncio
import re
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any, Protocol
from weakref import WeakKeyDictionary

from ..activities.hidden import Hidden
from .errors import ModelFailed, StreamCut, Unreadable
from .failing import failure_of, masked
from .port import Answer, ChatMessage, Chunk, ToolSpec

IDLE_S_DEFAULT = 60.0
"""Between two pieces of an answer, and before the first: models that think first take their time."""

CONNECT_S_DEFAULT = 10.0

OURS = frozenset({"model", "messages", "system", "stream", "stream_options"})
"""Fields of a request that the adapter itself fills in."""


TOOL_NAME_MAX = 64

_FOREIGN = re.compile(r"[^A-Za-z0-9_-]")


class Reading(Protocol):
    """One stream on its way to an answer."""

    def read(self, event: Any) -> Chunk | None:
        """The chunk in an event of the client library, if there is one."""
        ...

    def answer(self) -> Answer | None:
        """The answer, once it is whole."""
        ...


class EndpointModel(ABC):
    """A model behind HTTP, spoken to through a client library; see `Model`.

    `options` are further fields of the request, as the endpoint documents them. `idle_s` bounds each wait for more
    of an answer and `connect_s` that for a connection; the activity's time-out bounds the whole. The library's own
    retries are off: an attempt is an attempt, and the engine counts them.
    """

    def __init__(
        self,
        name: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        options: Mapping[str, Any] | None = None,
        idle_s: float = IDLE_S_DEFAULT,
        connect_s: float = CONNECT_S_DEFAULT,
    ) -> None:
        self.name = name
        self._base_url = base_url
        self._api_key = api_key
        self._options = dict(options or {})
        self._idle_s = idle_s
        self._connect_s = connect_s
        self._clients: WeakKeyDictionary[asyncio.AbstractEventLoop, Any] = WeakKeyDictionary()
        self._check()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r}>"

    async def stream(
        self, messages: Sequence[ChatMessage], *, tools: Sequence[ToolSpec] = ()
    ) -> AsyncGenerator[Chunk | Answer]:
        """See `Model.stream`."""
        client = await self._client()
        reading = self._reading()
        async with await self._opened(client, messages, tools) as events:
            try:
                async for event in events:
                    chunk = reading.read(event)
                    if chunk is not None:
                        yield chunk
            except Exception as error:  # noqa: BLE001 libraries raise their own, their transport's and json's
                raise self._broken(error, client) from None
        answer = reading.answer()
        if answer is None:
            raise StreamCut(f"the stream of {self.name} ended before its answer did")
        yield answer

    async def aclose(self) -> None:
        """Closes the connections of this event loop; the next call opens new ones."""
        client = self._clients.pop(asyncio.get_running_loop(), None)
        if client is not None:
            await client.close()

    @abstractmethod
    def _library(self) -> Any:
        """The client library; `ClientMissing` where it is not installed. Slow the first time."""

    @abstractmethod
    def _connect(self, library: Any) -> Any:
        """A client of it."""

    @abstractmethod
    async def _request(
        self, client: Any, messages: Sequence[ChatMessage], tools: Sequence[ToolSpec]
    ) -> Any:
        """The stream of events that answers these messages."""

    @abstractmethod
    def _reading(self) -> Reading:
        """A stream that has not begun."""

    def _check(self) -> None:
        if not self.name:
            raise ValueError("the model has no name: give the endpoint's name for it")
        taken = sorted(OURS & set(self._options))
        if taken:
            raise ValueError(
                f"options of {self.name} set {', '.join(taken)}: the adapter does that"
            )
        if min(self._idle_s, self._connect_s) <= 0:
            raise ValueError(
                f"idle_s of {self.name} is {self._idle_s} and connect_s {self._connect_s}: give more than 0 seconds"
            )

    async def _client(self) -> Any:
        """This loop's client: connections belong to the loop that opened them."""
        library = await asyncio.to_thread(self._library)  # the first import takes half a second
        loop = asyncio.get_running_loop()
        client = self._clients.get(loop)
        if client is None:
            try:
                client = self._clients[loop] = self._connect(library)
            except Exception as error:  # noqa: BLE001 a missing key, a base URL that is none
                raise failure_of(error, self.name) from None
            # Nobody prints it here, but these libraries log what they send.
            Hidden().add(client.api_key)
        return client

    async def _opened(
        self, client: Any, messages: Sequence[ChatMessage], tools: Sequence[ToolSpec]
    ) -> Any:
        try:
            return await self._request(client, messages, tools)
        except Exception as error:  # noqa: BLE001 see `stream`
            raise masked(failure_of(error, self.name), client.api_key) from None

    def _broken(self, error: Exception, client: Any) -> ModelFailed:
        """What an error in the middle of a stream is called."""
        if isinstance(error, ModelFailed):
            return error
        if isinstance(error, ValueError | TypeError | AttributeError | LookupError):
            return Unreadable(f"{self.name} sent what cannot be read ({type(error).__name__})")
        return masked(failure_of(error, self.name, begun=True), client.api_key)


def with_tools(options: Mapping[str, Any], tools: Sequence[Any]) -> dict[str, Any]:
    """The options with these tools, as the endpoint wants them, behind those that the options name themselves."""
    return {**options, "tools": [*options.get("tools", ()), *tools]} if tools else dict(options)


def tool_name(name: str) -> str:
    """The name as endpoints take it: models call tools that do not exist by names that would be refused when sent back."""
    return _FOREIGN.sub("_", name)[:TOOL_NAME_MAX] or "_"


def count(value: object) -> int | None:
    """A number of tokens, where it is one."""
    return value if isinstance(value, int) and value >= 0 else None
