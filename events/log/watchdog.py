"""Ends the process when a call into the Kafka client does not come back.

librdkafka can hang for ever, past its own time-outs (its issue 5511), and Python cannot interrupt C. So each
such call is stamped, and a thread that finds a stamp older than the limit ends the process; a supervisor starts
it again under the same ids. Age is counted in the thread's own ticks, not by a clock: a process that was
stopped for an hour (a debugger, a laptop's lid) has not hung.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from types import TracebackType
from typing import Self

EXIT_CODE = 70  # EX_SOFTWARE: the supervisor starts the process again
LIMIT_MS = 25_000  # transaction.timeout.ms (15 s) and room for the coordinator to answer
TICK_MS = 500

Watch = Callable[[str], AbstractContextManager[object]]


def unwatched(_call: str) -> AbstractContextManager[object]:
    """The watch of tests and one-shot commands: nothing is ended."""
    return nullcontext()


def report_to_stderr(message: str) -> None:
    """The last words of a process whose logging may hang with the rest of it."""
    sys.stderr.write(f"{message}\n")
    sys.stderr.flush()


class Watchdog:
    """`with watchdog("commit"):` around each call that can hang; used from any number of threads.

    `end` gets the exit code and must not return in production: nothing else of the process can be trusted to
    run, least of all destructors of the hung client.
    """

    def __init__(
        self,
        *,
        limit_ms: int = LIMIT_MS,
        end: Callable[[int], object] = os._exit,
        report: Callable[[str], object] = report_to_stderr,
    ) -> None:
        if limit_ms < TICK_MS:
            raise ValueError(f"limit_ms is {limit_ms}, it must be at least one tick of {TICK_MS}")
        self._limit_ticks = -(-limit_ms // TICK_MS)
        self._end = end
        self._report = report
        self._ticks = 0
        self._running: dict[int, tuple[str, int]] = {}
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None

    def __call__(self, call: str) -> AbstractContextManager[object]:
        """A stamp for one call; its cost is one dict entry."""
        return _Stamp(self, call)

    def start(self) -> None:
        """Starts the thread that looks at the stamps."""
        self._thread = threading.Thread(target=self._run, name="watchdog", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stops looking."""
        self._stopped.set()
        if self._thread is not None:
            self._thread.join()

    def tick(self) -> None:
        """One look: calls that have lived through the limit end the process."""
        self._ticks += 1
        for call, started in list(self._running.values()):
            if self._ticks - started > self._limit_ticks:
                limit_ms = self._limit_ticks * TICK_MS
                self._report(
                    f"the Kafka client's {call} did not return in {limit_ms} ms; ending the process so that "
                    "its supervisor starts it again"
                )
                self._end(EXIT_CODE)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _run(self) -> None:
        while not self._stopped.wait(TICK_MS / 1000):
            self.tick()


class _Stamp:
    __slots__ = ("_call", "_watchdog")

    def __init__(self, watchdog: Watchdog, call: str) -> None:
        self._watchdog = watchdog
        self._call = call

    def __enter__(self) -> None:
        watchdog = self._watchdog
        watchdog._running[id(self)] = (self._call, watchdog._ticks)  # noqa: SLF001 one class in two parts

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        del self._watchdog._running[id(self)]  # noqa: SLF001 the same
