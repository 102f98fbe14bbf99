"""A user's value in a message: what its `repr` says, in one short line, whatever that does."""

from __future__ import annotations

from collections.abc import Callable

from .errors import OwnSignal

SHOWN_MAX = 200
"""Characters of a value in a message."""

name_of: Callable[[type], str] = type.__dict__["__name__"].__get__
"""A class's name, past its metaclass, which may have its own and raise."""


def shown(value: object, length_max: int = SHOWN_MAX) -> str:
    """The value's `repr`, cut; where that raises or never ends, its type. Raises nothing of theirs."""
    try:
        text = repr(value[: length_max + 1] if isinstance(value, str | bytes) else value)
    except OwnSignal:
        raise
    except BaseException as error:  # noqa: BLE001 - a user's own class may raise anything, `SystemExit` included
        kind = name_of(type(value))
        if isinstance(value, int):
            return f"<{kind} of {value.bit_length()} bits>"
        return f"<{kind}, whose repr raises {name_of(type(error))}>"
    line = "\\n".join(text.splitlines())
    return line if len(line) <= length_max else line[: length_max - 1] + "…"


def worded(error: BaseException, length_max: int = SHOWN_MAX) -> str:
    """The error's type and the first line of what it says, cut. Raises nothing of theirs."""
    kind = name_of(type(error))
    try:
        lines = str.splitlines(str(error))
    except OwnSignal:
        raise
    except BaseException:  # noqa: BLE001 - see above
        return kind
    text = f"{kind}: {lines[0]}" if lines else kind
    return text if len(text) <= length_max else text[: length_max - 1] + "…"


def said(error: BaseException) -> str:
    """All that the error says; where that raises, what it raises. Raises nothing of theirs."""
    try:
        return str.__str__(str(error))
    except OwnSignal:
        raise
    except BaseException as second:  # noqa: BLE001 - see above
        return f"<its message raised {name_of(type(second))}>"
