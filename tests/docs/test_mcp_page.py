"""What docs/mcp.md teaches is run, and its tables are those of the code."""

import inspect
import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from wakeful.deploy.cli.assisting import ALLOWED, tools_of
from wakeful.deploy.cli.main import app
from wakeful.deploy.mcp.serving import ANSWER_CHARACTERS_MAX
from wakeful.deploy.settings import Settings
from wakeful.mcp import McpServer
from wakeful.processors.activities.contracts import Read
from wakeful.processors.mcp import errors, results
from wakeful.processors.mcp.claims import Claims, Said, terms_of
from wakeful.processors.mcp.manifest import _SERVER_KEYS, _TOOL_KEYS, read_manifest
from wakeful.processors.mcp.servers import AGAIN, CONNECT_TIMEOUT

from .readme import ROOT

PAGE = (ROOT / "docs" / "mcp.md").read_text(encoding="utf-8")
CLAIMED = {
    "read-only, and not destructive": {"read_only": True},
    "idempotent, and not destructive": {"idempotent": True, "destructive": False},
    "idempotent, and nothing about destruction": {"idempotent": True},
    "not destructive": {"destructive": False},
    "anything else, or nothing": {},
}


def blocks(language: str) -> list[tuple[int, str]]:
    found = re.finditer(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    return [(PAGE[: one.start(1)].count("\n"), one.group(1)) for one in found]


def rows(heading: str) -> list[list[str]]:
    """The cells of the table that begins with this."""
    table = PAGE[PAGE.index(f"\n| {heading} |") + 1 :].split("\n\n")[0]
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in table.splitlines()[2:]]


def names(cell: str) -> list[str]:
    return re.findall(r"`(\w+)", cell)


def test_its_python_runs_from_top_to_bottom(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    known: dict[str, object] = {"__name__": "mcp_page"}
    for lines, text in blocks("python"):
        exec(compile("\n" * lines + text, "docs/mcp.md", "exec"), known)


def test_its_commands_run_and_the_reviewed_manifest_is_what_they_wrote(tmp_path: Path) -> None:
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "python").symlink_to(sys.executable)
    environ = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    for _, text in blocks("console"):
        done = subprocess.run(
            text.removeprefix("$ ").replace("wakeful ", f"{sys.executable} -m wakeful ", 1),
            shell=True,
            cwd=tmp_path,
            env=environ,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert (done.returncode, done.stdout) == (0, ""), done.stderr
    written = read_manifest(tmp_path / "desk.toml")
    reviewed = read_manifest(ROOT / "examples" / "mcp_desk.toml")
    assert {n: one.described for n, one in written.tools.items()} == {
        n: one.described for n, one in reviewed.tools.items()
    }
    ((_, text),) = blocks("toml")
    said, whole = tomllib.loads(text), tomllib.loads((ROOT / "examples/mcp_desk.toml").read_text())
    assert said["trusted"] is whole["trusted"] is True
    for tool, told in said["tools"].items():
        assert told == {name: whole["tools"][tool][name] for name in told}


def test_its_contracts_are_those_that_follow() -> None:
    told = {row[0]: row[1:] for row in rows("claimed")}
    assert list(told) == list(CLAIMED)
    for words, claims in CLAIMED.items():
        terms = terms_of(Claims(**claims), Said(), trusted=True, approver="sue")
        contract = "Read()" if isinstance(terms.contract, Read) else "Write()"
        contract = "Write(idempotent=True)" if "idempotent" in terms.contract.word else contract
        assert told[words] == [f"`{contract}`", "yes" if terms.approval else "no"]


def test_its_words_of_a_manifest_are_all_that_there_are() -> None:
    told = [name for row in rows("in the manifest") for name in names(row[0])]
    assert sorted(set(told)) == sorted({*_TOOL_KEYS, *_SERVER_KEYS} - {"server", "tools"})


def test_its_failures_and_parameters_are_all_that_there_are() -> None:
    known = [
        n for n, kind in vars(errors).items() if getattr(kind, "__module__", "") == errors.__name__
    ]
    assert [names(row[0])[0] for row in rows("failure")] == [
        n for n in known if n != "WrongManifest"
    ]
    told = [name for row in rows("parameter") for name in names(row[0])]
    assert sorted(told) == sorted(inspect.signature(McpServer).parameters)
    assert (AGAIN.attempts, AGAIN.initial, CONNECT_TIMEOUT) == (4, "500ms", "20s")
    assert (results.DATA_BYTES_MAX, results.RESULT_BYTES_MAX) == (256 * 1024, 4 * 1024 * 1024)
    assert ANSWER_CHARACTERS_MAX == 60_000


def test_its_tools_are_those_that_are_served() -> None:
    served = tools_of(Settings(), frozenset(ALLOWED))
    assert [names(row[0])[0] for row in rows("tool")] == [tool.name for tool in served]
    told = {names(row[0])[0]: re.findall(r"`--allow (\w+)`", row[1]) for row in rows("tool")}
    assert [name for name, allow in told.items() if allow] == [t.name for t in served if t.writes]
    ((_, text),) = blocks("json")
    started = json.loads(text)["mcpServers"]["wakeful"]
    assert [started["command"], *started["args"]] == ["wakeful", "mcp", "serve"]
    assert "mcp" in [group.name for group in app.registered_groups]
