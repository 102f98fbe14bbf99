"""Named crash points: `FAILPOINT=p.produced:3` kills the process with SIGKILL on the third pass of that name.

The names stand in production code, between two calls to a port, so that tests and the simulation crash exactly
there and nowhere else. Without a setting a pass costs one look-up in an empty dict.
"""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable, Mapping
from types import MappingProxyType

_SPEC = re.compile(r"([a-z]\.[a-z_]+)(?::([1-9][0-9]{0,8}))?")


def kill_self() -> None:
    """Ends this process as `kill -9` does: no handler, no flush, no farewell."""
    os.kill(os.getpid(), signal.SIGKILL)


class Failpoints:
    """Counts passes per name and crashes on the pass that was asked for."""

    def __init__(
        self,
        passes: Mapping[str, int] = MappingProxyType({}),
        crash: Callable[[], None] = kill_self,
    ) -> None:
        self._left = dict(passes)
        self._crash = crash

    @classmethod
    def from_text(cls, text: str, crash: Callable[[], None] = kill_self) -> Failpoints:
        """Reads `name:n` (n defaults to 1), several separated by commas; `ValueError` names what it cannot read."""
        passes: dict[str, int] = {}
        for part in filter(None, (piece.strip() for piece in text.split(","))):
            match = _SPEC.fullmatch(part)
            if match is None:
                raise ValueError(f"{part!r} is not a crash point: write it like 'p.produced:3'")
            passes[match[1]] = int(match[2] or 1)
        return cls(passes, crash)

    def hit(self, name: str) -> None:
        """Passes the point `name`."""
        left = self._left.get(name)
        if left is None:
            return
        self._left[name] = left - 1
        if left == 1:
            self._crash()


def no_failpoint(_name: str) -> None:
    """The crash points of what is not to crash."""
