"""One connection of a worker to an MCP server: made when a call needs it, kept, and made anew when it breaks.

A task of its own holds it, since what is opened in a task must be closed there. It is left to its last call, and closed
then, once it breaks, once a call on it was cancelled (a server that hangs answers nobody), and once its tools have
drifted from what was reviewed; the next call has another one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from contextvars import Context
from typing import Any, NoReturn
from weakref import WeakKeyDictionary

import structlog

from .errors import Disconnected, NotConnected, SchemaChanged, ServerError, ToolFailed, ToolRefused
from .manifest import Described, ToolEntry, drift
from .results import text_of, value_of
from .sdk import described, first_of, is_broken, listed

LISTED_S = 60.0
"""How long a server's list of tools is taken to be as it was; it is asked again sooner where it says that it has changed."""

KEY_META = "io.wakeful/idempotency-key"
"""Under which a server that looks finds the idempotency key."""

Opened = Callable[[Callable[[], None], Callable[[], None]], AbstractAsyncContextManager[Any]]
"""Opens the SDK's client; is given what to call when the connection has closed, and when the tools have changed."""

logger = structlog.get_logger("wakeful.mcp")


class Connection:
    """See the module."""

    def __init__(self, server: str, opened: Opened, connect_s: float) -> None:
        self._server, self._opened, self._connect_s = server, opened, connect_s
        loop = asyncio.get_running_loop()
        self._ready: asyncio.Future[Any] = loop.create_future()
        self._over = asyncio.Event()
        self._calls = 0
        self._listed_at = 0.0
        self._listing = asyncio.Lock()
        self._tools: dict[str, Described] = {}
        self.retired = False
        self._holder = loop.create_task(self._hold(), context=Context())

    async def client(self) -> Any:
        """The SDK's client, once the server has answered; `NotConnected` where it does not."""
        try:
            return await asyncio.shield(self._ready)
        except NotConnected:
            self.retire()
            raise

    def enter(self) -> None:
        """A call begins on it."""
        self._calls += 1

    def leave(self) -> None:
        """A call on it is over."""
        self._calls -= 1
        self._close_if_idle()

    def retire(self) -> None:
        """No call begins on it any more; it is closed once those that run are over."""
        self.retired = True
        self._close_if_idle()

    async def check(self, reviewed: Described) -> None:
        """`SchemaChanged` where the server describes this tool otherwise than it was reviewed."""
        await self._list_tools()
        why = drift(reviewed, self._tools.get(reviewed.name))
        if why is None:
            return
        self.retire()
        raise SchemaChanged(
            f"tool {reviewed.name!r} of mcp server {self._server!r} is not what was reviewed: {why}; "
            "nothing was sent. See 'wakeful mcp describe … --check', review it, and commit the manifest"
        )

    def _close_if_idle(self) -> None:
        if self.retired and self._calls == 0:
            self._over.set()

    def _forget_list(self) -> None:
        self._tools = {}

    async def _list_tools(self) -> None:
        now = asyncio.get_running_loop().time()
        async with self._listing:
            if self._tools and now - self._listed_at < LISTED_S:
                return
            client = await self.client()
            try:
                async with asyncio.timeout(self._connect_s):
                    found = await listed(client)
            except Exception as error:
                self.retire()
                told = _told(error) or f"no answer within {self._connect_s:g} s"
                raise NotConnected(
                    f"mcp server {self._server!r} does not list its tools, so nothing was sent: {told}"
                ) from error
            self._tools = {tool.name: described(tool) for tool in found}
            self._listed_at = now

    async def _hold(self) -> None:
        try:
            async with AsyncExitStack() as stack:
                async with asyncio.timeout(self._connect_s):
                    opening = self._opened(self.retire, self._forget_list)
                    client = await stack.enter_async_context(opening)
                self._ready.set_result(client)
                await self._over.wait()
        except Exception as error:  # noqa: BLE001 told to whoever waits, or logged
            if not self._ready.done():
                self._ready.set_exception(self._unreachable(error))
                self._ready.exception()  # told to whoever waits; nobody may
            else:
                logger.info("an mcp connection broke", server=self._server, error=_told(error))
        finally:
            self.retired = True
            if not self._ready.done():
                self._ready.set_exception(NotConnected(f"the worker leaves {self._server!r}"))
                self._ready.exception()

    def _unreachable(self, error: Exception) -> NotConnected:
        told = _told(error) or f"no answer within {self._connect_s:g} s"
        if isinstance(error, NotConnected):
            told = str(error)
        return NotConnected(f"mcp server {self._server!r} cannot be reached: {told}")


class Connections:
    """The one connection to a server of each event loop; a worker has one loop."""

    def __init__(self, server: str, opened: Opened, connect_s: float) -> None:
        self._server, self._opened, self._connect_s = server, opened, connect_s
        self._of: WeakKeyDictionary[asyncio.AbstractEventLoop, Connection] = WeakKeyDictionary()

    async def call(self, entry: ToolEntry, arguments: Mapping[str, Any], key: str | None) -> Any:
        """The tool's result; see `errors.py` for what it raises."""
        connection = self._current()
        connection.enter()
        try:
            client = await connection.client()
            await connection.check(entry.described)
            meta = None if key is None else {KEY_META: key}
            answer = await client.session.call_tool(
                entry.described.name, dict(arguments), meta=meta
            )
        except asyncio.CancelledError:
            connection.retire()
            raise
        except (NotConnected, SchemaChanged):
            raise
        except Exception as error:  # noqa: BLE001 whatever the SDK raises, in words of ours
            self._failed(entry, connection, error)
        finally:
            connection.leave()
        if not answer.is_error:
            return value_of(answer)
        failed = ToolRefused if entry.errors_are_certain else ToolFailed
        raise failed(text_of(answer))

    def _current(self) -> Connection:
        loop = asyncio.get_running_loop()
        found = self._of.get(loop)
        if found is None or found.retired:
            found = Connection(self._server, self._opened, self._connect_s)
            self._of[loop] = found
        return found

    def _failed(self, entry: ToolEntry, connection: Connection, error: Exception) -> NoReturn:
        name = f"tool {entry.described.name!r} of mcp server {self._server!r}"
        if is_broken(error):
            connection.retire()
            told = f"the connection broke while {name} was called: {_told(error)}"
            raise Disconnected(told) from error
        raise ServerError(f"{name} was answered with an error: {_told(error)}") from error


def _told(error: BaseException) -> str:
    """The first error inside, in words; none for a time-out."""
    error = first_of(error)
    if isinstance(error, TimeoutError):
        return ""
    return f"{type(error).__name__}: {error}"[:500]
