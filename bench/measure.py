"""Reading what a run cost: CPU and memory of process trees, the effects log, percentiles, one JSON line per measure.

Standard library alone, since the peers' drivers import it in their own environments.
"""

import itertools
import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

Parts = Mapping[str, Sequence[int]]
"""The root pids of each part of a system: `{"broker": [71], "worker": [80, 81]}`."""

FINISHED = -1
"""The step number that a peer's workflow writes when its function has come to its end."""


class Effect(NamedTuple):
    """One execution of a step's body, as it wrote itself down."""

    at_ns: int
    pid: int
    session: str
    step: int


def tree(pid: int) -> list[int]:
    """The pid and all of its descendants."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            fields = stat_fields(int(entry.name))
            if fields:
                children.setdefault(int(fields[1]), []).append(int(entry.name))
    found, todo = [], [pid]
    while todo:
        one = todo.pop()
        found.append(one)
        todo += children.get(one, [])
    return found


def stat_fields(pid: int) -> list[str]:
    """`/proc/<pid>/stat` after the command's name; empty where the process is gone."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return []
    return text[text.rindex(")") + 2 :].split()


def started_ns(pid: int) -> int:
    """When a process began, on the monotonic clock; to a hundredth of a second."""
    ticks = int(stat_fields(pid)[19])
    asleep_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME) - time.monotonic_ns()
    return ticks * (1_000_000_000 // os.sysconf("SC_CLK_TCK")) - asleep_ns


def cpu_s(pids: Iterable[int]) -> float:
    """User and system seconds so far, of these processes and their descendants."""
    ticks = 0
    for root in pids:
        for pid in tree(root):
            fields = stat_fields(pid)
            if fields:
                ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def pss_mb(pids: Iterable[int]) -> float:
    """Proportional set size of these processes and their descendants: pages that n share count one n-th for each."""
    kib = 0
    for root in pids:
        for pid in tree(root):
            try:
                text = Path(f"/proc/{pid}/smaps_rollup").read_text()
            except OSError:  # it is gone, or it is the kernel's
                continue
            kib += sum(int(s.split()[1]) for s in text.splitlines() if s.startswith("Pss:"))
    return kib / 1024


class Meter:
    """CPU of each part, and of this process as `driver`, from its making on."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._before = {name: cpu_s(pids) for name, pids in parts.items()}
        self._own = time.process_time()

    def spent_s(self) -> dict[str, float]:
        """Seconds by part; `driver` leaves out the children of this process, which are parts themselves."""
        spent = {name: cpu_s(pids) - self._before[name] for name, pids in self._parts.items()}
        return {**spent, "driver": time.process_time() - self._own}

    def per_step(self, steps: int) -> dict[str, float]:
        """The fields of a line: milliseconds per step in all, without the driver, and by part."""
        ms = {name: seconds * 1_000 / steps for name, seconds in self.spent_s().items()}
        return {
            "cpu_ms_per_step": round(sum(ms.values()), 3),
            "cpu_ms_per_step_without_driver": round(sum(ms.values()) - ms["driver"], 3),
            **{f"cpu_ms_per_step_{name}": round(value, 3) for name, value in ms.items()},
        }


def percentile(values: Sequence[float], share: float) -> float | None:
    """The value below which that share lies; null where there are none."""
    ordered = sorted(values)
    return round(ordered[min(len(ordered) - 1, int(share * len(ordered)))], 3) if ordered else None


def median(values: Iterable[float | None]) -> float | None:
    """The median of those that are there; null where none is."""
    known = [value for value in values if value is not None]
    return round(statistics.median(known), 3) if known else None


def ratio(one: float | None, other: float | None) -> float | None:
    """`one / other`; null where either is missing or the other is nothing."""
    return round(one / other, 3) if one is not None and other else None


class Effects:
    """Incremental reader of the effects log, from where it ends at the moment."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._position = path.stat().st_size if path.exists() else 0
        self._rest = b""

    def read(self) -> list[Effect]:
        """The lines since the last call."""
        if not self._path.exists():
            return []
        with self._path.open("rb") as file:
            file.seek(self._position)
            data = file.read()
        self._position += len(data)
        *lines, self._rest = (self._rest + data).split(b"\n")
        found = []
        for line in lines:
            nanoseconds, pid, session, step, _kind = line.decode().split(" ", 4)
            found.append(Effect(int(nanoseconds), int(pid), session, int(step)))
        return found


def by_session(effects: Iterable[Effect]) -> dict[str, list[Effect]]:
    """The effects of each session, in order."""
    found: dict[str, list[Effect]] = {}
    for effect in effects:
        found.setdefault(effect.session, []).append(effect)
    return found


def transitions_ms(effects: Iterable[Effect], before: int) -> list[float]:
    """Milliseconds from the start of a step to the start of the next, without the wait for the approval."""
    found = []
    for steps in by_session(effects).values():
        for one, following in itertools.pairwise(steps):
            if following.step == one.step + 1 and following.step not in {0, before}:
                found.append((following.at_ns - one.at_ns) / 1e6)
    return found


def approvals_ms(
    effects: Iterable[Effect], signalled: Mapping[str, int], before: int
) -> list[float]:
    """Milliseconds from the decision (nanoseconds, by session) to the start of the next step."""
    next_step = {effect.session: effect.at_ns for effect in effects if effect.step == before}
    return [(next_step[s] - at) / 1e6 for s, at in signalled.items() if s in next_step]


class Report:
    """Where lines go: to stdout, to a file that is only added to, and to the table at the end."""

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self.lines: list[dict[str, object]] = []

    def emit(self, **fields: object) -> None:
        """Writes one measure as one JSON line, with the machine's load over the last minute."""
        self.take(
            {**fields, "load1": round(os.getloadavg()[0], 2), "at": time.strftime("%H:%M:%S")}
        )

    def take(self, line: dict[str, object]) -> None:
        """Writes a line as another process made it."""
        self.lines.append(line)
        text = json.dumps(line)
        print(text, flush=True)
        if self._path is not None:
            with self._path.open("a", encoding="utf-8") as file:
                file.write(text + "\n")


def say(text: str) -> None:
    """Tells people what goes on; lines of JSON are alone on stdout."""
    print(text, file=sys.stderr, flush=True)


def until(holds: Callable[[], bool], what: str, *, limit_s: float, look_s: float = 0.005) -> None:
    """Looks until it holds; raises `TimeoutError` that says what does not."""
    give_up = time.monotonic() + limit_s
    while not holds():
        if time.monotonic() > give_up:
            raise TimeoutError(f"after {limit_s:.0f} s it is not so that {what}")
        time.sleep(look_s)
