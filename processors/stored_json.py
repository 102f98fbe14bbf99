"""User values to stored JSON and back, also where their text holds lone surrogates, which customers and models send.

pydantic's own JSON reader and writer refuse those; Python's do not. They are tried first, since they are faster.
"""

from __future__ import annotations

import json
from collections import deque
from math import isfinite
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError
from pydantic_core import PydanticSerializationError, to_json

T = TypeVar("T")

Path = tuple[object, ...]

NOT_FINITE = (b"NaN", b"Infinity")

OTHER = ""
"""The kind of a list, an object and null, which any type may stand for."""

SHOWN_MAX = 60
"""Characters of a value in a sentence."""

ANY: TypeAdapter[Any] = TypeAdapter(Any)
"""Writes a value by what it is, where no type says more."""


def read_json(kind: TypeAdapter[T], data: bytes) -> T:
    """The value of this type in stored JSON; `ValidationError` where it does not fit."""
    try:
        return kind.validate_json(data)
    except ValidationError as error:
        if error.errors(include_url=False)[0]["type"] != "json_invalid":
            raise
        try:
            value = json.loads(data)
        except ValueError:
            raise error from None
        return kind.validate_python(value)


def json_value(kind: TypeAdapter[T], value: T) -> Any:
    """The value as JSON-able values, under its fields' aliases; raises what its serialisers raise."""
    try:
        return json.loads(kind.dump_json(value, by_alias=True, warnings=False))
    except PydanticSerializationError:
        return kind.dump_python(value, mode="json", by_alias=True, warnings=False)


def lost_number(kind: TypeAdapter[T], value: T, written: Any) -> str | None:
    """Which field of the value holds a NaN or an infinity, and what to do; nothing where none is lost in `written`, its JSON.

    pydantic writes null for them where no type says that a number is there. So the value is written a second time, as
    Python, where its JSON has a null to explain, and only there.
    """
    if not _may_hold(written, (b"null", *NOT_FINITE)):
        return None
    try:
        given = kind.dump_python(value, by_alias=True, warnings=False)
        at = _lost_at(given, written, ()) if _may_hold(given, NOT_FINITE) else None
    except Exception:  # noqa: BLE001 - user types decide what raises; this way of writing them is ours
        return None
    if at is None:
        return None
    return (
        f"{field_at(at)} holds a number that JSON does not have (NaN or an infinity) and that nobody could "
        "read back: put None there, or a finite number"
    )


def changed_kind(given: Any, written: Any) -> str | None:
    """Which value of a JSON is of another kind in `written`, what was made of it; nothing where each kept its own.

    A kind is that of JSON, and whole numbers are one of their own only where something was cut off: 5 and 5.0 are the
    same. What has another form (a list, an object, null, a text that was put in order) is its type's own affair, and so is
    what is only in one of them.
    """
    found = _changed_at(given, written, ())
    if found is None:
        return None
    at, one, other = found
    return f"{field_at(at)} is {_shown(one)} and would become {_shown(other)}"


def field_at(at: Path) -> str:
    """How a sentence names the place in a value."""
    return f"field {'.'.join(map(str, at))!r}" if at else "it"


def _may_hold(value: Any, words: tuple[bytes, ...]) -> bool:
    """Whether one of them stands in its JSON, be it in a text; far quicker than to walk through a large value."""
    try:
        data = to_json(value, inf_nan_mode="constants", serialize_unknown=True)
    except (PydanticSerializationError, UnicodeError, ValueError):  # half a character, say
        return True
    return any(word in data for word in words)


def _changed_at(given: Any, written: Any, at: Path) -> tuple[Path, Any, Any] | None:
    if isinstance(given, dict) and isinstance(written, dict):
        pairs = [(name, value, written[name]) for name, value in given.items() if name in written]
    elif isinstance(given, list) and isinstance(written, list) and len(given) == len(written):
        before, after = sorted(map(_kind, given)), sorted(map(_kind, written))
        if before == after and OTHER not in before:
            return None  # of a set the order is no one's
        pairs = list(zip(range(len(given)), given, written, strict=True))
    else:
        return (at, given, written) if _is_changed(given, written) else None
    for key, one, other in pairs:
        found = _changed_at(one, other, (*at, key))
        if found is not None:
            return found
    return None


def _is_changed(given: Any, written: Any) -> bool:
    """A fraction that was rounded to one with fewer places is its type's own; one that became an integer is cut off."""
    one, other = _kind(given), _kind(written)
    if OTHER in (one, other):
        return False
    if {one, other} <= {"whole", "fraction"}:
        return one == "fraction" and isinstance(written, int)
    return one != other


def _kind(value: Any) -> str:
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, str):
        return "text"
    if isinstance(value, int | float):
        return "whole" if isinstance(value, int) or value.is_integer() else "fraction"
    return OTHER


def _shown(value: Any) -> str:
    shown = json.dumps(value)
    return shown if len(shown) <= SHOWN_MAX else f"{shown[: SHOWN_MAX - 1]}…"


def _lost_at(value: Any, written: Any, at: Path) -> Path | None:
    if isinstance(value, float) and not isfinite(value):
        return None if isinstance(written, str) else at
    for key, one, other in _places(value, written):
        found = _lost_at(one, other, (*at, key))
        if found is not None:
            return found
    return None


def _places(value: Any, written: Any) -> list[tuple[object, Any, Any]]:
    """What is written where, in order: keys of any type become texts, and a set a list."""
    if isinstance(value, dict) and isinstance(written, dict) and len(value) == len(written):
        pairs = zip(written, value.values(), written.values(), strict=True)
        return list(pairs)
    if isinstance(written, list) and isinstance(value, list | tuple | set | frozenset | deque):
        return [(i, a, b) for i, (a, b) in enumerate(zip(value, written, strict=False))]
    return []
