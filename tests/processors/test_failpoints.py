"""Crash points crash on the pass that was asked for, and nowhere else."""

import signal
import subprocess
import sys

import pytest

from wakeful.processors.failpoints import Failpoints


def crashes_of(text: str, *names: str) -> list[int]:
    crashed: list[int] = []
    at = 0
    points = Failpoints.from_text(text, lambda: crashed.append(at))
    for at, name in enumerate(names, start=1):  # noqa: B007 read by the lambda
        points.hit(name)
    return crashed


def test_the_third_pass_crashes_and_no_other():
    assert crashes_of("p.produced:3", *["p.produced"] * 5) == [3]


def test_without_a_number_the_first_pass_crashes():
    assert crashes_of("w.leased", "w.leased", "w.leased") == [1]


def test_other_names_are_not_counted():
    assert crashes_of("p.produced:2", "p.begun", "p.produced", "p.begun", "p.produced") == [4]


def test_several_points_count_for_themselves():
    assert crashes_of("p.begun:2, w.leased:1", "p.begun", "w.leased", "p.begun") == [2, 3]


def test_an_empty_setting_never_crashes():
    assert crashes_of("", "p.begun", "w.leased") == []


@pytest.mark.parametrize(
    "text", ["produced", "p.produced:0", "p.produced:x", "P.x:1", "p.produced:1:2", "p.:1"]
)
def test_what_is_not_a_point_is_named(text):
    with pytest.raises(ValueError, match=r"is not a crash point: write it like 'p\.produced:3'"):
        Failpoints.from_text(text)


def test_a_crash_is_a_sigkill_that_runs_nothing_more():
    code = (
        "import atexit; atexit.register(print, 'farewell')\n"
        "from wakeful.processors.failpoints import Failpoints\n"
        "points = Failpoints.from_text('w.leased:2')\n"
        "for n in range(9): print(n, flush=True); points.hit('w.leased')\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60
    )
    assert ended.returncode == -signal.SIGKILL
    assert ended.stdout.split() == ["0", "1"]
