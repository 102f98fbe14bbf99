"""docs/ARCHITECTURE.md says what the code says."""

import re
from pathlib import Path

import pytest

from wakeful.events.topics import Topics
from wakeful.events.transitions import mermaid

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "ARCHITECTURE.md").read_text(encoding="utf-8")
DAY_MS = 24 * 3_600_000


def test_the_lifecycle_is_drawn_from_its_table() -> None:
    drawn = re.search(r"```mermaid\n(.*?)\n```", TEXT, re.DOTALL)
    assert drawn is not None
    assert drawn.group(1) == mermaid(), "paste the output of wakeful.events.transitions.mermaid()"


def kept(config: dict[str, str]) -> str:
    if config["cleanup.policy"] == "compact":
        return "compacted"
    days = int(config["retention.ms"]) // DAY_MS
    return "for ever" if days < 0 else f"{days} day{'s' if days > 1 else ''}"


def test_the_topics_are_those_that_apply_creates() -> None:
    topics = Topics("n")
    specs = topics.specs(["q"], 4)
    made = {
        spec.name.removeprefix("n.").removesuffix(".v1").replace(".q", ".<queue>"): kept(
            spec.config
        )
        for spec in specs
        if not spec.name.endswith(".once.v1")
    }
    section = TEXT.split("## The topics")[1].split("## ")[0]
    rows = [
        [cell.strip() for cell in row.strip("|").split("|")]
        for row in section.splitlines()
        if row.startswith("| `")
    ]
    assert {re.match(r"`([^`]+)`", row[0]).group(1): row[3] for row in rows} == made


@pytest.mark.parametrize("path", re.findall(r"\]\(([^)#]+)\)", TEXT))
def test_its_links_lead_somewhere(path: str) -> None:
    assert (ROOT / "docs" / path).exists()


def test_the_modules_that_it_names_are_there() -> None:
    named = re.findall(r"`(\w+/[\w/]+\.\w+)`", TEXT)
    assert len(named) > 20
    assert [name for name in named if not (ROOT / name).is_file()] == []


def test_its_folders_are_those_that_are_there() -> None:
    named = set(re.findall(r"^\| `(\w+)/`", TEXT, re.MULTILINE))
    linked = {path.name for path in (ROOT / "src" / "wakeful").iterdir() if path.is_symlink()}
    assert named == linked
