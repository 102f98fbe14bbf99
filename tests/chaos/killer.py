"""Kills workers and processors at random moments: each life has a length that follows from a seed."""

from __future__ import annotations

import random
import time
from collections import Counter
from contextlib import suppress

from wakeful.deploy.exits import Stopped
from wakeful.deploy.supervisor import Supervisor

SHORT_S = (0.0, 1.0)
"""A life that ends while it joins its group, restores its partitions or begins with what was left."""

LONG_S = (1.0, 6.0)
"""A life that gets to work."""

SHORT_SHARE = 0.35

STARTED = ("processor started", "worker started")


class Killer:
    """Call `step` often: whoever has lived as long as was drawn for it is killed, until there are enough kills."""

    def __init__(self, *, seed: int, kills: int) -> None:
        self.killed: Counter[str] = Counter()
        self._seed = seed
        self._kills = kills
        self._lives: Counter[str] = Counter()
        self._due_s: dict[str, float] = {}

    @property
    def kills(self) -> int:
        """How many so far."""
        return self.killed.total()

    @property
    def done(self) -> bool:
        """Whether all kills are made."""
        return self.kills >= self._kills

    def hear(self, name: str, line: str) -> None:
        """The supervisor's echo, in its thread: one that says that it has started begins a life."""
        if any(word in line for word in STARTED):
            self._lives[name] += 1
            draw = random.Random(f"{self._seed}/{name}/{self._lives[name]}")
            bounds = SHORT_S if draw.random() < SHORT_SHARE else LONG_S
            self._due_s[name] = time.monotonic() + draw.uniform(*bounds)

    def step(self, running: Supervisor) -> None:
        """Kills who is due."""
        now_s = time.monotonic()
        for name in [name for name, due_s in list(self._due_s.items()) if due_s <= now_s]:
            del self._due_s[name]
            if self.done:
                return
            with suppress(Stopped):  # it has ended by itself just now, and comes up again
                running.kill(name)
                self.killed[name.partition("-")[0]] += 1
