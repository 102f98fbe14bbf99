"""A parked session costs disk and no memory: thousands take what one thousand do."""

import gc
import subprocess
import sys
from pathlib import Path

import pytest

from tests.chaos.long_form import whole
from tests.processors.rig import Rig
from wakeful.processors import live

ROOT = Path(__file__).parents[2]
GROWTH_MAX = 900
"""Bytes per session."""


def park(folder: Path, *counts: int) -> list[int]:
    """Parks sessions, each in the middle of a turn; gives this process's resident bytes when there are so many."""
    rig, found = Rig(folder), []
    for number in range(counts[-1]):
        rig.open(f"s{number}", steps=0, parks=1)
        if number + 1 in counts:
            found.append(resident(rig, number + 1))
    return found


def resident(rig: Rig, sessions: int) -> int:
    count = "SELECT COUNT(*) FROM sessions WHERE open_from IS NULL"
    if rig.partition.store._db.execute(count).fetchone() != (sessions,):
        raise AssertionError("not all of them are parked")
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * 4096


def in_a_process(folder: Path, *counts: int) -> list[int]:
    ran = subprocess.run(
        [sys.executable, "-m", "tests.processors.test_memory", folder, *map(str, counts)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    return [int(found) for found in ran.stdout.split()]


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="counts a Linux process's pages")
@pytest.mark.parametrize("count", [3_000, pytest.param(10_000, marks=whole)])
def test_thousands_of_parked_sessions_take_the_memory_of_one_thousand(
    tmp_path: Path, count: int
) -> None:
    small, large = in_a_process(tmp_path, 1_000, count)
    assert (large - small) / (count - 1_000) <= GROWTH_MAX


def test_the_parked_make_room_before_those_that_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "PARKED_MAX", 2)
    monkeypatch.setattr(live, "RUNNING_MAX", 4)
    rig = Rig()
    opened = {n: rig.open(f"run{n}", steps=3) for n in range(3)}
    for number in range(5):
        outputs = rig.open(f"wait{number}", steps=1, parks=1)
        rig.give(rig.answers(outputs))
    kept = rig.partition._live
    assert list(kept._running) == [b"acme/run0", b"acme/run1", b"acme/run2"]
    assert list(kept._parked) == [b"acme/wait3", b"acme/wait4"]
    stretch = rig.session("wait3").stretch
    assert stretch is not None
    rig.open("run3", steps=3)
    rig.open("run4", steps=3)
    assert b"acme/run0" not in kept._running
    rig.give(rig.answers(opened[0]))
    assert [*kept._running] == [b"acme/run2", b"acme/run3", b"acme/run4", b"acme/run0"]
    rig.open("wait5", steps=0, parks=1)
    assert stretch.dead
    assert rig.session("wait3").stretch is None


if __name__ == "__main__":
    print(*park(Path(sys.argv[1]), *map(int, sys.argv[2:])))
