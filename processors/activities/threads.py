"""The threads of sync activities: a few, made when they are needed, and waited for by nobody.

`concurrent.futures` joins its threads when the interpreter ends, so that one hung call keeps a process for ever.
These are daemons: what they do when the process ends is cut, as a kill cuts it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import SimpleQueue


class Threads:
    """At most `threads_max` of them. One thread calls `run`; a call must not raise."""

    def __init__(self, name: str, *, threads_max: int) -> None:
        if threads_max < 1:
            raise ValueError(f"threads_max is {threads_max}, it must be at least 1")
        self._name = name
        self._threads_max = threads_max
        self._made = 0
        self._calls: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._idle = threading.Semaphore(0)

    def run(self, call: Callable[[], None]) -> None:
        """Runs `call` in one of the threads: at once, or when the first of them is free."""
        self._calls.put(call)
        if self._idle.acquire(blocking=False) or self._made == self._threads_max:
            return
        self._made += 1
        name = f"{self._name}-{self._made}"
        threading.Thread(target=self._work, name=name, daemon=True).start()

    def close(self) -> None:
        """Lets idle threads end, and the others after their calls."""
        for _ in range(self._made):
            self._calls.put(None)

    def _work(self) -> None:
        while (call := self._calls.get()) is not None:
            call()
            del call  # what it holds is not kept until the next one
            self._idle.release()
