"""The payment service as a child process: started, killed, and started again at the same place."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Self

from ... import lifeline

START_LIMIT_S = 20.0
STOP_LIMIT_S = 10.0


class Service:
    """A payment service with this book and these flags; it ends with the process that started it.

    `with Service(path, "--drop", "0.1") as service: Payments(service.url)`. After `kill` or `stop`, `start` brings
    it back with the same book at the same URL. Not for several threads.
    """

    def __init__(self, file: Path, *flags: str) -> None:
        self.file = file
        self._flags = flags
        self._port = 0
        self._process: subprocess.Popen[str] | None = None
        self._pipe: tuple[int, int] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        self.stop()

    @property
    def url(self) -> str:
        """Where it listens, or did; `RuntimeError` before its first start."""
        if not self._port:
            raise RuntimeError("the payment service was not started yet: it has no url")
        return f"http://127.0.0.1:{self._port}"

    @property
    def pid(self) -> int | None:
        """Of the running process; none when it was ended from here."""
        return self._process.pid if self._process else None

    def start(self) -> None:
        """Returns when it accepts connections; `RuntimeError` when it does not."""
        if self._process:
            raise RuntimeError(f"the payment service runs already, as process {self.pid}")
        self._pipe = os.pipe()
        port = ["--port", str(self._port)]
        self._process = subprocess.Popen(
            [sys.executable, "-m", __package__, "--file", str(self.file), *port, *self._flags],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, lifeline.VARIABLE: str(self._pipe[0])},
            pass_fds=(self._pipe[0],),
        )
        told = _first_line(self._process)
        if not told.startswith("http://"):
            code = self.kill()
            raise RuntimeError(f"the payment service did not start: it ended with {code}")
        self._port = int(told.rsplit(":", 1)[1])

    def kill(self) -> int | None:
        """SIGKILL: nothing but what is in the book survives. Gives the exit code; a repeat does nothing."""
        return self._end(signal.SIGKILL)

    def stop(self) -> int | None:
        """SIGTERM, and SIGKILL when that does not help. Gives the exit code; a repeat does nothing."""
        return self._end(signal.SIGTERM)

    def _end(self, number: signal.Signals) -> int | None:
        process, self._process = self._process, None
        if process is None:
            return None
        process.send_signal(number)
        try:
            code = process.wait(STOP_LIMIT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            code = process.wait()
        if process.stdout:
            process.stdout.close()
        for descriptor in self._pipe or ():
            os.close(descriptor)
        self._pipe = None
        return code


def _first_line(process: subprocess.Popen[str]) -> str:
    """What it says first; nothing when it ended or the time is over."""
    if process.stdout is None:
        return ""
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        ready = selector.select(START_LIMIT_S)
    return process.stdout.readline().strip() if ready else ""
