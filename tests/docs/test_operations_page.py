"""The pages about operations and audits name commands and options that exist, and verdicts that the doctor gives."""

import re
from pathlib import Path
from typing import get_args

import pytest
import typer.main

from wakeful.deploy.cli import app
from wakeful.deploy.cli.findings import Verdict

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "operations.md").read_text(encoding="utf-8")
TREE = typer.main.get_command(app)


def named(page: str) -> list[list[str]]:
    """The words after `wakeful` of each command on the page."""
    lines = re.findall(r"^\$ (wakeful .*)$", page, re.MULTILINE)
    lines += re.findall(r"['`](wakeful [^'`\n]+)['`]", page)
    return [line.split()[1:] for line in lines]


@pytest.mark.parametrize("name", ["operations.md", "audit.md"])
def test_the_page_names_commands_and_options_that_exist(name):
    commands = named((DOCS / name).read_text(encoding="utf-8"))
    assert len(commands) > 10
    for words in commands:
        command = TREE
        for word in words:
            inner = getattr(command, "commands", None)
            if inner is None or word.startswith("-"):
                break
            assert word in inner, words
            command = inner[word]
        known = {option for one in command.params for option in (*one.opts, *one.secondary_opts)}
        assert {word for word in words if word.startswith("--")} <= known, words


def test_the_page_names_every_verdict():
    assert {f"`{verdict}`" for verdict in get_args(Verdict)} <= set(re.findall(r"`\w+`", PAGE))
