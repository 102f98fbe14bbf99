"""JSON as it may come from outside: UTF-8, one meaning for every reader, and no deeper than what is stored.

Refused, with the place, is what another reader would see otherwise (a name given twice, NaN, half a character) and what
nobody could store (nesting without end).
"""

from __future__ import annotations

import json
import math
from typing import Any

from ...events.payloads import DEPTH_MAX
from .problems import Problem

BODY_DEPTH_MAX = DEPTH_MAX + 2
"""Levels of a request: the user's data, and the object that it is in."""

SHOWN_MAX = 60
"""Characters of a stranger's name in a sentence."""


class _Twice(ValueError):
    """A name stands twice in one object."""


def load_strict(body: bytes) -> Any:
    """The value; `Problem` 400 `malformed_json` says what is wrong, and where."""
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError as error:
        raise _malformed(f"it is not UTF-8 at byte {error.start}: {error.reason}") from None
    try:
        value = json.loads(text, object_pairs_hook=_once, parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        told = f"line {error.lineno}, column {error.colno}: {error.msg.lower()}"
        raise _malformed(told) from None
    except RecursionError:
        raise _malformed(f"it is nested deeper than {BODY_DEPTH_MAX} levels") from None
    except ValueError as error:  # a name twice, a constant, a number of thousands of digits
        raise _malformed(str(error).partition(";")[0].lower()) from None
    _check(value, "", 0)
    return value


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise _Twice(f"the name {_shown(twice)} is given twice in one object")
    return found


def _no_constant(text: str) -> None:
    raise ValueError(f"{text} is no JSON")


def _check(value: Any, path: str, depth: int) -> None:
    if depth > BODY_DEPTH_MAX:
        raise _malformed(f"it is nested deeper than {BODY_DEPTH_MAX} levels")
    match value:
        case str():
            _check_text(value, path)
        case float() if not math.isfinite(value):
            raise _malformed(f"the number at {path or '/'} is too large: send it as a text")
        case dict():
            for name, each in value.items():
                _check_text(name, path)
                _check(each, f"{path}/{_shown(name)[1:-1]}", depth + 1)
        case list():
            for number, each in enumerate(value):
                _check(each, f"{path}/{number}", depth + 1)
        case _:
            pass


def _check_text(text: str, path: str) -> None:
    if text.isascii():
        return
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise _malformed(
            f"the text at {path or '/'} has half of a character (a lone surrogate) at {error.start}"
        ) from None


def _shown(name: str) -> str:
    return ascii(name[:SHOWN_MAX])


def _malformed(told: str) -> Problem:
    return Problem(400, "malformed_json", f"the body is not JSON that can be taken: {told}")
