"""How far a long command is: nothing for what is short, a bar on a terminal, lines elsewhere, and none left behind."""

import sys
from io import StringIO

import pytest

from wakeful.deploy.cli import progress


class Terminal(StringIO):
    def isatty(self):
        return True


@pytest.fixture
def clock(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    return now


def test_what_is_over_within_two_seconds_is_not_told_of(clock, monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal())
    bar = progress.Bar()
    clock[0] += 1.9
    bar("reading", 10, 20)
    bar.close()
    assert sys.stderr.getvalue() == ""


def test_on_a_terminal_it_is_a_bar_that_leaves_nothing_behind(clock, monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal())
    bar = progress.Bar()
    clock[0] += 2.5
    bar("reading", 10, 20)
    bar("reading", 11, 20)  # too soon to be drawn again
    bar.close()
    told = sys.stderr.getvalue()
    assert f"[{'#' * 15}{'.' * 15}] 10 of 20" in told
    assert "11 of 20" not in told
    assert told.endswith("\r\x1b[K")


def test_elsewhere_it_is_a_line_every_five_seconds(clock, monkeypatch):
    monkeypatch.setattr(sys, "stderr", StringIO())
    bar = progress.Bar()
    for done in range(8):
        clock[0] += 2
        bar("checking", done, 0 if done < 4 else 3)
    bar.close()
    assert sys.stderr.getvalue() == "checking 0\nchecking 3\nchecking 6 of 6\n"
