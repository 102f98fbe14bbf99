"""Server-sent events as bytes; see the HTML standard, "Server-sent events"."""

from __future__ import annotations

import json
from typing import Any

from ...telling.text import plain

HEARTBEAT = b": heartbeat\n\n"

RETRY_MS = 1_000
"""How long a client waits before it comes back."""

OPENING = b"retry: %d\n\n" % RETRY_MS
"""Sent at once, so that whoever asked knows that the stream is open."""


def data_of(value: object) -> bytes:
    """The `data` line of one JSON value; a lone surrogate, which UTF-8 has not, stays an escape."""
    text = json.dumps(value, default=plain, ensure_ascii=False)
    return b"data: " + text.encode("utf-8", "backslashreplace") + b"\n"


def frame(kind: str, data: bytes, id_: str | None = None) -> bytes:
    """One event: its type, a line made by `data_of`, and its id where clients may come back to it."""
    identified = b"" if id_ is None else f"id: {id_}\n".encode("ascii")
    return b"event: " + kind.encode("ascii") + b"\n" + identified + data + b"\n"


def told(kind: str, **members: Any) -> bytes:
    """One event of the stream itself, which has no id."""
    return frame(kind, data_of(members))


def reached(id_: str) -> bytes:
    """Moves the id that a client comes back with, and shows nothing."""
    return f"id: {id_}\n\n".encode("ascii")
