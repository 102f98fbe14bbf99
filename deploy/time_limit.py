"""A limit on how long one command may take in a processor: a workflow that spins is held, its partition goes on."""

from __future__ import annotations

import signal
from types import FrameType, TracebackType

from ..processors.workflow.errors import WorkflowStuck

LIMIT_S = 5.0
"""Far above any activation that asks for steps and waits; far below the time-out of a transaction."""

AGAIN_S = 0.05
"""A workflow that swallows the first interruption gets another one, and soon: one of many meets it outside of its `try`."""


class TimeLimit:
    """A context that raises `WorkflowStuck` inside itself after a while; main thread only, one at a time.

    By the wall's clock, so it is no fact: what is recorded is that the session was held, and why.
    """

    def __init__(self, limit_s: float = LIMIT_S) -> None:
        self._limit_s = limit_s
        signal.signal(signal.SIGALRM, self._interrupt)

    def __enter__(self) -> None:
        signal.setitimer(signal.ITIMER_REAL, self._limit_s, AGAIN_S)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)

    def _interrupt(self, _number: int, _frame: FrameType | None) -> None:
        raise WorkflowStuck(
            f"it ran for {self._limit_s:g} s without a wait: only turn.… may wait, long work belongs in an activity"
        )
