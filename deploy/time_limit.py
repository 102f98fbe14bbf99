"""A limit on how long one command may take in a processor: a workflow that spins is held, its partition goes on."""

from __future__ import annotations

import signal
from types import FrameType, TracebackType

from ..processors.workflow.errors import WorkflowStuck

LIMIT_S = 5.0
"""Far above any activation that asks for steps and waits; far below the time-out of a transaction."""

PARTS = 5
"""The limit is over after so many alarms: a process that was frozen meanwhile finds one, however long that was."""

AGAIN_S = 0.05
"""A workflow that swallows the first interruption gets another one, and soon: one of many meets it outside of its `try`."""

PATIENCE = 3
"""Interruptions before they come in pairs: a loop inside of a `try` that catches everything is there again within
microseconds, and only what strikes while it goes back meets it outside."""

PAIRS_S = (2e-6, 4e-6, 8e-6, 16e-6, 32e-6)
"""How soon the second of a pair follows, in turn: how long a loop takes to go back is its own affair."""


class TimeLimit:
    """A context that raises `WorkflowStuck` inside itself after a while; main thread only, one at a time.

    By the wall's clock, so it is no fact: what is recorded is that the session was held, and why. Time in which the
    process was stopped counts for a fifth of the limit at most. Nothing is raised in what follows the context.
    """

    def __init__(self, limit_s: float = LIMIT_S, *, parts: int = PARTS) -> None:
        self._limit_s = limit_s
        self._parts = parts
        self._inside = False
        self._alarms = 0
        signal.signal(signal.SIGALRM, self._interrupt)

    def __enter__(self) -> None:
        self._inside, self._alarms = True, 0
        part_s = self._limit_s / self._parts
        signal.setitimer(signal.ITIMER_REAL, part_s, max(part_s, AGAIN_S))

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._inside = False
        signal.setitimer(signal.ITIMER_REAL, 0)

    def _interrupt(self, _number: int, frame: FrameType | None) -> None:
        if not self._inside or (frame is not None and frame.f_code in _OWN):
            return
        self._alarms += 1
        if self._alarms < self._parts:
            return
        stuck = WorkflowStuck(
            f"it ran for {self._limit_s:g} s without a wait: only turn.… may wait, long work belongs in an activity"
        )
        in_pairs = self._alarms > self._parts + PATIENCE
        after_s = PAIRS_S[self._alarms % len(PAIRS_S)] if in_pairs else AGAIN_S
        signal.setitimer(signal.ITIMER_REAL, after_s, AGAIN_S)
        raise stuck


_OWN = tuple(
    method.__code__
    for method in (TimeLimit.__enter__, TimeLimit.__exit__, TimeLimit._interrupt)  # noqa: SLF001 its own
)
"""Raised in one of these, it would come out where nobody expects it, with the clock still running."""
