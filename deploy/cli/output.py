"""Words for people on a terminal, JSON for scripts: reads write to stdout, everything else to stderr."""

from __future__ import annotations

import json
import os
import platform
import sys
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

from ..telling.text import CELL_MAX, plain, printable

COLOURS = (36, 33, 32, 35, 34, 31)


def write_json(value: object) -> None:
    """One JSON value on stdout, on one line; a lone surrogate, which UTF-8 has not, stays an escape."""
    text = json.dumps(value, default=plain, ensure_ascii=False)
    sys.stdout.write(text.encode("utf-8", "backslashreplace").decode() + "\n")
    sys.stdout.flush()


def note(line: str, *, quiet: bool = False) -> None:
    """One line for people, on stderr."""
    if not quiet:
        sys.stderr.write(line + "\n")
        sys.stderr.flush()


def table(headings: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """A table on stdout: aligned columns, no frames, whole lines, so that grep and awk work on it."""
    cells = [[_cell(value) for value in row] for row in rows]
    if not cells:
        return
    widths = [
        max(len(heading), *(len(row[n]) for row in cells)) for n, heading in enumerate(headings)
    ]
    sys.stdout.write(_bold(_line([h.upper() for h in headings], widths)) + "\n")
    for row in cells:
        sys.stdout.write(_line(row, widths) + "\n")
    sys.stdout.flush()


def facts(pairs: Iterable[tuple[str, object]]) -> None:
    """Names and values, one per line, on stdout; empty ones are left out."""
    shown = [(name, _cell(value, limit=10_000)) for name, value in pairs if value not in (None, "")]
    width = max((len(name) for name, _ in shown), default=0)
    for name, value in shown:
        sys.stdout.write(f"{name:<{width}}  {value}\n")
    sys.stdout.flush()


def prefixed(name: str, line: str) -> None:
    """A child's log line, with the child's name before it."""
    shown = f"{name:<16}"
    if _colours(sys.stderr):
        shown = f"\x1b[{COLOURS[sum(name.encode()) % len(COLOURS)]}m{shown}\x1b[0m"
    sys.stderr.write(f"{shown} {line}\n")
    sys.stderr.flush()


def block(text: str) -> None:
    """A text of several lines on stdout, indented, each safe for a terminal."""
    for line in text.strip("\n").split("\n"):
        safe = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in line)
        sys.stdout.write(f"  {safe}\n")


def versions(*, as_json: bool) -> None:
    """What runs here."""
    from importlib.metadata import version

    found = {
        "wakeful": version("wakeful"),
        "python": platform.python_version(),
        "confluent-kafka": version("confluent-kafka"),
    }
    if as_json:
        write_json(found)
    else:
        sys.stdout.write("\n".join(f"{name} {value}" for name, value in found.items()) + "\n")


def _cell(value: object, limit: int = CELL_MAX * 2) -> str:
    if value is None:
        return "-"
    if isinstance(value, datetime):
        return value.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S")
    if isinstance(value, (bool, dict, list)):  # as JSON, and Postgres, have it
        return printable(json.dumps(value, default=str, ensure_ascii=False), limit)
    if isinstance(value, bytes):
        return value.hex()
    return printable(str(value), limit)


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    return "  ".join(f"{cell:<{w}}" for cell, w in zip(cells, widths, strict=True)).rstrip()


def _bold(line: str) -> str:
    return f"\x1b[1m{line}\x1b[0m" if _colours(sys.stdout) else line


def _colours(stream: Any) -> bool:
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
