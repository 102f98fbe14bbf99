"""docs/policy.md, run as it stands: its files are written, its commands run, and their output is what it shows."""

import re
from pathlib import Path

import pytest

from wakeful.deploy.cli.main import invoke
from wakeful.deploy.exits import Exit

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "policy.md").read_text(encoding="utf-8")
SCHEMA = (ROOT / "processors" / "policies" / "wakeful.cedarschema").read_text(encoding="utf-8")

FILES = re.findall(
    r"^```(?:toml|cedar)\n((?:#|//) (\S+)\n.*?)^```$", PAGE, re.MULTILINE | re.DOTALL
)
COMMANDS = re.findall(r"^```console\n\$ wakeful (.*?)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for text, name in FILES:
        (tmp_path / name).write_text(text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_page_has_its_files_and_commands() -> None:
    assert {name for _, name in FILES} == {"policy.toml", "desk.cedar", "refunds.test.toml"}
    assert [command.split()[1] for command, _ in COMMANDS] == ["check", "test"]


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(("command", "shown"), COMMANDS, ids=[c for c, _ in COMMANDS])
def test_a_command_says_what_the_page_shows(
    command: str, shown: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert invoke(command.split()) == Exit.DONE
    assert capsys.readouterr().out == shown


def test_the_page_names_all_that_is_in_the_context() -> None:
    fields = set(re.findall(r"^    (\w+)\??:", SCHEMA, re.MULTILINE))
    assert fields
    assert {name for name in fields if not re.search(rf"`(?:context)?\.{name}`", PAGE)} == set()


def test_the_tests_that_the_page_names_are_there() -> None:
    named = re.findall(r"`((?:tests|deploy)/[\w/]+\.py)`", PAGE)
    assert len(named) >= 6
    assert [name for name in named if not (ROOT / name).is_file()] == []
