"""The house rules that a machine can check: sizes, first lines, dead modules, records and topics, the README, no machine."""

import ast
import re
import subprocess
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import pytest

from wakeful.commands.wire import COMMANDS
from wakeful.events.codec import ATTEMPTS, CONTROL, EVENTS, OUTCOMES, SNAPSHOTS, STATES, TASKS
from wakeful.events.limits import OVERHEAD_MAX
from wakeful.events.topics import Topics
from wakeful.schemas import bundled

ROOT = Path(__file__).parents[1]
SOURCE = ("commands", "deploy", "events", "processors", "projections", "schemas", "src")
USERS = ("bench", "examples")
PAGES = ("README.md", "docs/tour.md", "docs/models.md", "docs/refund-desk.md")
"""What a user reads for the commands and modules to run; other pages have tests of their own."""

DOORS = {
    "wakeful.deploy.demo.command": "deploy/cli/main.py imports it by name: an install may lack it",
    "wakeful.deploy.demo.payments.__main__": "a process of its own, which payments/process.py starts",
    "wakeful.deploy.simulation.on_kafka": "tests/chaos/page.py writes docs/chaos.md by it",
    "wakeful.processors.mcp.guard": "a process of its own, which processors/mcp/stdio.py starts by its path",
    "wakeful.schemas.history": "a folder of data, read as such",
    "wakeful.schemas.release": "run by hand when a schema changes",
}
"""Modules that nothing names in an import, nor the Makefile, pyproject.toml or a page of ours; and who needs them."""

CASES = frozenset(
    [
        "U1",
        "U2",
        "U3",
        "U5",
        "U6",
        "U7",
        "U9",
        "U10",
        "U11",
        "U12",
        "U13",
        "U14",
        "U15",
        "U17",
        "U19",
        "U20",
        "U21",
        "U23",
        "U24",
        "U25",
        "L1",
        "L3",
        "L4",
        "L5",
        "L7",
        "L8",
        "L9",
        "L10",
        "L11",
        "L12",
        "L13",
        "L14",
        "L16",
        "L17",
        "L18",
        "L19",
        "L20",
        "L22",
        "L23",
        "L24",
        "L26",
        "L27",
        "L28",
        "L29",
        "L32",
        "L34",
        "L35",
        "L36",
        "L37",
        "L38",
    ]
)
"""Faults that users of other systems reported; `@pytest.mark.case` says which of them a test comes from."""

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


@cache
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


@cache
def text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8")


@dataclass
class Outline:
    """What is asked of a module: its functions with their lines, and its imports, wherever in it they stand."""

    functions: list[tuple[str, int]] = field(default_factory=list)
    imports: list[ast.Import | ast.ImportFrom] = field(default_factory=list)


@cache
def outline(path: Path) -> Outline:
    found = Outline()
    statements: list[ast.AST] = [ast.parse(text_of(path))]
    for node in statements:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            found.functions.append((node.name, lines))
        elif isinstance(node, ast.Import | ast.ImportFrom):
            found.imports.append(node)
        for inner in ("body", "orelse", "finalbody", "handlers", "cases"):
            more = getattr(node, inner, ())
            statements += more if isinstance(more, list) else ()
    return found


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def test_files_stay_under_four_hundred_lines() -> None:
    python = modules(everywhere=True)
    lengths = {name(p): len(text_of(p).splitlines()) for p in python}
    assert {n: lines for n, lines in lengths.items() if lines >= FILE_LINES_MAX} == {}


def test_functions_stay_under_seventy_lines() -> None:
    long = {}
    for path in modules(everywhere=True):
        for function, lines in outline(path).functions:
            if lines >= FUNCTION_LINES_MAX:
                long[f"{name(path)}:{function}"] = lines
    assert long == {}


def test_the_first_line_of_a_module_says_what_lives_there() -> None:
    silent = []
    for path in modules(everywhere=True):
        text = text_of(path)
        lines = [line for line in text.splitlines() if not line.startswith("#!")]
        if lines and not lines[0].lstrip("r").startswith('"""'):
            silent.append(name(path))
    assert silent == []


def test_nothing_speaks_of_one_machine_or_of_a_registry() -> None:
    found = {}
    for path in tracked():
        try:
            text = text_of(path)
        except UnicodeDecodeError:
            continue
        hits = {match.group() for match in MACHINE.finditer(text)}
        if hits:
            found[name(path)] = hits
    assert found == {}


def module_name(path: Path) -> str:
    """`events/log/kafka.py` as it is imported: `wakeful.events.log.kafka`."""
    parts = list(path.relative_to(ROOT).with_suffix("").parts)
    parts = parts[2:] if parts[0] == "src" else parts
    return (
        ".".join(["wakeful", *parts])
        .removesuffix(".__init__")
        .replace("wakeful.wakeful", "wakeful")
    )


def imported_by(path: Path) -> set[str]:
    """The names of modules that a file may import, wherever in it the statement stands."""
    package = module_name(path).split(".")
    if path.name != "__init__.py":
        package = package[:-1]
    found: set[str] = set()
    for node in outline(path).imports:
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        else:
            base = package[: len(package) - node.level + 1] if node.level else []
            start = ".".join([*base, *([node.module] if node.module else [])])
            found.add(start)
            found.update(f"{start}.{alias.name}" for alias in node.names)
    return found


def test_every_case_has_a_test_and_every_test_is_marked_with_known_ones() -> None:
    marked = {
        (path.name, case)
        for path in (ROOT / "tests").rglob("*.py")
        for case in re.findall(r"mark\.case\(([^)]*)\)", path.read_text(encoding="utf-8"))
    }
    known = {f'"{case}"' for case in CASES}
    assert len(marked) > 30
    assert all(re.fullmatch(r"[UL][1-9]\d*", case) for case in CASES)
    assert {(name, case) for name, case in marked if case not in known} == set()
    assert known - {case for _, case in marked} == set()


def test_no_module_is_dead() -> None:
    """Each is reached from a door, by imports of the source, the examples and the benchmark; tests do not count."""
    files = {module_name(path): path for path in modules()}
    told = "\n".join(
        (ROOT / name).read_text(encoding="utf-8") for name in ("Makefile", "pyproject.toml", *PAGES)
    )
    users = [p for p in modules(everywhere=True) if p.relative_to(ROOT).parts[0] in USERS]
    reached: set[str] = set()
    run = {n: n.removesuffix(".__main__") for n in files}  # `python -m` of a package
    waiting = {n for n in files if re.search(rf"\b{re.escape(run[n])}\b", told)} | set(DOORS)
    waiting = waiting.union(*(imported_by(path) for path in users)) & set(files)
    while waiting:
        one = waiting.pop()
        reached.add(one)
        parents = {one.rsplit(".", n)[0] for n in range(1, one.count(".") + 1)}
        waiting |= ((imported_by(files[one]) | parents) & set(files)) - reached
    assert sorted(set(files) - reached) == []


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


def test_every_record_has_a_class_a_schema_and_a_topic_that_holds_it() -> None:
    """Fields are compared in tests/schemas; here: one codec each, and no topic of records that nobody can write."""
    topics = Topics("n")
    holds = {
        topics.commands: COMMANDS,
        topics.events: EVENTS,
        topics.activities("q"): TASKS,
        topics.activities("q", once=True): TASKS,
        topics.attempts: ATTEMPTS,
        topics.outcomes: OUTCOMES,
        topics.snapshots: SNAPSHOTS,
        topics.control: CONTROL,
    }
    # letters are as they came, and what watchers tell can be made anew
    without = {topics.dead_letters, topics.watch_windows, topics.watch_proposals}
    specs = {spec.name: spec for spec in topics.specs(["q"], 1)}
    assert set(specs) == set(holds) | without
    codecs = [
        COMMANDS,
        EVENTS,
        TASKS,
        ATTEMPTS,
        OUTCOMES,
        SNAPSHOTS,
        CONTROL,
        STATES,
    ]  # a state travels in a Snapshot
    records = [record for codec in codecs for record in codec._classes]
    files = [f"wakeful.v1.{path.stem}" for path in (ROOT / "schemas").glob("*.avsc")]
    assert sorted(records) == sorted(files)
    assert {version.record for version in bundled().lock.versions} == set(files)
    for topic, codec in holds.items():
        assert int(specs[topic].config["max.message.bytes"]) == codec._value_max + OVERHEAD_MAX


def test_every_make_target_has_its_line_of_help() -> None:
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    phony = set(re.search(r"^\.PHONY: (.*)$", text, re.MULTILINE).group(1).split())
    assert set(re.findall(r"^([a-z-]+):.*## \S", text, re.MULTILINE)) == phony


def named_commands(program: str) -> list[list[str]]:
    """The words after `program`, of the code blocks of what users read and of what it names in its text."""
    text = "\n".join((ROOT / page).read_text(encoding="utf-8") for page in PAGES)
    lines: list[str] = []
    for language, block in re.findall(r"^```(\w*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        if language in ("", "bash", "sh", "console", "shell"):
            lines += [re.sub(r"^\$ |\.venv/bin/", "", line.strip()) for line in block.splitlines()]
        if language in ("console", "text"):  # what a command said may name another
            lines += re.findall(rf"'({program} [^']*)'", block)
    prose = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    lines += re.findall(r"`([^`\n]+)`", prose)
    return [words[1:] for line in lines if (words := line.split())[:1] == [program]]


def test_the_readme_names_make_targets_that_exist() -> None:
    named = {word for words in named_commands("make") for word in words if word.isalpha()}
    assert named
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert named <= set(re.findall(r"^([a-z-]+):", text, re.MULTILINE))


def test_the_readme_names_commands_and_options_that_exist() -> None:
    named = named_commands("wakeful")
    assert named
    cli = pytest.importorskip("wakeful.deploy.cli")
    typer = pytest.importorskip("typer")
    unknown = []
    tree = typer.main.get_command(cli.app)
    for words in named:
        command = tree
        for word in words:
            inner = getattr(command, "commands", None)
            if inner is not None and not word.startswith("-"):
                if word not in inner:
                    unknown.append(words)
                    break
                command = inner[word]
        known = {o for p in command.params for o in (*p.opts, *p.secondary_opts)}
        options = {word for word in words if word.startswith("--")} - {"--help"}
        unknown += [words] if options - known else []
    assert unknown == []


def test_the_readme_runs_programs_that_exist() -> None:
    named = named_commands("python")
    assert named
    assert [words for words in named if not (ROOT / words[0]).is_file()] == []
