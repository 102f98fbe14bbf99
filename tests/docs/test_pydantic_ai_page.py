"""What docs/pydantic-ai.md teaches is run, and its numbers and methods are those of the code."""

import inspect
import re
import subprocess
import sys

from pydantic_ai.usage import UsageLimits

from wakeful.processors.agents.pydantic_agents.asking import RETRY_DEFAULT
from wakeful.processors.agents.pydantic_agents.rounds import STRETCH_REQUESTS
from wakeful.pydantic_ai import DurableAgent, Rules

from .readme import ROOT

PAGE = (ROOT / "docs" / "pydantic-ai.md").read_text(encoding="utf-8")


def test_its_python_runs_from_top_to_bottom() -> None:
    names: dict[str, object] = {"__name__": "pydantic_ai_page"}
    for found in re.finditer(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL):
        lines = "\n" * PAGE[: found.start(1)].count("\n")
        exec(compile(lines + found.group(1), "docs/pydantic-ai.md", "exec"), names)


def test_it_names_the_methods_parameters_and_rules_that_there_are() -> None:
    own = [name for name in vars(DurableAgent) if not name.startswith("_")]
    parameters = list(inspect.signature(DurableAgent).parameters)
    rules = list(inspect.signature(Rules).parameters)
    told = set(re.findall(r"`(\w+)(?:=[^`]*)?`|(\w+)=", PAGE))
    words = {word for pair in told for word in pair if word} | set(re.findall(r"\w+", PAGE))
    assert {*own, *parameters, *rules} - words == set()


def test_its_numbers_are_those_of_the_code() -> None:
    assert (STRETCH_REQUESTS, RETRY_DEFAULT.attempts) == (4, 4)
    assert UsageLimits().request_limit == 50


def test_nobody_loads_the_library_who_does_not_ask_for_it() -> None:
    code = "import sys, wakeful, wakeful.agents, wakeful.testing; sys.exit('pydantic_ai' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
