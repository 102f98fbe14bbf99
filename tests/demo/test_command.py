"""What `wakeful demo` prints, asks and exits with."""

import io
import json
import sys
from pathlib import Path

import pytest

from wakeful.deploy.cli.main import invoke
from wakeful.deploy.demo import runner
from wakeful.deploy.demo.report import Report
from wakeful.deploy.demo.runner import Result
from wakeful.deploy.demo.view import View, ask, printable
from wakeful.deploy.exits import Exit


@pytest.fixture
def ends_with(monkeypatch):
    """Lets the run end with this report."""

    def use(report: Report) -> None:
        result = Result(report, "demo-1", Path("out"), 1.5, removed=False)
        monkeypatch.setattr(runner, "run", lambda *_args, **_options: result)
        monkeypatch.delenv("WAKEFUL_MODEL", raising=False)

    return use


def test_a_kept_promise_exits_with_0_and_one_object(ends_with, capsys) -> None:
    ends_with(Report(messages=3, kills=2))
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


def test_a_model_that_failed_is_told(ends_with, capsys) -> None:
    ends_with(Report(failed_model_calls=4, model_error="connection refused"))
    assert invoke(["demo"]) == Exit.DONE
    assert "failed 4 times, the last time: connection refused" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("typed", "decided"), [("y\n", "approve"), ("what\nNO\n", "reject"), ("a\n", "all")]
)
def test_a_person_decides(typed: str, decided: str, monkeypatch, capsys) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(typed))
    assert ask(View(), "give it \x1b[31mback", "send_answer", {"kind": "refund"}) == decided
    shown = capsys.readouterr().err
    assert "give it \N{REPLACEMENT CHARACTER}[31mback" in shown
    assert "kind: refund" in shown


def test_a_closed_terminal_ends_the_run(monkeypatch, capsys) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(""))
    with pytest.raises(KeyboardInterrupt):
        ask(View(), "x", "send_answer", {})


def test_what_customers_write_steers_no_terminal() -> None:
    assert printable("a\nb\x1b]0;x\x07\u202e") == "a b\ufffd]0;x\ufffd\ufffd"
    assert len(printable("x" * 9_999)) == 2_000
