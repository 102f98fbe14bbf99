"""The house rules that a machine can check: sizes, first lines, and nothing of one machine."""

import ast
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ("commands", "deploy", "events", "processors", "projections", "schemas", "src")
FILE_LINES_MAX = 400
FUNCTION_LINES_MAX = 70

# Written in pieces, so that this file does not find itself.
MACHINE = re.compile(
    "|".join(
        [
            r"\.\./" + "shared",
            r"(?<![\w.])/" + r"(?:work|root|home|Users)/\w",
            *(
                re.escape(".".join(host))
                for host in [
                    ("pypi", "org"),
                    ("pythonhosted", "org"),
                    ("maven", "org"),
                    ("maven", "apache", "org"),
                    ("npmjs", "org"),
                    ("crates", "io"),
                    ("proxy", "golang", "org"),
                    ("deb", "debian", "org"),
                ]
            ),
        ]
    )
)


def tracked() -> list[Path]:
    """What git has or would have: committed, changed and new files, without ignored ones."""
    shown = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if shown.returncode != 0:
        pytest.skip("not a git checkout")
    paths = [ROOT / name for name in shown.stdout.split("\0") if name]
    return sorted({path for path in paths if path.is_file() and not path.is_symlink()})


def modules(*, everywhere: bool = False) -> list[Path]:
    python = [path for path in tracked() if path.suffix == ".py"]
    return [p for p in python if everywhere or p.relative_to(ROOT).parts[0] in SOURCE]


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def test_files_stay_under_four_hundred_lines() -> None:
    lengths = {name(p): len(p.read_text(encoding="utf-8").splitlines()) for p in modules()}
    assert {n: lines for n, lines in lengths.items() if lines >= FILE_LINES_MAX} == {}


def test_functions_stay_under_seventy_lines() -> None:
    long = {}
    for path in modules():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                lines = (node.end_lineno or node.lineno) - node.lineno + 1
                if lines >= FUNCTION_LINES_MAX:
                    long[f"{name(path)}:{node.name}"] = lines
    assert long == {}


def test_the_first_line_of_a_module_says_what_lives_there() -> None:
    silent = []
    for path in modules(everywhere=True):
        text = path.read_text(encoding="utf-8")
        lines = [line for line in text.splitlines() if not line.startswith("#!")]
        if lines and not lines[0].lstrip("r").startswith('"""'):
            silent.append(name(path))
    assert silent == []


def test_nothing_speaks_of_one_machine_or_of_a_registry() -> None:
    found = {}
    for path in tracked():
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        hits = {match.group() for match in MACHINE.finditer(text)}
        if hits:
            found[name(path)] = hits
    assert found == {}


def test_the_six_folders_are_links() -> None:
    shown = subprocess.run(
        ["git", "ls-files", "-s", "src/wakeful"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if shown.returncode != 0:
        pytest.skip("not a git checkout")
    links = {line.split("/")[-1] for line in shown.stdout.splitlines() if line[:6] == "120000"}
    assert links == set(SOURCE) - {"src"}


def test_every_make_target_has_its_line_of_help() -> None:
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    phony = set(re.search(r"^\.PHONY: (.*)$", text, re.MULTILINE).group(1).split())
    assert set(re.findall(r"^([a-z]+):.*## \S", text, re.MULTILINE)) == phony


def readme_commands(program: str) -> set[tuple[str, ...]]:
    """The commands of the README's code blocks that start with `program`, without options."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    found = set()
    for language, block in re.findall(r"^```(\w*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        if language not in ("", "bash", "sh", "console", "shell"):
            continue
        for line in block.splitlines():
            words = re.sub(r"^\$ |\.venv/bin/", "", line.strip()).split()
            if words[:1] == [program]:
                plain = [w for w in words[1:] if re.fullmatch(r"[a-z][a-z-]*", w)]
                found.add(tuple(plain))
    return found


def test_the_readme_names_make_targets_that_exist() -> None:
    named = {target for words in readme_commands("make") for target in words}
    if not named:
        pytest.skip("the README names none yet")
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert named <= set(re.findall(r"^([a-z]+):", text, re.MULTILINE))


def test_the_readme_names_commands_that_exist() -> None:
    named = readme_commands("wakeful")
    if not named:
        pytest.skip("the README names none yet")
    cli = pytest.importorskip("wakeful.deploy.cli")
    typer = pytest.importorskip("typer")
    unknown = []
    for words in named:
        command = typer.main.get_command(cli.app)
        for word in words:
            if not hasattr(command, "commands"):
                break  # what follows a command are its arguments
            if word not in command.commands:
                unknown.append(("wakeful", *words))
                break
            command = command.commands[word]
    assert unknown == []
