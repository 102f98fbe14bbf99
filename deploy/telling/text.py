"""Short texts for people: times, lengths of time, and what users and models wrote, made safe for one line."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

CELL_MAX = 60
"""Characters of a cell that is not a terminal's: longer ones are cut, `--json` has all."""

MINUTE_S = 60


def counted(count: int, what: str) -> str:
    """`1 letter`, `2 letters`."""
    return f"{count} {what}{'s' * (count != 1)}"


def when(at_ms: int | None) -> str:
    """A log time as people read it, in UTC."""
    if at_ms is None:
        return ""
    try:
        at = datetime.fromtimestamp(at_ms / 1000, UTC)
    except (OverflowError, OSError, ValueError):
        return f"{at_ms} ms"
    return at.strftime("%Y-%m-%d %H:%M:%S")


def span(ms: int) -> str:
    """A length of time as people say it: its two largest units."""
    seconds = ms // 1000
    if seconds < MINUTE_S:
        return f"{ms / 1000:.1f} s"
    units = [("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1)]
    first = next(n for n, (_, unit) in enumerate(units) if seconds >= unit)
    (name, unit), (smaller, part) = units[first : first + 2]
    rest = seconds % unit // part
    return f"{seconds // unit} {name}" + (f" {rest} {smaller}" if rest else "")


def last_line(text: str) -> str:
    """The line of a traceback that says what happened; a text of one line is that line."""
    lines = [line for line in text.strip().splitlines() if line.strip()]
    return printable(lines[-1], 500) if lines else ""


def bare(value: Any) -> str:
    """A short value as JSON has it, a text without its quotes: what one looks for it by."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def shown_text(value: Any, limit: int = CELL_MAX) -> str:
    """JSON data as a short text: what was said, where it is a message with a text."""
    if isinstance(value, dict) and set(value) == {"text"} and isinstance(value["text"], str):
        value = value["text"]
    text = value if isinstance(value, str) else json.dumps(value, default=plain, ensure_ascii=False)
    return printable(text, limit)


def printable(text: str, limit: int) -> str:
    """One line without control characters: what users and models write must not steer a terminal."""
    flat = " ".join(text.split())
    safe = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in flat)
    return safe if len(safe) <= limit else safe[: limit - 1] + "…"


def plain(value: Any) -> Any:
    """A value as JSON has it: bytes as hex, times as ISO 8601."""
    from datetime import datetime

    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, datetime):
        return value.isoformat()
    raise TypeError(f"{type(value).__name__} has no JSON form")
