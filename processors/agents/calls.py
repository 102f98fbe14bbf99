"""Arguments of a model's tool calls: the JSON object in what it wrote, or the text where there is none."""

from __future__ import annotations

import json
from math import isfinite
from typing import Any, NoReturn

DEPTH_MAX = 32
"""Levels of lists and objects inside of each other; what is stored has to be read back by others than Python."""


def read_arguments(text: str) -> dict[str, Any] | str:
    """The object, or the text as it is: no JSON, no object, or one that no log could hold (NaN, too deep)."""
    if not text.strip():
        return {}  # a tool without parameters; endpoints send nothing then
    try:
        value = json.loads(text, parse_float=_finite, parse_constant=_no_number)
    except (ValueError, RecursionError):
        return text
    if not isinstance(value, dict) or _deeper(value, DEPTH_MAX):
        return text
    return value


def written_arguments(arguments: dict[str, Any] | str) -> str:
    """As an endpoint that wants text is told of them."""
    return arguments if isinstance(arguments, str) else json.dumps(arguments)


def _finite(text: str) -> float:
    number = float(text)
    if not isfinite(number):
        raise ValueError(text)
    return number


def _no_number(text: str) -> NoReturn:
    raise ValueError(text)


def _deeper(value: Any, levels: int) -> bool:
    if not isinstance(value, dict | list):
        return False
    inner = value.values() if isinstance(value, dict) else value
    return levels == 0 or any(_deeper(one, levels - 1) for one in inner)
