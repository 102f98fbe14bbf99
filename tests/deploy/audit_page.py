"""The page about audits as what it is: commands, one after another, and what they print."""

from __future__ import annotations

import re
import sqlite3
import subprocess
from collections.abc import Iterator
from pathlib import Path
from shlex import split

PAGE = Path(__file__).parents[2] / "docs" / "audit.md"

VOLATILE = re.compile(r"\b[0-9a-f]{12,64}\b|\d+|\bops\b")
"""Hashes, times, offsets, ids, and the namespace of whoever runs it."""


def commands() -> Iterator[tuple[str, list[str]]]:
    """Each command of the page, with the lines that it prints; none of them where the page leaves them out (`…`)."""
    for block in re.findall(r"```console\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL):
        for told in block.removeprefix("$ ").split("\n$ "):
            command, *lines = told.strip("\n").split("\n")
            yield command, [line for line in lines if line not in ("", "…")]


def plain(text: str, namespace: str) -> str:
    """The text without what differs from run to run."""
    return VOLATILE.sub("N", text.replace(namespace, "ops"))


def asked(command: str, folder: Path) -> str:
    """What a command prints that is none of Wakeful's."""
    words = split(command)
    if words[0] == "sqlite3":
        connection = sqlite3.connect(folder / words[1])
        try:
            rows = connection.execute(words[2]).fetchall()
        finally:
            connection.close()
        return "\n".join("|".join("" if v is None else str(v) for v in row) for row in rows)
    done = subprocess.run(
        command, shell=True, cwd=folder, capture_output=True, text=True, check=True
    )
    return done.stdout
