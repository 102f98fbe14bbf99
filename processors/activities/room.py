"""How many tasks a queue of a worker may still take, and what it does while that is none."""

from __future__ import annotations

import threading
from collections.abc import Callable

from .core import UNSETTLED_MAX, WorkerCore

AHEAD = 2
"""Tasks held, as a multiple of the concurrency, so that the loop never waits for a poll."""

FULL_MS = 200
"""A worker that is full for longer pauses its partitions, so that nothing is fetched for it."""

MOVED_MS = 100
"""A full worker looks that often whether the broker has acknowledged something."""


class Room:
    """Asked by the intake alone; `moved` wakes it when a job has ended, `stopping` for good."""

    def __init__(
        self,
        core: WorkerCore,
        *,
        concurrency: int,
        moved: threading.Event,
        stopping: threading.Event,
        monotonic: Callable[[], float],
    ) -> None:
        self._core = core
        self._concurrency = concurrency
        self._moved = moved
        self._stopping = stopping
        self._monotonic = monotonic
        self._paused = False

    def wait(self) -> int:
        """How many tasks may be taken now, after a moment's wait where there are none.

        It pauses only where a full worker stays full, since a pause throws fetched records away.
        """
        room = self._room() or self._wait_for_room()
        if room == 0:
            self._core.pause()
            self._paused = True
        elif self._paused:
            self._core.resume()
            self._paused = False
        return room

    def _room(self) -> int:
        if self._core.unsettled >= UNSETTLED_MAX:
            return 0
        return max(0, self._concurrency * AHEAD - self._core.running)

    def _wait_for_room(self) -> int:
        room, give_up = 0, self._monotonic() + FULL_MS / 1000
        while not room and not self._stopping.is_set():
            self._moved.clear()
            self._core.settle()
            room = self._room()
            left = give_up - self._monotonic()
            if room or left <= 0:
                break
            self._moved.wait(min(left, MOVED_MS / 1000))
        return room
