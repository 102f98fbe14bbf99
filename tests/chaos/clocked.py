"""`python -m tests.chaos.clocked …`: Wakeful's command line with a clock that can be put forward and back.

`WAKEFUL_CHAOS_CLOCK` names a file with two numbers: milliseconds that the clock is off, and whom it concerns: 0 the
processes with an even id, 1 those with an odd one, 2 all. Without the file all clocks are right. What Kafka, Postgres
and the operating system do by the time stays as it is.
"""

from __future__ import annotations

import os
import sys
import time
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from wakeful.deploy.clock import SystemClock

VARIABLE = "WAKEFUL_CHAOS_CLOCK"
MUTANT = "WAKEFUL_CHAOS_MUTANT"
LOOK_S = 0.05
"""Between two looks at the file."""

ALL = 2


def put_off(path: Path) -> None:
    """Has every clock of this process look into the file."""
    right = SystemClock.now_ms
    looked_s, off_ms = 0.0, 0

    def now_ms(self: SystemClock) -> int:
        nonlocal looked_s, off_ms
        now_s = time.monotonic()
        if now_s - looked_s > LOOK_S:
            looked_s, off_ms = now_s, off_of(path, os.getpid())
        return right(self) + off_ms

    SystemClock.now_ms = now_ms  # type: ignore[method-assign]


def off_of(path: Path, pid: int) -> int:
    """How many milliseconds the clock of a process is off."""
    try:
        off_ms, whom = (int(word) for word in path.read_text().split())
    except (FileNotFoundError, ValueError):
        return 0
    return off_ms if whom in (ALL, pid % 2) else 0


def planted(name: str | None) -> AbstractContextManager[None]:
    """One of the simulator's planted mistakes, for who asks whether chaos finds it, too."""
    if name is None:
        return nullcontext()
    from wakeful.deploy.simulation.mutants import MUTANTS

    return next(mutant for mutant in MUTANTS if mutant.name == name).mistake()


if __name__ == "__main__":
    put_off(Path(os.environ[VARIABLE]))
    from wakeful.__main__ import main

    with planted(os.environ.get(MUTANT)):
        sys.exit(main())
