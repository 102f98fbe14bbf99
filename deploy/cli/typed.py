"""What a person typed: text, JSON and stdin, refused in one line where it cannot be what it should."""

from __future__ import annotations

import json
import math
import re
import sys
from typing import Any

from ..exits import Exit, Stopped

SHOWN_MAX = 60
"""Characters of what was typed that an error repeats."""

SECONDS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}

_AGO = re.compile(r"([1-9][0-9]{0,5})([smhd])")


def text(what: str, given: str) -> str:
    """A text; '-' reads it from stdin. Python lets bytes that are no UTF-8 into arguments as lone surrogates."""
    if given == "-":
        return _stdin()
    try:
        given.encode()
    except UnicodeEncodeError as error:
        raise Stopped(
            Exit.USAGE, f"{what} is not UTF-8 (character {error.start}): convert it first"
        ) from None
    return given


def attributes(given: list[str]) -> dict[str, Any]:
    """By name, of `NAME=VALUE`: a number or a boolean where it is written as JSON has it, else a text."""
    found: dict[str, Any] = {}
    for one in given:
        name, equals, value = one.partition("=")
        if not equals or name in found:
            why = "is given twice" if name in found else "is not NAME=VALUE"
            raise Stopped(
                Exit.USAGE,
                f"attribute {one[:SHOWN_MAX]!a} {why}: write it like customer=ivo, each name once",
            )
        found[name] = _scalar(text("--attribute", value))
    return found


def _scalar(value: str) -> Any:
    try:
        found = json.loads(value)
    except ValueError:
        return value
    return found if isinstance(found, bool | int | float) else value


def json_value(what: str, given: str) -> Any:
    """A JSON value; '-' reads it from stdin."""
    found = text(what, given)
    if not found.strip():
        raise Stopped(Exit.USAGE, f"{what} is empty: write JSON, such as null")
    try:
        return json.loads(
            found,
            parse_constant=_no_constant,
            parse_float=_finite,
            object_pairs_hook=_each_name_once,
        )
    except OverflowError as error:
        raise Stopped(Exit.USAGE, f"{what}: {error}: give a smaller number, or a text") from None
    except (ValueError, RecursionError) as error:
        shown = found[:SHOWN_MAX]
        raise Stopped(Exit.USAGE, f"{what} is not JSON ({error}): {shown!r}") from None


def _each_name_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Of two values for one name, one would be taken, and a reader may have read the other."""
    made = dict(pairs)
    if len(made) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in made if names.count(name) > 1)
        raise ValueError(f"it has {twice!r} twice")
    return made


def _finite(number: str) -> float:
    """JSON has a number of any size, and what reads it has not."""
    made = float(number)
    if math.isinf(made):
        shown = number if len(number) <= SHOWN_MAX else f"{number[: SHOWN_MAX - 1]}…"
        raise OverflowError(f"{shown} is more than a number can hold, {sys.float_info.max:.1e}")
    return made


def _no_constant(name: str) -> None:
    raise ValueError(f"it has no {name}")


def ago_ms(what: str, given: str) -> int:
    """A length of time such as 30s, 10m, 2h or 7d, in milliseconds."""
    match = _AGO.fullmatch(given)
    if match is None:
        raise Stopped(Exit.USAGE, f"{what} {given!r}: write it like 30s, 10m, 2h or 7d")
    return int(match[1]) * SECONDS[match[2]] * 1000


def wait_or_detach(*, wait: bool, detach: bool) -> None:
    """Refuses both at once."""
    if wait and detach:
        raise Stopped(Exit.USAGE, "--wait and --detach contradict each other: give one")


def _stdin() -> str:
    try:
        return sys.stdin.buffer.read().decode()
    except UnicodeDecodeError as error:
        raise Stopped(
            Exit.USAGE, f"stdin is not UTF-8 (byte {error.start}: {error.reason}): convert it first"
        ) from None
