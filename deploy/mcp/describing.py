"""What an MCP server says of its tools, asked once, as a manifest for people to review."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from ...processors.mcp.errors import NotConnected
from ...processors.mcp.manifest import Described, Manifest, ToolEntry, drift
from ...processors.mcp.sdk import described, first_of, listed, over_http, over_stdio
from ..exits import Exit, Stopped

LIMIT_S = 30.0
"""For the server to start and to tell."""


def describe(
    server: str, *, command: Sequence[str], url: str | None, headers: Mapping[str, str]
) -> Manifest:
    """The manifest of a server as it describes itself now; nobody has reviewed it, so it is not trusted."""
    try:
        found = asyncio.run(_described(server, command, url, headers))
    except TimeoutError:
        raise Stopped(
            Exit.UNAVAILABLE, f"mcp server {server!r} has not told its tools within {LIMIT_S:.0f} s"
        ) from None
    except (NotConnected, ExceptionGroup, OSError) as error:
        raise Stopped(
            Exit.UNAVAILABLE, f"mcp server {server!r} cannot be asked: {first_of(error)}"
        ) from error
    return Manifest(server, tools={one.name: ToolEntry(one) for one in found})


def drifted(reviewed: Manifest, met: Manifest) -> list[str]:
    """What the server says otherwise than it was reviewed, one line per tool; new tools among it."""
    told = []
    for name, entry in sorted(reviewed.tools.items()):
        now = met.tools.get(name)
        why = drift(entry.described, None if now is None else now.described)
        if why is not None and entry.use:
            told.append(f"{name}: {why}")
    told += [f"{name}: it is new" for name in sorted(met.tools) if name not in reviewed.tools]
    return told


async def _described(
    server: str, command: Sequence[str], url: str | None, headers: Mapping[str, str]
) -> list[Described]:
    def nothing() -> None:
        return None

    async with asyncio.timeout(LIMIT_S):
        opened = (
            over_stdio(server, list(command), {}, nothing, nothing)
            if url is None
            else over_http(url, headers, nothing)
        )
        async with opened as client:
            return [described(tool) for tool in await listed(client)]
