"""Reading what a run cost: CPU of process trees, the effects log, percentiles, one JSON line per measure."""

import itertools
import json
import os
import time
from collections.abc import Iterable
from pathlib import Path


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


def cpu_s(pids: Iterable[int]) -> float:
    """User and system seconds so far, of these processes and their descendants."""
    ticks = 0
    for root in pids:
        for pid in tree(root):
            fields = stat_fields(pid)
            if fields:
                ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def percentile(values: list[float], share: float) -> float | None:
    """The value below which that share lies."""
    ordered = sorted(values)
    return round(ordered[min(len(ordered) - 1, int(share * len(ordered)))], 3) if ordered else None


class Effects:
    """Incremental reader of the effects log: (nanoseconds, session, step)."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._position = 0
        self._rest = b""

    def read(self) -> list[tuple[int, str, int]]:
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
            nanoseconds, _pid, session, step, _kind = line.decode().split(" ", 4)
            found.append((int(nanoseconds), session, int(step)))
        return found


def transitions_ms(effects: list[tuple[int, str, int]], before: int) -> list[float]:
    """Milliseconds from the start of a step to the start of the next, without the wait for the approval."""
    by_session: dict[str, list[tuple[int, int]]] = {}
    for nanoseconds, session, step in effects:
        by_session.setdefault(session, []).append((nanoseconds, step))
    found = []
    for steps in by_session.values():
        for (began, step), (ended, following) in itertools.pairwise(steps):
            if following == step + 1 and following != before:
                found.append((ended - began) / 1e6)
    return found


def emit(**fields: object) -> None:
    """Prints one measure as one JSON line, with the machine's load."""
    fields["load1"] = os.getloadavg()[0]
    fields["at"] = time.strftime("%H:%M:%S")
    print(json.dumps(fields), flush=True)
