"""A small file that somebody changes while the gateway runs: read again when it looks different."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Generic, TypeVar

import structlog

from ..exits import Stopped

T = TypeVar("T")

logger = structlog.get_logger("wakeful.gateway")


class Reread(Generic[T]):
    """What is in a file, as it is now; safe to use from several threads."""

    def __init__(self, path: Path | None, read: Callable[[Path], T], nothing: T) -> None:
        """`nothing` stands for a file that is not there. `Stopped` says what is wrong with one that is."""
        self._path, self._read, self._nothing = path, read, nothing
        self._lock = threading.Lock()
        self._seen: tuple[int, int, int] | None = None
        self._value = nothing
        self._look()

    def now(self) -> T:
        """The value; where the file was damaged since, that from before, with a line in the log."""
        try:
            self._look()
        except Stopped as damaged:
            logger.error("a file cannot be read again", why=damaged.message)  # noqa: TRY400
        return self._value

    def _look(self) -> None:
        if self._path is None:
            return
        with self._lock:
            try:
                found = self._path.stat()
            except OSError:
                self._seen, self._value = None, self._nothing
                return
            seen = found.st_mtime_ns, found.st_size, found.st_ino
            if seen != self._seen:
                self._seen = seen  # a damaged one is told of once
                self._value = self._read(self._path)
