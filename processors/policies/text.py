"""Cedar text as statements with the lines they begin at: the engine's own errors tell no line."""

from __future__ import annotations

import re
from dataclasses import dataclass

_TOKEN = re.compile(r'"(?:\\.|[^"\\])*"|//[^\n\r]*|;', re.DOTALL)


@dataclass(frozen=True, slots=True)
class Statement:
    """One policy as written; `line` counts from 1."""

    line: int
    text: str


def statements(text: str) -> list[Statement]:
    """The policies of a text, in order, each up to its semicolon; what follows the last one is one more, if it is any."""
    found, start = [], 0
    for token in _TOKEN.finditer(text):
        if token.group() == ";":
            found.append(_statement(text, start, token.end()))
            start = token.end()
    if _without_lead(text[start:]):
        found.append(_statement(text, start, len(text)))
    return found


def _statement(text: str, start: int, end: int) -> Statement:
    piece = text[start:end]
    lead = len(piece) - len(_without_lead(piece))
    return Statement(text.count("\n", 0, start + lead) + 1, piece[lead:])


def _without_lead(piece: str) -> str:
    """From the first thing that is neither space nor comment."""
    while True:
        stripped = piece.lstrip()
        if not stripped.startswith("//"):
            return stripped
        piece = stripped.partition("\n")[2]
