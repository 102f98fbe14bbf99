"""Follows the log files of children and tells each new line with its name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

CHUNK_BYTES = 64 * 1024
"""Read per file and look: a child that floods its log slows nobody down."""


@dataclass(slots=True)
class _Tail:
    path: Path
    at: int
    rest: bytes = b""


class Follower:
    """`look` tells the lines that were added since the last look; not for several threads."""

    def __init__(self, echo: Callable[[str, str], None]) -> None:
        self._echo = echo
        self._tails: dict[str, _Tail] = {}

    def add(self, name: str, path: Path) -> None:
        """Follows a file from its end on; a file that was moved aside is followed from the new one's start."""
        tail = self._tails.get(name)
        size = path.stat().st_size if path.exists() else 0
        if tail is None or size < tail.at:
            self._tails[name] = _Tail(path, size)

    def look(self) -> None:
        """One look at all files."""
        for name, tail in self._tails.items():
            try:
                with tail.path.open("rb") as file:
                    file.seek(tail.at)
                    read = file.read(CHUNK_BYTES)
            except FileNotFoundError:
                continue  # removed by hand; a restart makes it again
            tail.at += len(read)
            *lines, tail.rest = (tail.rest + read).split(b"\n")
            for line in lines:
                self._echo(name, line.decode(errors="replace"))
