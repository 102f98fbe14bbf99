"""What is to be said of attempts that end in one turn of the event loop leaves together, when that turn is over.

Under load a turn carries out all tasks of a fetch, one after another, for many milliseconds. Sent one by one, their results
would be as many requests to the broker, and each of them wakes a processor that has better waited for the others.
"""

from __future__ import annotations

from asyncio import AbstractEventLoop
from collections import deque
from collections.abc import Callable

from .jobs import Job
from .runner import Said

RESULTS_MAX = 32
"""Of so many the processor may as well begin to decide, while the rest is carried out: ten milliseconds' work or less."""


class Burst:
    """`add` belongs to the loop's thread. `send` may be called by any: results do not wait for a loop that is blocked."""

    def __init__(
        self,
        hand_in: Callable[[Job, Said | None], None],
        broken: Callable[[Job, BaseException], None],
    ) -> None:
        """`broken` is told what `hand_in` raised."""
        self._hand_in = hand_in
        self._broken = broken
        self._said: deque[tuple[Job, Said | None]] = deque()

    def add(self, loop: AbstractEventLoop, job: Job, body: Said | None) -> None:
        """Keeps it until this turn of the loop is over; what must not run twice is never kept, since its loss is uncertain."""
        if job.once:
            self._hand_in(job, body)
            return
        self._said.append((job, body))
        if len(self._said) >= RESULTS_MAX:
            self.send()
        elif len(self._said) == 1:
            loop.call_soon(self.send)

    def send(self) -> None:
        """Hands in all that is kept; a repeat finds nothing."""
        while self._said:
            try:
                job, body = self._said.popleft()
            except IndexError:
                return  # another thread was quicker
            try:
                self._hand_in(job, body)
            except BaseException as error:  # noqa: BLE001 carried to whoever runs the lane
                self._broken(job, error)
