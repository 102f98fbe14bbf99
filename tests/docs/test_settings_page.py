"""What docs/settings.md lists is what the code has."""

import re

from tests.processors.test_failpoints import crashes_of

from .readme import ROOT, SETTINGS

PASSED = re.compile(r'(?:yield |hit\()"([pwj]\.[a-z_]+)"')
"""A crash point where a process passes it."""


def passed() -> set[str]:
    paths = [
        *(ROOT / "processors").glob("*.py"),
        *(ROOT / "processors" / "activities").glob("*.py"),
        *(ROOT / "projections").glob("*.py"),
    ]
    return {name for path in paths for name in PASSED.findall(path.read_text(encoding="utf-8"))}


def test_its_crash_points_are_those_that_processes_pass() -> None:
    told = re.findall(r"^\| `([pwj]\.\w+)` \|", SETTINGS, re.MULTILINE)
    assert len(told) == len(set(told)) > 20
    assert set(told) == passed()


def test_each_of_them_can_be_asked_for() -> None:
    for name in passed():
        assert crashes_of(f"{name}:2", *[name] * 3) == [2]
