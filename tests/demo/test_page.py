"""docs/refund-desk.md shows what the demo has: its report, its flags, its lines of code."""

import re
from pathlib import Path

import typer

from wakeful.deploy.cli import app
from wakeful.deploy.demo.report import Report

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "refund-desk.md").read_text(encoding="utf-8")
NUMBERS = set(Report.__dataclass_fields__) - {"problems", "model_error"}


def test_the_report_shown_is_a_whole_one() -> None:
    shown = re.findall(r"^([a-z][a-z ]+?)  +\S+$", PAGE, re.MULTILINE)
    assert {name.replace(" ", "_") for name in shown} == NUMBERS | {"folder"}


def test_every_number_is_explained() -> None:
    section = PAGE.split("## What each number means")[1].split("## Other weather")[0]
    assert set(re.findall(r"^\| `(\w+)`", section, re.MULTILINE)) == NUMBERS


def test_its_flags_are_those_of_the_command() -> None:
    command = typer.main.get_command(app).commands["demo"]
    known = {
        option
        for parameter in command.params
        for option in (*parameter.opts, *parameter.secondary_opts)
    }
    assert set(re.findall(r"`(--[a-z-]+)", PAGE)) == known - {"--help"}


def test_the_code_shown_is_the_agent_s() -> None:
    (shown,) = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    desk = ROOT / "examples" / "refund_desk" / "desk.py"
    assert shown in desk.read_text(encoding="utf-8")
