"""Text and JSON as Postgres can hold them: what it cannot hold is escaped, and the column is marked.

Postgres refuses NUL and lone surrogates in text and jsonb, NaN and infinities in jsonb, and numbers beyond its
numeric type; one such value would stop every later batch. An escaped text has each backslash doubled, NUL and
surrogates as `\\u0000`, so that with the mark it can be read back exactly. JSON that does not parse becomes one
JSON string with its bytes escaped.
"""

from __future__ import annotations

import json
import re
from typing import NamedTuple

from ..events.records import Payload

_BAD = re.compile("[\x00\ud800-\udfff]")
_SUSPECT = re.compile(
    rb"\\u(?:0000|[dD][89a-fA-F])|NaN|Infinity|[0-9][eE][+-]?[0-9]{3}|[0-9]{1000}"
)
"""Bytes that JSON with something refused has, and little else: a half of a character is \\ud800 to \\udfff, high or low."""

NUMBER_DIGITS_MAX = 1_000
"""Digits of a JSON number that are passed on as a number; Postgres refuses more than about 130,000."""

EXPONENT_MAX = 7
"""Characters of an exponent that is read; a longer one is out of reach whatever it says."""


class Held(NamedTuple):
    """A value that Postgres can hold, and whether it had to be escaped for that."""

    value: str
    escaped: bool


def text(value: str) -> Held:
    """A text column's value."""
    if value.isascii():
        return Held(_escape(value), escaped=True) if "\0" in value else Held(value, escaped=False)
    if _BAD.search(value):
        return Held(_escape(value), escaped=True)
    return Held(value, escaped=False)


def is_plain(value: str) -> bool:
    """Whether Postgres can hold it as it is: what keys must be, since two keys may never become one."""
    return "\0" not in value and (value.isascii() or _BAD.search(value) is None)


def payload(data: Payload) -> Held:
    """A jsonb column's value: the user's JSON, or where it lies if it is not inline JSON."""
    if data.inline is None:
        return value(
            {
                "ref": data.ref,
                "encoding": data.encoding,
                "size": data.size,
                "digest": data.digest.hex(),
            }
        )
    if data.encoding != "json":
        return value({"encoding": data.encoding, "size": data.size, "digest": data.digest.hex()})
    return raw_json(data.inline)


def raw_json(stored: bytes) -> Held:
    """JSON as it was stored where Postgres reads it too; else escaped."""
    try:
        plain = stored.decode()
        parsed = json.loads(plain)
        if "\0" not in plain and _SUSPECT.search(stored) is None:
            return Held(plain, escaped=False)
        marks: list[None] = []
        clean = _clean(
            json.loads(plain, parse_float=_Number, parse_int=_Number, parse_constant=_Word), marks
        )
        return Held(json.dumps(clean if marks else parsed), escaped=bool(marks))
    except (ValueError, RecursionError):
        return Held(
            json.dumps(stored.decode("utf-8", "backslashreplace").replace("\0", "\\u0000")),
            escaped=True,
        )


def value(data: object) -> Held:
    """A jsonb column's value, from our own records."""
    plain = json.dumps(data)
    if _SUSPECT.search(plain.encode()) is None:
        return Held(plain, escaped=False)
    marks: list[None] = []
    return Held(json.dumps(_clean(data, marks)), escaped=bool(marks))


def opaque(held: str) -> Held:
    """A jsonb column's value that was refused all the same: its JSON text as one JSON string, which nothing can refuse."""
    return Held(json.dumps(_escape(held)), escaped=True)


class _Number(str):
    """A JSON number as it was written."""

    __slots__ = ()


class _Word(str):
    """NaN or an infinity, which are no JSON."""

    __slots__ = ()


def _clean(data: object, marks: list[None]) -> object:
    match data:
        case _Word():
            marks.append(None)
            return str(data)
        case _Number():
            return _number(data, marks)
        case str():
            held = text(data)
            if held.escaped:
                marks.append(None)
            return held.value
        case dict():
            return {_clean(str(key), marks): _clean(item, marks) for key, item in data.items()}
        case list() | tuple():
            return [_clean(item, marks) for item in data]
        case _:
            return data


def _number(written: str, marks: list[None]) -> object:
    """The number, or its text where Postgres would refuse it (too long, or an exponent out of reach)."""
    mantissa, _, exponent = written.lower().partition("e")
    digits = len(mantissa) + (
        abs(int(exponent))
        if exponent and len(exponent) <= EXPONENT_MAX
        else len(exponent) * NUMBER_DIGITS_MAX
    )
    if digits > NUMBER_DIGITS_MAX or (exponent and float(written) in (float("inf"), float("-inf"))):
        marks.append(None)
        return written
    return float(written) if exponent or "." in mantissa else int(written)


def _escape(value: str) -> str:
    return _BAD.sub(lambda bad: f"\\u{ord(bad[0]):04x}", value.replace("\\", "\\\\"))
