"""Spares: processes that have loaded all of ours and wait to be told which child they are.

A restart is then at work half a second of CPU sooner, which is what counts where several die at once on a machine that
is busy. A spare knows nothing of the app, connects to nothing and holds nothing. Its order is one line on its standard
input, after which it is the child in every respect but its command line, `wakeful child`, which does for both; its name
(`ps -o comm`, `top`) says what it is. When that input ends, so does the spare.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from time import monotonic

SPARES = 2
"""Of a processor and a worker that die together neither waits for the other to load."""

SPARE_AFTER_S = 5.0
"""So long nothing may have died, or been started, before a spare is loaded."""

ORDER_BYTES_MAX = 64 * 1024
"""What a pipe takes at once: handing an order over never waits for the one who reads it."""

COMMAND = "child"

NAME = Path("/proc/self/comm")
"""What Linux shows of a process beside its command line; elsewhere there is none."""

STDOUT, STDERR = 1, 2


class Spares:
    """A supervisor's. Those that end by themselves are not replaced: what cannot load is found by the real children."""

    def __init__(
        self, count: int, start: Callable[[], subprocess.Popen[bytes]], *, after_s: float
    ) -> None:
        """`after_s` is how long all has to be quiet before one is started: loading takes CPU, too."""
        self._left = count
        self._start = start
        self._after_s = after_s
        self._waiting: list[subprocess.Popen[bytes]] = []
        self._due_s: float | None = None

    @property
    def pids(self) -> list[int]:
        """Those that wait."""
        return [process.pid for process in self._waiting]

    def look(self) -> None:
        """Starts what is missing, once there was no death for a while."""
        if not self._left:
            return
        if self._due_s is None:
            self._due_s = monotonic() + self._after_s
        elif monotonic() >= self._due_s:
            self._left -= 1
            self._waiting.append(self._start())

    def take(self, arguments: Sequence[str], log: Path) -> subprocess.Popen[bytes] | None:
        """One that is the child with these arguments from now on, its words in `log`; null where there is none."""
        self._due_s = None
        order = json.dumps({"arguments": list(arguments), "log": str(log)}).encode() + b"\n"
        while self._waiting and len(order) <= ORDER_BYTES_MAX:
            process = self._waiting.pop(0)
            if _tell(process, order):
                self._left += 1
                return process
        return None

    def close(self) -> None:
        """Ends them."""
        self._left = 0
        for process in self._waiting:
            process.kill()
            _tell(process, b"")
            process.wait()
        self._waiting.clear()


def _tell(process: subprocess.Popen[bytes], order: bytes) -> bool:
    """Writes the order and closes; false where nobody is there to read it."""
    if process.stdin is None:
        return False
    with suppress(OSError), process.stdin as pipe:  # it may end at any moment
        if process.poll() is None:
            pipe.write(order)
            pipe.flush()
            return True
    process.kill()
    process.wait()
    return False


def start(
    program: Sequence[str], environ: Mapping[str, str], descriptor: int
) -> subprocess.Popen[bytes]:
    """A spare with the environment that its child is to have, and the lifeline's descriptor."""
    return subprocess.Popen(
        [*program, COMMAND],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=dict(environ),
        pass_fds=(descriptor,),
        process_group=0,
    )


def await_order() -> list[str] | None:
    """Loads what children need, waits, and gives the command line of the one to be; null when there will be none."""
    from . import processes  # noqa: F401 what takes the time

    with suppress(ImportError):
        from ..processors.activities import redis_leases  # noqa: F401 the same, where Redis is used
    line = sys.stdin.buffer.readline()
    if not line.endswith(b"\n"):
        return None
    order = json.loads(line)
    with open(order["log"], "ab") as output, open(os.devnull, "rb") as nothing:  # noqa: PTH123
        os.dup2(nothing.fileno(), sys.stdin.fileno())
        os.dup2(output.fileno(), STDOUT)
        os.dup2(output.fileno(), STDERR)
    arguments: list[str] = order["arguments"]
    with suppress(OSError):
        NAME.write_text(f"wakeful-{arguments[0]}")  # of which it keeps 15 bytes
    return arguments
