"""docs/security.md: each promise names a test that exists, and tables name what the code has."""

import re
from pathlib import Path

import pytest
import typer

from wakeful.commands import identity, keyring
from wakeful.commands.keyring import ROLES
from wakeful.deploy.cli.main import app
from wakeful.events.topics import Topics

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")

PROOFS = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", PAGE)


@pytest.mark.parametrize(("path", "name"), PROOFS)
def test_the_test_that_proves_a_promise_is_there(path: str, name: str) -> None:
    assert re.search(rf"^def {name}\(", (ROOT / path).read_text(encoding="utf-8"), re.MULTILINE)


def test_every_promise_has_its_test() -> None:
    sections = re.findall(r"^## Promises [^\n]*\n(.*?)(?=^## )", PAGE, re.MULTILINE | re.DOTALL)
    assert len(sections) == 3
    for section in sections:
        rows = [line for line in section.splitlines() if line.startswith("| ")][1:]
        assert len(rows) > 10
        assert all(row.count("::test_") == 1 for row in rows)


KINDS = {name for name, value in vars(Topics).items() if isinstance(value, property)}
KINDS |= {"activities"}

WHERE = {
    "client": ("commands/*.py",),
    "gateway": (
        *("commands/*.py", "deploy/gateway/**/*.py"),
        *("deploy/telling/dealing.py", "deploy/telling/watching.py"),
    ),
    "worker": ("processors/activities/*.py",),
    "processor": ("processors/*.py",),
    "publisher of policies": ("deploy/policies.py",),
}
"""Roles, and the modules in which their processes name topics."""


def test_its_matrix_of_topics_is_that_of_the_code() -> None:
    section = PAGE.partition("| role | reads | writes |")[2].partition("\n\n")[0]
    shown = {
        role.strip(): set(re.findall(r"`([a-z_]+)(?:\.\*)?`", reads + writes))
        for role, reads, writes in (row.split("|")[1:4] for row in section.splitlines()[2:])
    }
    for role, patterns in WHERE.items():
        code = "".join(
            path.read_text("utf-8") for pattern in patterns for path in ROOT.glob(pattern)
        )
        used = set(re.findall(r"topics\.(\w+)", code)) & KINDS
        by_others = {"outcomes"} if role == "client" else set()  # read by their own code
        assert shown[role] == used | by_others, role
    assert set().union(*shown.values()) >= KINDS
    projector = (ROOT / "deploy" / "processes.py").read_text("utf-8").partition("def run_projector")
    assert set(re.findall(r"topics\.(\w+)", projector[2])) == shown["projector"] == {"events"}


def test_its_reasons_are_those_that_the_code_gives() -> None:
    sources = [Path(module.__file__).read_text("utf-8") for module in (keyring, identity)]
    given = set(re.findall(r'"identity", "(\w+)"', "".join(sources)))
    given |= set(re.findall(r'"(\w+_key|wrong_\w+|forged_\w+)"', sources[0]))
    section = PAGE.partition("| reason |")[2].partition("\n\n")[0]
    shown = set(re.findall(r"`(\w+)`", section))
    assert given | {"ambiguous_header"} == shown


def test_its_matrix_of_roles_is_that_of_the_code() -> None:
    section = PAGE.partition("| role | signs |")[2].partition("\n\n")[0]
    rows = [line.split("|")[1:3] for line in section.splitlines()[2:]]
    shown = {
        role: set(re.findall(r"`(\w+)`", kinds))
        for roles, kinds in rows
        for role in re.findall(r"`(\w+)`", roles)
    }
    assert shown == {role: set(kinds) for role, kinds in ROLES.items()}


def test_its_commands_exist() -> None:
    keys = typer.main.get_command(app).commands["keys"].commands
    lines = re.findall(r"^\$ wakeful keys (.*)$", PAGE, re.MULTILINE)
    assert len(lines) > 5
    for line in lines:
        word, *rest = line.split()
        known = {option for one in keys[word].params for option in one.opts}
        assert {part for part in rest if part.startswith("--")} <= known, line
