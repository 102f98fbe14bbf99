"""Where a process kills itself if its settings say so: between two calls, or just inside of one."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from ..processors.failpoints import Failpoints, kill_self
from .settings import Settings

INSIDE = "p.commit_sent"
"""The crash point whose kill must land inside the call that follows it."""

INSIDE_S = 0.001
"""How long that kill waits: time for the call to begin, and shorter than a commit."""


def crash_points(
    settings: Settings, pause: Callable[[float], object] = time.sleep
) -> Callable[[str], None]:
    """`hit` for this process; see the module. `pause` takes seconds, and holds up the kill inside a call."""
    passing = ""

    def kill_soon() -> None:
        pause(INSIDE_S)
        kill_self()

    def crash() -> None:
        if passing == INSIDE:
            threading.Thread(target=kill_soon, daemon=True).start()
        else:
            kill_self()

    points = Failpoints.from_text(settings.failpoint, crash)

    def hit(name: str) -> None:
        nonlocal passing
        passing = name
        points.hit(name)

    return hit
