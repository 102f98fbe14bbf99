"""An MCP server as a process of the worker's: messages on its stdin and stdout, its stderr into the log, its end certain.

It runs behind a guard (`guard.py`) in a process group of its own, which is killed when the connection is over, and by
the guard where the worker is killed.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import structlog

from .errors import NotConnected

MESSAGE_BYTES_MAX = 32 * 1024 * 1024
"""Of one message of a server; a longer one ends the connection."""

STDERR_CHARACTERS_MAX = 1_000
"""Of one line of its stderr; the rest of the line is dropped."""

STDERR_LINES_KEPT = 5
"""Of its last words, for the failure of a call."""

ENDS_S = 0.3
"""What a server has to end by itself after its stdin has closed; a worker that ends gives a second to all of it."""

CHUNK = 65_536

logger = structlog.get_logger("wakeful.mcp")


@dataclass(slots=True)
class Words:
    """The last that a server has said on its stderr."""

    server: str
    last: deque[str] = field(default_factory=lambda: deque(maxlen=STDERR_LINES_KEPT))

    def __str__(self) -> str:
        return f"; its last words: {' / '.join(self.last)}" if self.last else ""


def program(command: list[str], env: Mapping[str, str]) -> list[str]:
    """The command with the path of its program; `NotConnected` where there is none."""
    found = shutil.which(command[0], path=env.get("PATH"))
    if found is None:
        raise NotConnected(
            f"no program {command[0]!r} on this worker: install it, or correct command="
        )
    return [found, *command[1:]]


@asynccontextmanager
async def stdio(
    command: list[str], env: Mapping[str, str], words: Words, closed: Callable[[], None]
) -> AsyncIterator[tuple[Any, Any]]:
    """Starts the server and yields the streams that the SDK speaks through; `closed` is told when the server has ended."""
    import anyio

    reading, writing = os.pipe()
    try:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-I", "-S", str(Path(__file__).with_name("guard.py"))),
            *(str(reading), *program(command, env)),
            stdin=PIPE,
            stdout=PIPE,
            stderr=PIPE,
            env=dict(env),
            pass_fds=(reading,),
            start_new_session=True,
        )
    except BaseException:
        os.close(writing)
        raise
    finally:
        os.close(reading)
    incoming, read_stream = anyio.create_memory_object_stream[Any](0)
    write_stream, outgoing = anyio.create_memory_object_stream[Any](0)
    pumps = [
        asyncio.ensure_future(_read(process, incoming, closed)),
        asyncio.ensure_future(_write(process, outgoing, closed)),
        asyncio.ensure_future(_listen(process, words)),
    ]
    try:
        yield read_stream, write_stream
    finally:
        try:
            await _end(process)
        finally:
            os.close(writing)
            for pump in pumps:
                pump.cancel()
            for stream in (incoming, read_stream, write_stream, outgoing):
                stream.close()


async def _end(process: Process) -> None:
    """Closes its stdin, gives it a moment, and kills its group; a group that is gone is no fault."""
    try:
        if process.stdin is not None:
            process.stdin.close()
        with suppress(TimeoutError):
            async with asyncio.timeout(ENDS_S):
                await process.wait()
    finally:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
    with suppress(TimeoutError):
        async with asyncio.timeout(ENDS_S):
            await process.wait()


async def _read(process: Process, incoming: Any, closed: Callable[[], None]) -> None:
    """Its lines, as messages; ends with the server, or with a line that is too long."""
    import anyio
    from mcp.shared.message import SessionMessage
    from mcp_types import jsonrpc_message_adapter

    begun = bytearray()
    try:
        async with incoming:
            while data := await _chunk(process.stdout):
                begun += data
                *lines, rest = begun.split(b"\n") if b"\n" in data else (begun,)
                begun = bytearray(rest)
                if len(begun) > MESSAGE_BYTES_MAX:
                    logger.warning(
                        "an mcp server's message is too long", bytes_max=MESSAGE_BYTES_MAX
                    )
                    return
                for line in lines:
                    try:
                        message: Any = SessionMessage(
                            jsonrpc_message_adapter.validate_json(bytes(line), by_name=False)
                        )
                    except ValueError as error:
                        message = error
                    await incoming.send(message)
    except (anyio.ClosedResourceError, anyio.BrokenResourceError):
        return
    finally:
        closed()


async def _write(process: Process, outgoing: Any, closed: Callable[[], None]) -> None:
    try:
        async with outgoing:
            async for one in outgoing:
                text = one.message.model_dump_json(by_alias=True, exclude_unset=True)
                if process.stdin is not None:
                    process.stdin.write(text.encode() + b"\n")
                    await process.stdin.drain()
    except OSError:
        closed()


async def _listen(process: Process, words: Words) -> None:
    """Its stderr, line by line, into the log: it is for operators, who have no other way to see it."""
    begun = b""
    while data := await _chunk(process.stderr):
        *lines, begun = (begun + data).split(b"\n")
        begun = begun[:STDERR_CHARACTERS_MAX]
        for line in lines:
            _tell(line, words)
    if begun:
        _tell(begun, words)


def _tell(line: bytes, words: Words) -> None:
    text = line[:STDERR_CHARACTERS_MAX].decode("utf-8", "replace").strip()
    if text:
        words.last.append(text)
        logger.info("an mcp server says", server=words.server, line=text)


async def _chunk(stream: asyncio.StreamReader | None) -> bytes:
    return b"" if stream is None else await stream.read(CHUNK)
