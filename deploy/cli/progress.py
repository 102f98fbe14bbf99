"""How far a long command is, on stderr: nothing for two seconds, then a bar on a terminal, or a line now and then."""

from __future__ import annotations

import sys
import time

QUIET_S = 2.0
"""What takes no longer is not told of."""

DRAWN_EVERY_S = 0.2
TOLD_EVERY_S = 5.0
WIDTH = 30


class Bar:
    """Called as `bar(doing, done, wanted)`, however often; `close` leaves the line as it found it."""

    def __init__(self, *, quiet: bool = False) -> None:
        self._quiet = quiet
        self._terminal = sys.stderr.isatty()
        self._next_s = time.monotonic() + QUIET_S
        self._drawn = False

    def __call__(self, doing: str, done: int, wanted: int) -> None:
        """Takes note; tells where it is time. `wanted` is 0 where nobody knows, and may turn out to be too few."""
        now_s = time.monotonic()
        if self._quiet or now_s < self._next_s:
            return
        self._next_s = now_s + (DRAWN_EVERY_S if self._terminal else TOLD_EVERY_S)
        if not self._terminal:
            sys.stderr.write(f"{doing} {_of(done, wanted)}\n")
        else:
            self._drawn = True
            sys.stderr.write(f"\r\x1b[K{doing:14}{_bar(done, wanted)} {_of(done, wanted)}")
        sys.stderr.flush()

    def close(self) -> None:
        """Takes the bar away."""
        if self._drawn:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


def _of(done: int, wanted: int) -> str:
    return f"{done} of {max(done, wanted)}" if wanted else f"{done}"


def _bar(done: int, wanted: int) -> str:
    filled = WIDTH * min(done, wanted) // wanted if wanted else 0
    return "[" + "#" * filled + "." * (WIDTH - filled) + "]"
