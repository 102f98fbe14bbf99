"""What `wakeful demo` prints, asks and exits with."""

import io
import json
import sys
from pathlib import Path

import pytest

from wakeful.deploy.cli.main import invoke
from wakeful.deploy.demo import runner
from wakeful.deploy.demo.approver import ask
from wakeful.deploy.demo.console import Beside
from wakeful.deploy.demo.report import Report
from wakeful.deploy.demo.runner import Result
from wakeful.deploy.demo.runs import Options
from wakeful.deploy.demo.view import View, printable
from wakeful.deploy.exits import Exit


@pytest.fixture
def ends_with(monkeypatch):
    """Lets the run end with this report."""

    def use(report: Report) -> list[Options]:
        def run(_messages, _environ, options: Options) -> Result:
            asked.append(options)
            return Result(report, "demo-1", Path("out"), removed=False)

        monkeypatch.setattr(runner, "run", run)
        monkeypatch.delenv("WAKEFUL_MODEL", raising=False)
        return asked

    asked: list[Options] = []
    return use


def test_a_kept_promise_exits_with_0_and_one_object(ends_with, capsys) -> None:
    ends_with(Report(messages=3, kills=2, seconds=1.5))
    assert invoke(["demo", "--json"]) == Exit.DONE
    shown = capsys.readouterr()
    report = json.loads(shown.out)
    assert (report["messages"], report["seconds"], report["problems"]) == (3, 1.5, [])
    assert "every promise was kept" in shown.err


def test_a_broken_promise_exits_with_1_and_says_which(ends_with, capsys) -> None:
    ends_with(Report(lost_messages=1, problems=["message 1 is lost"]))
    assert invoke(["demo"]) == Exit.REFUSED
    shown = capsys.readouterr()
    assert "lost messages            1" in shown.out
    assert "broken: message 1 is lost" in shown.err
    assert "every promise was kept" not in shown.err


def test_the_flags_say_what_the_run_is_like(ends_with, tmp_path) -> None:
    asked = ends_with(Report())
    path = tmp_path / "some.jsonl"
    path.write_text('{"text": "a"}')
    invoke(["demo"])
    invoke(
        ["demo", "--calm", "--dedupe", "--late-commit", "--no-console", "--input", str(path)],
    )
    assert asked == [
        Options(console=Beside.SHOWN),
        Options(calm=True, dedupe=True, late_commit=True, own=False),
    ]


class Terminal(io.StringIO):
    """A terminal, for whoever asks."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("flags", "terminal", "beside"),
    [
        ([], False, Beside.SHOWN),
        ([], True, Beside.YOURS),
        (["--json"], True, Beside.SHOWN),
        (["--ask"], True, Beside.SHOWN),
        (["--no-console"], True, Beside.OFF),
        (["--console"], False, Beside.YOURS),
        (["--console", "--json"], True, Beside.YOURS),
    ],
)
def test_a_refund_is_left_to_you_on_a_terminal_or_where_you_say_so(
    flags, terminal, beside, ends_with, monkeypatch
) -> None:
    asked = ends_with(Report())
    stream = Terminal if terminal else io.StringIO
    monkeypatch.setattr(sys, "stdin", stream())
    monkeypatch.setattr(sys, "stderr", stream())
    invoke(["demo", *flags])
    assert [options.console for options in asked] == [beside]


def test_without_the_console_s_packages_the_demo_runs_and_says_what_is_missing(
    ends_with, monkeypatch, capsys
) -> None:
    asked = ends_with(Report())
    monkeypatch.setattr("wakeful.deploy.demo.console.missing", lambda: "uvicorn")
    assert invoke(["demo"]) == Exit.DONE
    assert [options.console for options in asked] == [Beside.OFF]
    assert "needs uvicorn, which is not installed: pip install" in capsys.readouterr().err
    assert invoke(["demo", "--console"]) == Exit.USAGE
    assert "--console: the console needs uvicorn" in capsys.readouterr().err


def test_a_model_that_failed_is_told(ends_with, capsys) -> None:
    ends_with(Report(failed_model_calls=4, model_error="connection refused"))
    assert invoke(["demo"]) == Exit.DONE
    assert "failed 4 times, the last time: connection refused" in capsys.readouterr().err


@pytest.mark.parametrize(("due", "told"), [(0, 1), (3, 0)])
def test_messages_without_a_refund_are_told(ends_with, capsys, due: int, told: int) -> None:
    ends_with(Report(refunds_due=due))
    assert invoke(["demo"]) == Exit.DONE
    assert capsys.readouterr().err.count("no refund was due in these messages") == told


@pytest.mark.parametrize(
    ("typed", "decided"), [("y\n", "approve"), ("what\nNO\n", "reject"), ("r\n", "rest")]
)
def test_a_person_decides(typed: str, decided: str, monkeypatch, capsys) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(typed))
    assert ask(View(), "give it \x1b[31mback", {"order_id": "7\x07", "cents": 25_000}, 3) == decided
    shown = capsys.readouterr().err
    assert shown.count("answer y, n or r") == typed.count("what")
    assert "give it \N{REPLACEMENT CHARACTER}[31mback" in shown
    assert "refund 250.00 for order 7\N{REPLACEMENT CHARACTER}, 2 more after it" in shown


def test_a_closed_terminal_ends_the_run(monkeypatch, capsys) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(""))
    with pytest.raises(KeyboardInterrupt):
        ask(View(), "x", {"order_id": "7", "cents": 1})


def test_what_customers_write_steers_no_terminal() -> None:
    assert printable("a\nb\x1b]0;x\x07\u202e") == "a b\ufffd]0;x\ufffd\ufffd"
    assert len(printable("x" * 9_999)) == 2_000
