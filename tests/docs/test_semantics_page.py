"""docs/semantics.md: each promise names the test that proves it, and the README leads there."""

import re

import pytest

from .readme import ROOT

PAGE = (ROOT / "docs" / "semantics.md").read_text(encoding="utf-8")
GROUPS = re.findall(r"^## ([^\n]*)\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)
ROWS = [
    (group, line)
    for group, section in GROUPS
    for line in section.splitlines()
    if line.startswith("| ") and line != "| promise | proved by |"
]


def test_every_promise_has_one_test_and_every_group_has_promises() -> None:
    assert len(ROWS) > 150
    shape = re.compile(r"^\| [^|]+ \| `tests/[\w/]+\.py::test_\w+` \|$")
    assert [line for _, line in ROWS if shape.match(line) is None] == []
    named = [group for group, _ in ROWS]
    assert [group for group, _ in GROUPS if named.count(group) < 5] == []


def test_no_promise_is_made_twice() -> None:
    promises = [(group, line.split(" | ")[0]) for group, line in ROWS]
    assert len(promises) == len(set(promises))


PROOFS = sorted(set(re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", PAGE)))


@pytest.mark.parametrize("path", sorted({path for path, _ in PROOFS}))
def test_the_tests_that_prove_a_promise_are_there(path: str) -> None:
    text = (ROOT / path).read_text(encoding="utf-8")
    names = {name for file, name in PROOFS if file == path}
    found = set(re.findall(r"^(?:async )?def (test_\w+)\(", text, re.MULTILINE))
    assert names - found == set()


def test_it_speaks_of_each_duty_that_a_durable_session_has() -> None:
    groups = [group for group, _ in GROUPS]
    assert groups == [
        *("A workflow, not a process", "Suspension", "History", "Replay", "Activities"),
        *("Side effects", "Waits", "Resume: 1. Identity", "Resume: 2. Authority"),
        *("Resume: 3. Freshness", "Resume: 4. Ordering", "Resume: 5. Scope", "Versions"),
        *("Compensation", "Cancellation", "Resources", "Failure handling"),
        "What Wakeful is not",
    ]


def test_whoever_reads_the_readme_finds_it() -> None:
    assert "(docs/semantics.md)" in (ROOT / "README.md").read_text(encoding="utf-8")
