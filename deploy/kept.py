"""Work that goes on when its process dies: a parent that does nothing else starts it again, at the same socket.

The Kafka client is C code and may crash where its broker goes away (librdkafka 2.16, its issue 5315). The child is a fork
of the loaded parent, so it is at work again within milliseconds; whoever connects meanwhile waits in the socket's queue.
"""

from __future__ import annotations

import mmap
import os
import signal
import threading
from collections.abc import Callable
from contextlib import contextmanager, suppress
from time import monotonic
from types import FrameType
from typing import TYPE_CHECKING

import structlog

from . import lifeline
from .exits import Exit

if TYPE_CHECKING:
    from collections.abc import Iterator

BACKOFF_S = (0.0, 0.2, 0.5, 1.0, 2.0, 5.0)
"""Before each start that follows on another without a rest; then the last one."""

RESTED_S = 30.0
"""A child that lived for so long has not died of its start."""

SIGNALS = (signal.SIGTERM, signal.SIGINT)

logger = structlog.get_logger("wakeful.process")


class Works:
    """What a child says once: that it has begun to work. Kept over children, so that only the first of them is told of."""

    def __init__(self) -> None:
        self._shared = mmap.mmap(-1, 1)

    def say(self) -> bool:
        """False where a child before has said so."""
        said = self.said
        self._shared[0] = 1
        return not said

    @property
    def said(self) -> bool:
        """Whether any child has."""
        return self._shared[0] == 1


class Kept:
    """Runs `work` in a child until it ends by itself, or because it was told to; `run` from the main thread, once.

    A child that dies, or fails after it has worked, is started again. One that fails before is not: what it cannot
    work with it would not be able to the next time.
    """

    def __init__(self, work: Callable[[Works], int]) -> None:
        """`work` gives the exit code; what it raises must have been told by then."""
        self._work = work
        self._works = Works()
        self._child = 0
        self._told_to_end = threading.Event()
        self._pipe = os.pipe()

    def run(self) -> int:
        """The exit code of the child that ended."""
        before = {number: signal.signal(number, self._forward) for number in SIGNALS}
        try:
            return self._keep()
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
            for descriptor in self._pipe:
                os.close(descriptor)

    def _keep(self) -> int:
        deaths = 0
        while True:
            began_s = monotonic()
            code = self._once()
            if self._told_to_end.is_set():
                return (
                    Exit.DONE if -code in SIGNALS else code
                )  # it ended before it could do so in order
            if code == Exit.DONE or (code > 0 and not self._works.said):
                return code
            deaths = 0 if monotonic() - began_s > RESTED_S else deaths + 1
            pause_s = BACKOFF_S[min(deaths, len(BACKOFF_S) - 1)]
            how = {"signal": -code} if code < 0 else {"code": code}
            logger.error("the process died and is started again", pause_s=pause_s, **how)
            if self._told_to_end.wait(pause_s):
                return Exit.DONE

    def _once(self) -> int:
        """One child, from its start to its end: its exit code, or the signal that it died of as a negative number."""
        with _deaf():
            pid = os.fork()
            if pid:
                self._child = pid
            else:
                self._become()
        if not pid:
            os._exit(self._code())
        _, status = os.waitpid(pid, 0)
        with _deaf():
            self._child = 0
        return os.waitstatus_to_exitcode(status)

    def _become(self) -> None:
        """What a child is not to have of its parent; it ends soon after it, whatever that dies of."""
        for number in SIGNALS:
            signal.signal(number, signal.SIG_DFL)
        os.setpgid(0, 0)  # Ctrl-C is for the parent, which hands it on
        os.close(self._pipe[1])
        os.environ[lifeline.VARIABLE] = str(self._pipe[0])
        lifeline.hold(os.environ)

    def _code(self) -> int:
        try:
            return int(self._work(self._works))
        except BaseException as error:
            logger.error("the process failed", exc_info=error)  # noqa: TRY400 as above
            return Exit.FAULT

    def _forward(self, number: int, _frame: FrameType | None) -> None:
        self._told_to_end.set()
        if self._child:
            with suppress(ProcessLookupError):
                os.kill(self._child, number)


@contextmanager
def _deaf() -> Iterator[None]:
    """Signals come afterwards: no child is started, or gone, without its parent knowing."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
