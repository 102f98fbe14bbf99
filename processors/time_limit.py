"""A limit on how long one command may take: a workflow that spins is held, and its partition, or its rehearsal, goes on."""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Callable
from importlib import import_module
from types import FrameType, TracebackType
from typing import Any

from .workflow.errors import WorkflowStuck

LIMIT_S = 5.0
"""Far above any activation that asks for steps and waits; far below the time-out of a transaction."""

LAST_WORDS_S = 0.5
"""For what a coroutine does while it is let go. Nobody reads it, and many may be let go in a row, while others wait."""

PARTS = 5
"""The limit is over after so many alarms: a process that was frozen meanwhile finds one, however long that was."""

AGAIN_S = 0.05
"""A workflow that swallows the first interruption gets another one, and soon: one of many meets it outside of its `try`."""

PATIENCE = 3
"""Interruptions before they come in pairs: a loop inside of a `try` that catches everything is there again within
microseconds, and only what strikes while it goes back meets it outside."""

OVERDUE_S = 1e-6
"""When somebody else's alarm comes that was due while his timer was borrowed: at once."""

DEBUGGERS = frozenset({"bdb", "pdb", "pydevd", "_pydevd_bundle", "_pydevd_sys_monitoring"})
"""Modules and packages that are on the stack while a person looks at it."""

PAIRS_S = (2e-6, 4e-6, 8e-6, 16e-6, 32e-6, 64e-6, 128e-6, 256e-6)
"""How soon the second of a pair follows, in turn: how long a loop takes to go back is its own affair, and the machine's."""

STUBBORN, STUBBORN_S = 60, 5.0
"""Interruptions that a workflow may swallow, and for how long after the first, before its process gives up."""


_SIGALRM = int(getattr(signal, "SIGALRM", 0))  # Windows has none

_set_handler: Any = import_module("_signal").signal
"""What `signal.signal` calls. Around it Python makes enumerations of what comes and goes: a fortieth of a processor's time."""


class TimeLimit:
    """A context that raises `WorkflowStuck` inside itself after a while; main thread only, one at a time.

    By the wall's clock, so it is no fact: what is recorded is that the session was held, and why. Time in which the
    process was stopped counts for a fifth of the limit at most. Nothing is raised in what follows the context.
    """

    def __init__(
        self,
        limit_s: float = LIMIT_S,
        *,
        parts: int = PARTS,
        give_up: Callable[[], object] | None = None,
        stubborn_s: float = STUBBORN_S,
    ) -> None:
        """`give_up` is called where a workflow swallows all interruptions; it ends the process, which is noted."""
        self._limit_s = limit_s
        self._parts = parts
        self._give_up, self._stubborn_s = give_up, stubborn_s
        self._stuck_s = 0.0
        self._inside = False
        self._alarms = 0

    def __enter__(self) -> None:
        _set_handler(_SIGALRM, self._interrupt)
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
        if self._alarms == self._parts:
            self._stuck_s = time.monotonic()
        stubborn = self._alarms > self._parts + STUBBORN
        if stubborn and self._give_up and time.monotonic() - self._stuck_s > self._stubborn_s:
            self._give_up()
        stuck = WorkflowStuck(
            f"it ran for {self._limit_s:g} s without a wait: only turn.… may wait, long work belongs in an activity"
        )
        in_pairs = self._alarms > self._parts + PATIENCE
        after_s = PAIRS_S[self._alarms % len(PAIRS_S)] if in_pairs else AGAIN_S
        signal.setitimer(signal.ITIMER_REAL, after_s, AGAIN_S)
        raise stuck


class BorrowedTimeLimit(TimeLimit):
    """The same in a process that is somebody else's, such as a run of tests.

    The handler and the timer that were there are there again after each use, the timer less the time that went by.
    Time in a debugger does not count. It is no limit where none can be: outside of the main thread, where the
    handler was not set from Python, and on Windows.
    """

    def __init__(self, limit_s: float = LIMIT_S, *, parts: int = PARTS) -> None:
        super().__init__(limit_s, parts=parts)
        self._lent: tuple[Any, float, float, float] | None = None
        """The handler; when its next alarm was due, and how often, in seconds; and since when it is lent."""

    def __enter__(self) -> None:
        if sys.platform == "win32" or threading.current_thread() is not threading.main_thread():
            return
        handler = signal.getsignal(signal.SIGALRM)
        if handler is None:
            return
        due_s, every_s = signal.setitimer(signal.ITIMER_REAL, 0)
        self._lent = (handler, due_s, every_s, time.monotonic())
        super().__enter__()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._lent is None:
            return
        super().__exit__(kind, error, trace)
        handler, due_s, every_s, since_s = self._lent
        self._lent = None
        signal.signal(signal.SIGALRM, handler)
        if due_s:
            left_s = due_s - (time.monotonic() - since_s)
            signal.setitimer(signal.ITIMER_REAL, max(left_s, OVERDUE_S), every_s)

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        if not _is_debugged(frame):
            super()._interrupt(number, frame)


def _is_debugged(frame: FrameType | None) -> bool:
    while frame is not None:
        if str(frame.f_globals.get("__name__")).partition(".")[0] in DEBUGGERS:
            return True
        frame = frame.f_back
    return False


_OWN = tuple(
    method.__code__
    for limit in (TimeLimit, BorrowedTimeLimit)
    for method in (limit.__enter__, limit.__exit__, limit._interrupt)  # noqa: SLF001 its own
)
"""Raised in one of these, it would come out where nobody expects it, with the clock still running."""
