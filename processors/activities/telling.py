"""What is told of an exception: its type, its message, where it came from, and when it asks to be tried again.

All of it is foreign code, which may raise in its turn; and all of it is cut to what an event can hold.
"""

from __future__ import annotations

import traceback
from decimal import Decimal
from fractions import Fraction
from math import ceil
from typing import Any

from .hidden import Hidden

DETAIL_MAX = 4096
"""Bytes of traceback kept with a failure: enough for the frames of the tool, small enough for every event."""

MESSAGE_MAX = 1000
"""Characters of an exception's message that are kept."""

RETRY_AFTER_MS_MAX = 2**53
"""Far beyond every deadline, and no more than a record can hold."""

NUMBERS = frozenset({int, float, Decimal, Fraction})
"""What a tool may count milliseconds in: exactly these, since anything else is foreign code."""

FRAMES_MAX = 8
"""Innermost frames of a traceback: those are the tool's."""


def type_of(error: BaseException) -> str:
    """The name of its class, with its module where it is not a builtin."""
    kind = type(error)
    builtin = kind.__module__ == "builtins"
    return kind.__qualname__ if builtin else f"{kind.__module__}.{kind.__qualname__}"


def message_of(error: BaseException) -> str:
    """What the exception says; its own `__str__` may raise, which says something too."""
    try:
        return str(error)
    except Exception as second:  # noqa: BLE001 foreign code, called only to describe a failure
        return f"<its message raised {type(second).__name__}>"


def retry_after_of(error: BaseException) -> int | None:
    """When the tool asks to come back, in whole milliseconds, never sooner, as `RetryLater` and models' failures say it; a property could raise, so none is asked."""
    asked: Any = getattr(error, "__dict__", {}).get("retry_after_ms")
    if type(asked) not in NUMBERS:
        return None
    try:
        return ceil(asked) if 0 <= asked <= RETRY_AFTER_MS_MAX else None
    except ArithmeticError:  # Decimal("NaN")
        return None


def traceback_of(error: BaseException, hidden: Hidden) -> str:
    """The innermost frames, without values of variables and what is hidden; the end is kept where it is too long."""
    try:
        lines = traceback.format_exception(
            type(error), error, error.__traceback__, limit=-FRAMES_MAX
        )
    except Exception as second:  # noqa: BLE001 foreign __str__ and __repr__ are called for it
        return f"<its traceback raised {type(second).__name__}>"
    return cut(hidden.hide("".join(lines)))


def cut(text: str, bytes_max: int = DETAIL_MAX) -> str:
    """Its end, in so many bytes as a failure keeps."""
    stored = text.encode("utf-8", "backslashreplace")
    if len(stored) > bytes_max:
        stored = b"..." + stored[3 - bytes_max :]
    return stored.decode("utf-8", "ignore")
