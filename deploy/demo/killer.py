"""Somebody with `kill -9`: a worker in the middle of model calls, a processor, a worker in the middle of a refund."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic

from ..exits import Stopped
from ..supervisor import Supervisor
from .board import Board
from .report import Kill
from .view import View, counted

VICTIMS = ("worker-models-0", "processor-0", "worker-desk-0")

APART_S = 1.0
PATIENCE_S = 3.0
"""How long a kill waits for a call that it can cut."""


class CallWatch:
    """Which model calls are under way, read from the end of the file that workers append to."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._at = 0
        self._open: set[str] = set()

    def look(self) -> int:
        """How many are open now."""
        if not self._path.exists():
            return 0
        with self._path.open("rb") as file:
            file.seek(self._at)
            added = file.read()
        whole = added[: added.rfind(b"\n") + 1]
        self._at += len(whole)
        for line in whole.splitlines():
            said = json.loads(line)
            (self._open.add if said["at"] == "start" else self._open.discard)(said["call"])
        return len(self._open)


@dataclass(slots=True)
class Killer:
    """Call `look` often; `due` says when it is wanted. What it did is in `kills`."""

    supervisor: Supervisor
    calls: CallWatch
    board: Board
    view: View
    now_ms: Callable[[], int]
    victims: tuple[str, ...] = VICTIMS
    kills: list[Kill] = field(default_factory=list)
    _due_s: float | None = None

    @property
    def hungry(self) -> bool:
        """Whether it waits for something to cut."""
        return self._due_s is not None and not self.done

    @property
    def done(self) -> bool:
        """Whether all kills are made."""
        return len(self.kills) == len(self.victims)

    def look(self, *, due: bool) -> None:
        """Kills the next victim, once it is due, where it hurts most."""
        now_s, model_calls = monotonic(), self.calls.look()
        if self.done or not due:
            return
        self._due_s = now_s if self._due_s is None else self._due_s
        victim = self.victims[len(self.kills)]
        what, under_way = {
            "worker-models-0": ("model call", model_calls),
            "worker-desk-0": ("refund", self.board.refunds_open),
        }.get(victim, ("", 0))
        if now_s < self._due_s or (what and not under_way and now_s < self._due_s + PATIENCE_S):
            return
        try:
            pid = self.supervisor.kill(victim)
        except Stopped:
            return  # it is down at the moment: the next look
        self.kills.append(Kill(victim, pid, self.now_ms()))
        self.board.kills = len(self.kills)
        self._due_s = now_s + APART_S
        told = f" in the middle of {counted(under_way, what)}" if under_way else ""
        self.view.line(f"kill -9 {pid} ({victim}){told}")
