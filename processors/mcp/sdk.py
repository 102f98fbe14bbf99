"""What is asked of the `mcp` SDK: clients over both transports, lists of tools, and which errors are broken connections.

The SDK is an extra, and takes long to load: it is imported by a worker that connects, and by nobody else.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from .claims import Claims
from .errors import NotConnected
from .manifest import Described
from .stdio import Words, stdio

TOOLS_MAX = 1_000
"""Tools that a server may list."""

PAGES_MAX = 100

INHERITED = ("HOME", "LANG", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ", "USER")
"""Of the worker's environment, what a server on the same machine gets: nothing that could be a secret."""

HTTP_TIMEOUT_S = 30.0
"""To connect and to send; how long an answer may take is the activity's own time-out."""

SDK_MISSING = "the mcp SDK is not installed here: install wakeful[mcp]"


@asynccontextmanager
async def over_stdio(
    server: str,
    command: list[str],
    env: Mapping[str, str],
    closed: Callable[[], None],
    changed: Callable[[], None],
) -> AsyncIterator[Any]:
    """A client of a server that is started here, for as long as the context."""
    words = Words(server)
    inherited = {name: os.environ[name] for name in INHERITED if name in os.environ}  # noqa: TID251 what a process hands to its child
    try:
        transport = stdio(command, {**inherited, **env}, words, closed)
        async with _client(transport, changed) as client:
            yield client
    except NotConnected:
        raise
    except Exception as error:
        if not words.last:
            raise
        raise NotConnected(f"it ended ({first_of(error)}){words}") from error


@asynccontextmanager
async def over_http(
    url: str, headers: Mapping[str, str], changed: Callable[[], None]
) -> AsyncIterator[Any]:
    """A client of a server at this address, over streamable HTTP."""
    try:
        import httpx2
        from mcp.client.streamable_http import streamable_http_client
    except ImportError as error:
        raise NotConnected(SDK_MISSING) from error
    timeout = httpx2.Timeout(HTTP_TIMEOUT_S, read=None)
    async with httpx2.AsyncClient(headers=dict(headers), timeout=timeout) as http:
        transport = streamable_http_client(url, http_client=http)
        async with _client(transport, changed) as client:
            yield client


@asynccontextmanager
async def _client(transport: Any, changed: Callable[[], None]) -> AsyncIterator[Any]:
    try:
        import mcp
    except ImportError as error:
        raise NotConnected(SDK_MISSING) from error

    async def heard(message: Any) -> None:
        if getattr(message, "method", "") == "notifications/tools/list_changed":
            changed()

    async with mcp.Client(transport, message_handler=heard, cache=None) as client:
        yield client


async def listed(client: Any) -> list[Any]:
    """All tools of the server."""
    tools: list[Any] = []
    cursor: str | None = None
    for _ in range(PAGES_MAX):
        page = await client.list_tools(cursor=cursor)
        tools += page.tools
        cursor = page.next_cursor
        if cursor is None or len(tools) > TOOLS_MAX:
            break
    return tools[:TOOLS_MAX]


def described(tool: Any) -> Described:
    """A tool as its server describes it."""
    said = tool.annotations
    claims = Claims()
    if said is not None:
        claims = Claims(
            said.read_only_hint,
            said.destructive_hint,
            said.idempotent_hint,
            said.open_world_hint,
        )
    return Described(tool.name, tool.description or "", dict(tool.input_schema), claims)


def first_of(error: BaseException) -> BaseException:
    """The first error inside of those that come in groups."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def is_broken(error: BaseException) -> bool:
    """Whether this error of a call says that its connection is of no use any more."""
    import anyio
    from mcp import MCPError
    from mcp_types import CONNECTION_CLOSED, INVALID_REQUEST, REQUEST_TIMEOUT

    if isinstance(error, MCPError):
        lost = error.code == INVALID_REQUEST and "terminated" in error.message
        return lost or error.code in (CONNECTION_CLOSED, REQUEST_TIMEOUT)
    return isinstance(error, anyio.ClosedResourceError | anyio.BrokenResourceError | OSError)
