"""docs/testing.md, run as it stands: its first block is the module `desk`, the others are tests of it."""

import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "testing.md"
EXAMPLES_MIN = 3


def blocks() -> list[str]:
    """The page's Python, each block at its own line, so that a failure points into the page."""
    text = PAGE.read_text(encoding="utf-8")
    found = re.finditer(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return ["\n" * text[: m.start(1)].count("\n") + m.group(1) for m in found]


def loaded(source: str, name: str) -> ModuleType:
    module = ModuleType(name)
    sys.modules[name] = module
    exec(compile(source, PAGE, "exec"), vars(module))
    return module


def runs(test: Callable[..., None]) -> Iterator[dict[str, Any]]:
    """The arguments that the block's own `parametrize` gives its test."""
    marks = [m for m in getattr(test, "pytestmark", []) if m.name == "parametrize"]
    if not marks:
        yield {}
    for mark in marks:
        name, values = mark.args
        yield from ({name: value} for value in values)


@pytest.fixture
def page(monkeypatch: pytest.MonkeyPatch) -> list[ModuleType]:
    names = ["desk", *(f"example_{n}" for n in range(1, len(blocks())))]
    for name in names:
        monkeypatch.setitem(sys.modules, name, ModuleType(name))  # so that it is gone afterwards
    return [loaded(source, name) for source, name in zip(blocks(), names, strict=True)][1:]


def examples_of(module: ModuleType) -> dict[str, Callable[..., None]]:
    return {name: given for name, given in vars(module).items() if name.startswith("test_")}


def test_the_page_has_its_examples(page: list[ModuleType]) -> None:
    assert len(page) >= EXAMPLES_MIN
    assert all(examples_of(module) for module in page)


TESTS = re.findall(r"^def (test_\w+)", "\n".join(blocks()), re.MULTILINE)


@pytest.mark.parametrize("name", TESTS)
def test_an_example_of_the_page_passes(page: list[ModuleType], name: str) -> None:
    test = next(examples_of(module)[name] for module in page if name in examples_of(module))
    for arguments in runs(test):
        test(**arguments)


def test_the_page_names_all_that_can_be_imported_and_asked() -> None:
    from wakeful import testing

    text = PAGE.read_text(encoding="utf-8")
    asked = {n for n in dir(testing.Rehearsal) if not n.startswith("_")}
    records = {"Called", "Hold", "Rehearsal", "StepAt"}  # what answers are made of
    told = set(re.findall(r"\w+", text))
    assert (asked | set(testing.__all__)) - records - told == set()
