"""What docs/approvals.md teaches is run; its reasons are those of the code, and its promises name tests that exist."""

import re
from typing import Any

from wakeful.deploy.simulation.mutants import MUTANTS
from wakeful.events.verdicts import DECISIONS

from .readme import ROOT

CHECKS = ("identity", "scope", "ordering", "freshness", "authority")

PAGE = (ROOT / "docs" / "approvals.md").read_text(encoding="utf-8")


def test_its_python_runs_from_top_to_bottom() -> None:
    names: dict[str, Any] = {"__name__": "approvals_page"}
    for found in re.finditer(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL):
        lines = "\n" * PAGE[: found.start(1)].count("\n")
        exec(compile(lines + found.group(1), "docs/approvals.md", "exec"), names)


def test_its_answers_are_those_that_there_are() -> None:
    told = re.findall(r"^\| (\w+) \|", PAGE[: PAGE.index("## More")], re.MULTILINE)
    assert set(told) - {"answer", "nobody"} == set(DECISIONS)


def test_its_reasons_are_those_of_the_code() -> None:
    section = PAGE[PAGE.index("## What is refused") : PAGE.index("## Promises")]
    told = set(re.findall(r"`([a-z]+_[a-z]+)`", section))
    files = ("commands/check.py", "commands/decisions.py", "processors/proposals.py")
    code = "".join((ROOT / name).read_text(encoding="utf-8") for name in files)
    assert {reason for reason in told if f'"{reason}"' not in code} == set()


def test_its_promises_name_tests_that_exist() -> None:
    named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", PAGE)
    assert named
    for path, name in named:
        assert f"def {name}(" in (ROOT / path).read_text(encoding="utf-8"), f"{path}::{name}"


def test_its_planted_mistakes_are_among_those_of_the_simulation() -> None:
    section = PAGE[PAGE.index("## Where each check is tried") :]
    rows = [line.split("|")[1:4] for line in section.splitlines() if line.startswith("| ")][1:]
    told = {name.strip() for row in rows for name in row[2].split(";")}
    assert told <= {mutant.name for mutant in MUTANTS}
    assert {row[0].partition(":")[0].strip() for row in rows} >= set(CHECKS)
    assert all(row[1].count("::test_") == 1 for row in rows)
