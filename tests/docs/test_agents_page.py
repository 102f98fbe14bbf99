"""What docs/agents.md teaches is run, and its tables are those of the code."""

import inspect
import re

import pytest

from wakeful.agents import AgentLoop
from wakeful.processors.agents.conversation import BYTES_PER_TOKEN
from wakeful.processors.agents.loop import (
    COMPACT_ABOVE_DEFAULT,
    RESULT_CHARACTERS_MAX,
    STEPS_MAX_DEFAULT,
)
from wakeful.processors.agents.stretch import ROUND_RESULTS_MAX, STRETCH_STEPS
from wakeful.processors.agents.tools import TOOLS_MAX
from wakeful.processors.workflow.definitions import Workflow

from .readme import ROOT

PAGE = (ROOT / "docs" / "agents.md").read_text(encoding="utf-8")


def test_its_python_runs_from_top_to_bottom(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DESK_MODEL", raising=False)
    names: dict[str, object] = {"__name__": "agents_page"}
    for found in re.finditer(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL):
        lines = "\n" * PAGE[: found.start(1)].count("\n")
        exec(compile(lines + found.group(1), "docs/agents.md", "exec"), names)


def test_its_methods_are_those_that_a_subclass_may_write_anew() -> None:
    own = {
        name: kind
        for name, kind in vars(AgentLoop).items()
        if inspect.isfunction(kind) and not name.startswith("_") and not hasattr(Workflow, name)
    }
    told = dict(re.findall(r"^\| `(\w+)\(([\w, ]+)\)` \|", PAGE, re.MULTILINE))
    assert told == {
        name: ", ".join(list(inspect.signature(kind).parameters)[1:]) for name, kind in own.items()
    }


def test_its_parameters_are_all_that_there_are() -> None:
    section = PAGE[PAGE.index("## The rest") :]
    rows = re.findall(r"^\| (`[a-z_`, ]+`) \|", section, re.MULTILINE)
    told = [name for row in rows for name in re.findall(r"\w+", row)]
    assert sorted(told) == sorted(inspect.signature(AgentLoop).parameters)


def test_its_numbers_are_those_of_the_code() -> None:
    assert (STEPS_MAX_DEFAULT, COMPACT_ABOVE_DEFAULT) == (50, 40_000)
    assert (RESULT_CHARACTERS_MAX, ROUND_RESULTS_MAX, TOOLS_MAX) == (16_000, 4, 128)
    assert (STRETCH_STEPS, BYTES_PER_TOKEN) == (4, 4)
