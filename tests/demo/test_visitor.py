"""The person to whom one refund is left: told where it is, waited for, and never for ever."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace

import pytest

from wakeful.deploy.demo.console import Beside, Console
from wakeful.deploy.demo.visitor import DECIDES_S, LOOKS_ALONE_S, LOOKS_S, STARTS_S, Visitor

URL = "http://127.0.0.1:1/console"
LINK = f"{URL}/enter/word"


@dataclass
class Told:
    """A visitor with a clock that is set, a terminal that is typed at, and what it was told."""

    at_terminal: bool = True
    how: Beside = Beside.YOURS
    now_s: float = 1_000.0
    typed: bool = False
    lines: list[str] = field(default_factory=list)
    taken_back: int = 0

    def __post_init__(self) -> None:
        self.console = Console()
        left = {"s00009": "s00009/1.2-ab"}
        self.approver = SimpleNamespace(left=left, take_back=self.take_back, decided_elsewhere=None)
        self.visitor = Visitor(
            how=self.how,
            console=self.console,
            approver=self.approver,
            letters=Path("papers/letters"),
            view=SimpleNamespace(line=self.lines.append),
            at_terminal=self.at_terminal,
            entered=self.entered,
            now_s=lambda: self.now_s,
            pause=self.pass_time,
        )

    def entered(self) -> bool:
        typed, self.typed = self.typed, False
        return typed

    def pass_time(self, seconds: float) -> None:
        self.now_s += seconds

    def take_back(self) -> None:
        self.taken_back += 1
        self.approver.left.clear()

    def starts(self) -> None:
        self.console.url, self.console.link = URL, LINK
        self.visitor.look(alone=False)

    def decides(self) -> None:
        self.approver.left.clear()
        self.approver.decided_elsewhere = "s00009"


@pytest.fixture
def told() -> Told:
    return Told()


def test_the_link_is_told_once_as_soon_as_it_is_there(told) -> None:
    told.visitor.look(alone=False)
    assert told.lines == []
    told.starts()
    told.visitor.look(alone=False)
    (line,) = told.lines
    assert line.endswith(LINK)
    assert not told.visitor.waits


def test_it_is_said_where_to_decide_once_all_others_have_their_answer(told) -> None:
    told.starts()
    told.typed = True  # before anything was asked
    told.visitor.look(alone=True)
    told.visitor.look(alone=True)
    assert f"        {URL}/approvals/s00009/1.2-ab" in told.lines
    assert "press Enter" in told.lines[-1]
    assert (told.visitor.waits, told.taken_back) == (True, 0)


def test_enter_leaves_it_to_the_script(told) -> None:
    told.starts()
    told.visitor.look(alone=True)
    told.typed = True
    told.visitor.look(alone=True)
    assert (told.taken_back, told.visitor.waits) == (1, False)
    assert told.lines[-1] == "nobody has decided: the script does"
    told.visitor.stay()
    assert told.now_s == 1_000.0


def test_so_does_time(told) -> None:
    told.starts()
    told.visitor.look(alone=True)
    told.now_s += DECIDES_S
    told.visitor.look(alone=True)
    assert told.taken_back == 0
    told.now_s += 1
    told.visitor.look(alone=True)
    assert told.taken_back == 1


def test_a_console_that_ends_or_never_starts_leaves_it_to_the_script(told) -> None:
    told.console.failed = "no port"
    told.visitor.look(alone=False)
    told.visitor.look(alone=True)
    assert (told.lines, told.taken_back) == (
        ["the console has ended: no port: the script does"],
        1,
    )
    late = Told()
    late.visitor.look(alone=True)
    late.now_s += STARTS_S + 1
    late.visitor.look(alone=True)
    assert (late.lines, late.taken_back) == (["the console does not start: the script does"], 1)


@pytest.mark.parametrize(("at_terminal", "limit_s"), [(True, LOOKS_S), (False, LOOKS_ALONE_S)])
def test_whoever_has_decided_may_look_around_for_a_while(at_terminal, limit_s) -> None:
    told = Told(at_terminal=at_terminal)
    told.starts()
    told.decides()
    told.visitor.stay()
    assert told.now_s == pytest.approx(1_000 + limit_s, abs=1)
    assert any(f"{URL}/sessions/s00009" in line for line in told.lines)
    assert ("press Enter" in told.lines[-1]) == at_terminal


def test_enter_ends_that_at_once(told) -> None:
    told.starts()
    told.decides()
    told.visitor.pause = lambda _: setattr(told, "typed", True)
    told.visitor.stay()
    assert told.now_s == 1_000.0


def test_where_nothing_was_left_nothing_is_waited_for() -> None:
    told = Told(how=Beside.SHOWN)
    told.approver.left.clear()
    told.starts()
    told.visitor.look(alone=True)
    told.visitor.stay()
    assert (len(told.lines), told.now_s) == (1, 1_000.0)
