"""The state that a turn leaves: as it is stored, once it is certain that the next turn can read it back."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any

from pydantic import BaseModel, TypeAdapter, ValidationError

from ...events.payloads import canonical_json
from ...events.shown import shown, worded
from ..activities.definitions import problems
from ..stored_json import Path, field_at, json_value, lost_number, read_json
from .errors import Unstorable


def leaving(kind: TypeAdapter[Any], state: Any) -> Any:
    """The state as JSON-able values; `Unstorable` says which field would be lost, and what to do.

    It is written, read back and written again: what comes of it has to be the same. Once per turn, or stretch.
    """
    try:
        value = json_value(kind, state)
        data = canonical_json(value)
        lost = lost_number(kind, state, value) if b"null" in data else None
    except Exception as error:
        raise Unstorable(_why_unwritten(kind, state, error)) from error
    if lost is not None:
        raise Unstorable(lost)
    try:
        read = read_json(kind, data)
        again = json_value(kind, read)
    except ValidationError as error:
        raise Unstorable(
            f"it would not be read back ({problems(error)}): give that field a value of its type "
            "(validate_assignment=True checks it at once), or a type that reads what it writes"
        ) from error
    except Exception as error:
        raise Unstorable(f"it would not be read back ({worded(error)})") from error
    different = _difference(value, again, ())
    if different is None:
        _check_kept(read, state)
    elif not _equal(read, state):
        at, one, other = different
        raise Unstorable(
            f"{field_at(at)} is written as {one} and would be read back as {other}: give it a value of its type "
            "(validate_assignment=True checks it at once), or a type that reads what it writes"
        )
    return value


def _check_kept(read: Any, state: Any) -> None:
    """Refuses a state with fields that its type does not have: they were not even written."""
    if _equal(read, state):
        return
    at = _dropped_at(read, state, ())
    if at is not None:
        raise Unstorable(
            f"{field_at(at)} is of a subclass and would be dropped: declare the type of what holds it as that "
            "subclass, or as a union with it"
        )


def _dropped_at(read: Any, state: Any, at: Path) -> Path | None:
    """Where the state has a field that what was read back has not, since only a subclass of its type has it."""
    kept, had = _fields(read), _fields(state)
    if kept is not None and had is not None and isinstance(state, type(read)):
        missing = next((name for name in had if name not in kept), None)
        if missing is not None:
            return (*at, missing)
        pairs = _pairs(kept, had)
    else:
        pairs = _pairs(read, state)
    found = (_dropped_at(one, other, (*at, key)) for key, one, other in pairs)
    return next((place for place in found if place is not None), None)


def _fields(value: Any) -> dict[str, Any] | None:
    """By name, of a model or a dataclass, those that are to be written."""
    if isinstance(value, BaseModel):
        told = ((n, of) for n, of in type(value).model_fields.items() if n in value.__dict__)
        own = {n: value.__dict__[n] for n, of in told if not of.exclude}
        return {**own, **(value.__pydantic_extra__ or {})}
    if is_dataclass(value) and not isinstance(value, type):
        return {one.name: getattr(value, one.name, None) for one in fields(value)}
    return None


def _why_unwritten(kind: TypeAdapter[Any], state: Any, error: Exception) -> str:
    """Names the field, where one by itself cannot be written either."""
    names = getattr(type(state), "__pydantic_fields__", None) or getattr(
        type(state), "__dataclass_fields__", {}
    )
    where = "it"
    for name in names:
        try:
            canonical_json(kind.dump_python(state, mode="json", by_alias=True, include={name}))
        except Exception as own:  # noqa: BLE001 - user types decide what raises
            where, error = f"field {name!r}", own
            break
    return f"{where} cannot be stored as JSON ({worded(error)}): keep there what JSON can hold"


def _difference(one: Any, other: Any, at: Path) -> tuple[Path, str, str] | None:
    """The first place where two JSON values differ; the order of a list is none, since sets have no order."""
    if one == other:
        return None
    if isinstance(one, list) and isinstance(other, list) and _sorted(one) == _sorted(other):
        return None
    if type(one) is type(other) and isinstance(one, dict | list) and len(one) == len(other):
        pairs = _pairs(one, other)
        if isinstance(one, list) or one.keys() == other.keys():
            found = (_difference(a, b, (*at, key)) for key, a, b in pairs)
            return next((place for place in found if place is not None), None)
    if isinstance(one, dict) and isinstance(other, dict):
        key = next(iter(one.keys() ^ other.keys()))
        told = [shown(side[key]) if key in side else "nothing" for side in (one, other)]
        return (*at, key), told[0], told[1]
    return at, shown(one), shown(other)


def _pairs(one: Any, other: Any) -> list[tuple[object, Any, Any]]:
    if isinstance(one, dict) and isinstance(other, dict):
        return [(key, one[key], other[key]) for key in one if key in other]
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return [(i, a, b) for i, (a, b) in enumerate(zip(one, other, strict=False))]
    return []


def _sorted(values: list[Any]) -> list[bytes]:
    return sorted(canonical_json(value) for value in values)


def _equal(read: Any, state: Any) -> bool:
    """Whether the user's own types say so: a computed field may differ from one moment to the next."""
    try:
        return bool(read == state)
    except Exception:  # noqa: BLE001 - user types decide what raises
        return False
