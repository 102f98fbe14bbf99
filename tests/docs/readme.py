"""The README, and the page that goes on with its tour, cut into their parts."""

import re
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "README.md").read_text(encoding="utf-8")
SETTINGS = (ROOT / "docs" / "settings.md").read_text(encoding="utf-8")
TOUR = (ROOT / "docs" / "tour.md").read_text(encoding="utf-8")


@dataclass
class Shown:
    """A command, and what the README says that it prints."""

    command: str
    output: list[str] = field(default_factory=list)


def blocks(language: str, text: str = TEXT) -> list[str]:
    """The fenced blocks of a language, in order."""
    found = re.findall(r"^```(\w*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return [block for name, block in found if name == language]


def tour() -> list[Shown]:
    """The commands of the console blocks of both pages, with their output."""
    shown: list[Shown] = []
    for line in "".join([*blocks("console"), *blocks("console", TOUR)]).splitlines():
        if line.startswith("$ "):
            shown.append(Shown(line[2:]))
        else:
            shown[-1].output.append(line)
    return shown
