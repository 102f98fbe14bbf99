"""Supervisors of a small program, and waiting for what becomes of it."""

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Self

from wakeful.deploy.settings import Settings
from wakeful.deploy.supervisor import Supervisor

LIMIT_S = 15.0

CHILD = """
import os, signal, sys
from wakeful.deploy import lifeline, spares
lifeline.hold(os.environ)
name, stubborn = sys.argv[1], os.environ.get("STUBBORN")
if name == spares.COMMAND:
    name = (spares.await_order() or sys.exit())[0]
signal.signal(signal.SIGTERM, (lambda *_: None) if stubborn else (lambda *_: sys.exit(0)))
print(name, "up", os.environ["WAKEFUL_FAILPOINT"] or "-", os.environ["WAKEFUL_NAMESPACE"], flush=True)
if os.environ.get("ENDS"):
    sys.exit(int(os.environ["ENDS"]))
while True:
    signal.pause()
"""


def until(true: Callable[[], object], what: str, *, limit_s: float = LIMIT_S) -> None:
    limit = time.monotonic() + limit_s
    while not true():
        assert time.monotonic() < limit, f"waited {limit_s:.0f} s for {what}"
        time.sleep(0.01)


class Desk:
    """Supervisors of a small program instead of Wakeful's own processes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.program = folder / "child.py"
        self.program.write_text(CHILD)
        self.settings = Settings(kafka="nowhere:1", namespace="desk", home=folder / "home")
        self.made: list[Supervisor] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for supervisor in self.made:
            supervisor.stop(drain_s=0.1)

    def supervisor(self, environ: dict[str, str] | None = None, **given: object) -> Supervisor:
        options = {"queues": ["default"], "projector": False, "spares_max": 0, **given}
        one = Supervisor(
            self.settings,
            "desk.py",
            environ={**os.environ, **(environ or {})},
            program=(sys.executable, str(self.program)),
            **options,
        )
        self.made.append(one)
        return one

    def ups(self, one: Supervisor, name: str) -> list[str]:
        path = one.log_path(name)
        return (
            [line for line in path.read_text().splitlines() if " up " in line]
            if path.exists()
            else []
        )


def gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    state = Path(f"/proc/{pid}/stat")
    try:
        return state.exists() and state.read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True
