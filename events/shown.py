"""A user's value in a message: what its `repr` says, in one short line, whatever that does."""

from __future__ import annotations

SHOWN_MAX = 200
"""Characters of a value in a message."""


def shown(value: object, length_max: int = SHOWN_MAX) -> str:
    """The value's `repr`, cut; where that raises or never ends, its type. Raises nothing itself."""
    try:
        text = repr(value[: length_max + 1] if isinstance(value, str | bytes) else value)
    except Exception as error:  # noqa: BLE001 - a user's own class may raise anything
        kind = type(value).__name__
        if isinstance(value, int):
            return f"<{kind} of {value.bit_length()} bits>"
        return f"<{kind}, whose repr raises {type(error).__name__}>"
    line = "\\n".join(text.splitlines())
    return line if len(line) <= length_max else line[: length_max - 1] + "…"


def worded(error: BaseException, length_max: int = SHOWN_MAX) -> str:
    """The error's type and the first line of what it says, cut. Raises nothing itself."""
    kind = type(error).__name__
    try:
        lines = str(error).splitlines()
    except Exception:  # noqa: BLE001 - see above
        return kind
    text = f"{kind}: {lines[0]}" if lines else kind
    return text if len(text) <= length_max else text[: length_max - 1] + "…"
