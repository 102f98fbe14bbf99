"""Items put aside in files by slices, so that one slice at a time is in memory, however many there are."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

BUFFER_MAX = 4_000
"""Items of all slices together that are held before they are written."""


class Spool:
    """Files of one folder that this process alone writes and reads; items of a slice come back in their order."""

    def __init__(self, folder: Path, slices: int) -> None:
        self._folder = folder
        self._slices = slices
        self._held: dict[int, list[Any]] = {}
        self._count = 0

    def add(self, hashed: int, item: Any) -> None:
        """Puts an item into the slice of this hash."""
        self._held.setdefault(hashed % self._slices, []).append(item)
        self._count += 1
        if self._count >= BUFFER_MAX:
            self._write()

    def read(self, number: int) -> Iterator[Any]:
        """What was put into a slice; gone from the disk after that."""
        self._write()
        path = self._path(number)
        if not path.exists():
            return
        size = path.stat().st_size
        with path.open("rb") as file:
            while file.tell() < size:
                yield from pickle.load(file)  # noqa: S301 our own bytes, in a folder of our own
        path.unlink()

    def _write(self) -> None:
        for number, items in self._held.items():
            with self._path(number).open("ab") as file:
                pickle.dump(items, file, pickle.HIGHEST_PROTOCOL)
        self._held, self._count = {}, 0

    def _path(self, number: int) -> Path:
        return self._folder / f"{number}"
