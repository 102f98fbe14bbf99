"""docs/http.md: its commands are run in a shell beside a running desk, and print what the page shows; its tables are the code's."""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest

from tests.deploy.gateway.running import running
from wakeful.deploy.gateway import guarding
from wakeful.deploy.gateway.app import HTTP_REASONS
from wakeful.deploy.gateway.bodies import Fate
from wakeful.deploy.gateway.hooks import UNNAMED
from wakeful.deploy.gateway.principals import ROLES
from wakeful.deploy.gateway.services import BEHIND_MAX_S
from wakeful.deploy.gateway.settings import MIB
from wakeful.deploy.gateway.terms import WAIT_MAX_S
from wakeful.events.state import DEDUPE_MS

from .readme import ROOT, blocks

PAGE = (ROOT / "docs" / "http.md").read_text(encoding="utf-8")
GATEWAY = ROOT / "deploy" / "gateway"
HELLO = str(ROOT / "examples" / "hello.py")

WRITES = ("Signing in", "Commands", "Repeats", "Webhooks")
"""Sections that are one story, from the first key to the last delivery."""

API = [path for path in sorted(GATEWAY.rglob("*.py")) if "console" not in path.parts]
"""Whatever may answer with a problem; the console answers with pages."""

END = "=== end ==="

TOOLS = ("bash", "curl", "jq", "openssl")


def section(title: str) -> str:
    parts = re.split(r"^## ", PAGE, flags=re.MULTILINE)
    return next(part for part in parts if part.startswith(f"{title}\n"))


def problems_in(source: str) -> set[tuple[str, str]]:
    """Status and reason of each `Problem` that is made here with both spelled out; others are named where they are kept."""
    made = [
        call.args
        for call in ast.walk(ast.parse(source))
        if isinstance(call, ast.Call)
        and isinstance(call.func, ast.Name)
        and call.func.id == "Problem"
    ]
    spelled = [[arg.value for arg in args[:2] if isinstance(arg, ast.Constant)] for args in made]
    return {
        (str(one[0]), str(one[1])) for one in spelled if len(one) == 2 and isinstance(one[0], int)
    }


def shown() -> list[tuple[str, str]]:
    """Commands and what they print, in the page's order."""
    found: list[tuple[str, str]] = []
    for title in WRITES:
        for line in "".join(blocks("console", section(title))).splitlines():
            if line.startswith("$ "):
                found.append((line[2:], ""))
            else:
                command, output = found[-1]
                found[-1] = command, f"{output}{line}\n"
    return found


def pattern(output: str) -> str:
    """What is left out on the page is any text."""
    return ".*".join(map(re.escape, output.split("…")))


@pytest.fixture(scope="module")
def printed(endpoints, postgres_url, keys, tmp_path_factory):
    """What each command prints, when all are run in one shell."""
    missing = [tool for tool in TOOLS if shutil.which(tool) is None]
    if missing:
        pytest.skip(f"{', '.join(missing)}, which the page uses, is not installed")
    home = tmp_path_factory.mktemp("home")
    hooks = home / "hooks.json"
    (declared,) = blocks("json", section("Webhooks"))
    hooks.write_text(declared)
    with (
        running(endpoints, postgres_url, keys, home, f"page{os.getpid()}", HELLO) as desk,
        desk.gateway(WAKEFUL_HOOKS=str(hooks)) as (url, _),
    ):
        yield run(desk.environ, url, home)


def run(environ: dict[str, str], url: str, folder: Path) -> list[str]:
    lines = [f'wakeful() {{ "{sys.executable}" -m wakeful "$@"; }}', "exec 2>&1"]
    for command, _ in shown():
        if "> asked" in command:  # the page takes for granted that the proposal is there by then
            asking = 'curl -s "$URL/v1/approvals?session_id=order-7" -H "$AUTH"'
            lines.append(f"until {asking} | grep -q digest; do sleep 0.2; done")
        lines += [command, f"echo '{END}'"]
    done = subprocess.run(
        ["bash", "-c", "\n".join(lines)],
        env={**environ, "URL": url},
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return done.stdout.split(f"{END}\n")[:-1]


def test_its_commands_print_what_it_shows(printed):
    assert len(printed) == len(shown()) >= 15
    pairs = zip(shown(), printed, strict=True)
    differing = [
        (command, output, told)
        for (command, output), told in pairs
        if re.fullmatch(pattern(output.strip()), told.strip()) is None
    ]
    assert differing == []


def test_its_table_of_problems_has_every_reason_of_the_code():
    rows = re.findall(r"^\| (\d{3}) \| `(\w+)` \|", section("When it says no"), re.MULTILINE)
    assert len(rows) == len(set(rows))
    used = {problem for path in API for problem in problems_in(path.read_text("utf-8"))}
    used |= {(str(status), reason) for status, reason in HTTP_REASONS.items()}
    used |= {("422", reason) for reason in UNNAMED.values()}
    assert len(used) > 30
    assert set(rows) == used


def test_its_table_of_commands_is_that_of_the_application():
    rows = set(re.findall(r"^\| `POST (/v1/\S+)` \|", section("Commands"), re.MULTILINE))
    routes = re.findall(
        r'^@router\.post\(\s*"(\S+)"', (GATEWAY / "commands.py").read_text("utf-8"), re.MULTILINE
    )
    assert rows == {f"/v1{route}" for route in routes}


def test_its_roles_and_states_and_numbers_are_those_of_the_code():
    roles = re.findall(r"^\| `(\w+)` \|", section("Signing in"), re.MULTILINE)
    assert roles == list(ROLES)
    states = section("Commands").partition("| `state` | what it means |")[2]
    assert set(re.findall(r"^\| `(\w+)` \| ", states, re.MULTILINE)) == set(
        get_args(Fate.model_fields["state"].annotation)
    )
    assert (WAIT_MAX_S, DEDUPE_MS, BEHIND_MAX_S, MIB) == (30, 7 * 24 * 3_600_000, 60.0, 1_048_576)
    assert (guarding.HEADERS_MAX, guarding.HEADER_BYTES_MAX, guarding.BODY_S) == (100, 8_192, 30.0)
    json.loads(blocks("json", section("Webhooks"))[0])
