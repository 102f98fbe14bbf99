"""A stranger's server, reviewed: its manifest, and a call of its tools as a worker makes it."""

import asyncio
import os
import sys
import time
from pathlib import Path

import pytest

from wakeful.deploy.mcp.describing import describe
from wakeful.mcp import McpServer
from wakeful.processors.mcp.manifest import write

SERVER = Path(__file__).with_name("stranger.py")
LIMIT_S = 40.0


class Stranger:
    """The server, and what it noted."""

    def __init__(self, folder: Path, reviewed: str) -> None:
        self.folder = folder
        self.manifest = folder / "tools.toml"
        self.manifest.write_text(reviewed, encoding="utf-8")

    def command(self, *words: str) -> list[str]:
        return [sys.executable, "-S", str(SERVER), str(self.folder), *words]

    def server(self, *words: str, trusted: bool = True, **options) -> McpServer:
        text = self.manifest.read_text(encoding="utf-8")
        told = f"trusted = {str(trusted).lower()}"
        self.manifest.write_text(text.replace("trusted = false", told), encoding="utf-8")
        return McpServer("them", manifest=self.manifest, command=self.command(*words), **options)

    def said(self, tool: str, line: str) -> None:
        """What people write in the manifest of a tool."""
        text = self.manifest.read_text(encoding="utf-8")
        self.manifest.write_text(
            text.replace(f"[tools.{tool}]\n", f"[tools.{tool}]\n{line}\n"), "utf-8"
        )

    def noted(self, name: str) -> list[str]:
        path = self.folder / name
        return path.read_text(encoding="utf-8").split() if path.exists() else []


@pytest.fixture(scope="session")
def reviewed(tmp_path_factory) -> str:
    folder = tmp_path_factory.mktemp("mcp")
    command = [sys.executable, "-S", str(SERVER), str(folder)]
    return write(describe("them", command=command, url=None, headers={}))


@pytest.fixture
def stranger(tmp_path, reviewed) -> Stranger:
    return Stranger(tmp_path, reviewed)


async def call(tool, **arguments):
    """What a worker gets of a call; raises what it raises."""
    async with asyncio.timeout(LIMIT_S):
        return await tool.function(**tool.call(**arguments).arguments)


def gone(*pids: int) -> None:
    """Waits until these processes are no more."""
    give_up = time.monotonic() + LIMIT_S
    for pid in pids:
        while is_alive(pid):
            assert time.monotonic() < give_up, f"process {pid} is still there"
            time.sleep(0.01)


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    stat = Path(f"/proc/{pid}/stat")
    return not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] != "Z"
