"""The children of a supervisor: which there are, with which command lines, and how each of them has fared."""

from __future__ import annotations

import secrets
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from .exits import Exit, Stopped

BACKOFF_FIRST_S = 0.1
BACKOFF_MAX_S = 5.0
BACKOFF_FACTOR = 2.0

STEADY_S = 30.0
"""A child that ran for so long is well: its next restart is a fast one again."""


@dataclass(slots=True)
class Child:
    """One process under one name, however often it is started; `failpoint` is for its next start only."""

    name: str
    arguments: list[str]
    failpoint: str = ""
    process: subprocess.Popen[bytes] | None = None
    started: str = ""
    since_s: float = 0.0
    restarts: int = 0
    backoff_s: float = BACKOFF_FIRST_S
    due_s: float | None = None
    busy: int = 0
    """Times that it found its place taken, without a steady run between."""
    ends: list[int] = field(default_factory=list)

    def ended(self, code: int, now_s: float, backoff_max_s: float) -> float:
        """Notes the end, and when it is due again; the seconds until then, which double with each end that comes soon."""
        if now_s - self.since_s > STEADY_S:
            self.backoff_s, self.busy = BACKOFF_FIRST_S, 0
        self.ends.append(code)
        self.busy += code == Exit.BUSY
        wait_s = self.backoff_s
        self.due_s = now_s + wait_s
        self.backoff_s = min(wait_s * BACKOFF_FACTOR, backoff_max_s)
        return wait_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Cast:
    """How many of which there are; null limits are the worker's own."""

    app_target: str
    queues: Sequence[str]
    processors: int
    workers: int
    """Of each queue."""
    projector: bool
    concurrency: int | None
    sync_concurrency: int | None

    def __post_init__(self) -> None:
        for what in ("processors", "workers"):
            if getattr(self, what) < 0:
                raise Stopped(Exit.USAGE, f"--{what} is {getattr(self, what)}: give 0 or more")


def children_of(cast: Cast, failpoints: Mapping[str, str], failpoint: str) -> dict[str, Child]:
    """The children by name, each with its crash point, or with `failpoint`.

    `Stopped` where there is none; ValueError for crash points of children that are not there.
    """
    found = {
        name: Child(name, arguments, failpoints.get(name, failpoint))
        for name, arguments in _command_lines(cast)
    }
    strangers = failpoints.keys() - found.keys()
    if strangers:
        raise ValueError(f"no child of these names: {', '.join(sorted(strangers))}")
    if not found:
        raise Stopped(Exit.USAGE, "nothing to run: ask for at least one process")
    return found


def _command_lines(cast: Cast) -> Iterator[tuple[str, list[str]]]:
    for ordinal in range(cast.processors):
        yield f"processor-{ordinal}", ["processor", cast.app_target, "--ordinal", str(ordinal)]
    given = {"--concurrency": cast.concurrency, "--sync-concurrency": cast.sync_concurrency}
    limits = [word for name, n in given.items() if n is not None for word in (name, str(n))]
    own = secrets.token_hex(4)  # other supervisors have workers of the same names
    for queue in cast.queues:
        for number in range(cast.workers):
            name = f"worker-{queue}-{number}"
            seat = ["--instance", f"{name}.{own}"]
            yield (
                name,
                ["worker", cast.app_target, "--queue", queue, "--name", name, *seat, *limits],
            )
    if cast.projector:
        yield "projector", ["projector"]
