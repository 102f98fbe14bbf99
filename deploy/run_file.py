"""`<home>/run.json`: which processes `wakeful run` has started, for whoever asks later."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from .stack.processes import Proc, is_alive


@dataclass(frozen=True, slots=True)
class RunningChild:
    """One child; pid 0 while it waits for its restart."""

    name: str
    pid: int
    started: str
    restarts: int
    log: str

    @property
    def alive(self) -> bool:
        """Whether this very process still runs."""
        return is_alive(Proc(self.pid, self.started))


@dataclass(frozen=True, slots=True)
class Running:
    """A supervisor and its children."""

    pid: int
    started: str
    app: str
    namespace: str
    children: list[RunningChild]

    @property
    def alive(self) -> bool:
        """Whether the supervisor still runs."""
        return is_alive(Proc(self.pid, self.started))


class RunFile:
    """Written whole or not at all, by the one supervisor of the home."""

    def __init__(self, home: Path) -> None:
        self.path = home / "run.json"

    def load(self) -> Running | None:
        """Who runs, or who ran last if it was killed; null where nobody did, or the file is not one of ours."""
        try:
            raw = json.loads(self.path.read_text(encoding="utf-8"))
            children = [RunningChild(**row) for row in raw.pop("children")]
            return Running(**raw, children=children)
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, TypeError, AttributeError):
            return None  # for show only: a damaged one is as good as none, and is written anew

    def save(self, running: Running) -> None:
        """Replaces the file."""
        beside = self.path.with_suffix(".json.new")
        beside.write_text(json.dumps(asdict(running), indent=2), encoding="utf-8")
        beside.replace(self.path)

    def remove(self) -> None:
        """Removes the file; a repeat does nothing."""
        self.path.unlink(missing_ok=True)
