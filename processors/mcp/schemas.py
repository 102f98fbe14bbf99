"""JSON schemas as types: so that arguments are checked where a call is made, which is in a processor, without the server.

The kinds, names, bounds and choices that schemas of tools are made of are checked; what goes beyond (patterns, formats,
conditions) is left to the server, which has the last word anyway. No value is changed: `"5"` is no number here.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from operator import or_
from typing import Annotated, Any, Literal, NotRequired, Required

from pydantic import ConfigDict, Field, StrictBool, StrictFloat, StrictInt, StrictStr, TypeAdapter
from typing_extensions import TypedDict

DEPTH_MAX = 12
"""Schemas inside schemas that are followed; what lies deeper is left to the server."""

_typed_dict: Any = TypedDict
"""Called with fields that are data, which type checkers do not follow."""

_BOUNDS = {
    "string": {"minLength": "min_length", "maxLength": "max_length"},
    "array": {"minItems": "min_length", "maxItems": "max_length"},
    "number": {
        "minimum": "ge",
        "maximum": "le",
        "exclusiveMinimum": "gt",
        "exclusiveMaximum": "lt",
    },
}
_BOUNDS["integer"] = _BOUNDS["number"]

_SCALARS: dict[str, Any] = {
    "string": StrictStr,
    "integer": StrictInt,
    "number": StrictInt | StrictFloat,
    "boolean": StrictBool,
    "null": None,
}


def arguments_of(name: str, schema: Mapping[str, Any]) -> TypeAdapter[dict[str, Any]]:
    """What a tool of this schema takes, by name. What it does not name is refused, unless it says that more may come."""
    more = schema.get("additionalProperties", False)
    return TypeAdapter(_object(name, schema, schema, DEPTH_MAX, more=more is not False))


def _type(schema: Any, root: Mapping[str, Any], depth: int) -> Any:
    if not isinstance(schema, Mapping) or depth == 0:
        return Any
    if "$ref" in schema:
        return _type(_referred(schema["$ref"], root), root, depth - 1)
    if "const" in schema:
        return _choice([schema["const"]])
    if isinstance(schema.get("enum"), list):
        return _choice(schema["enum"])
    for word in ("anyOf", "oneOf"):
        if isinstance(schema.get(word), list):
            return _one_of([_type(each, root, depth - 1) for each in schema[word]])
    kind = schema.get("type")
    if isinstance(kind, list):
        return _one_of([_of_kind(each, schema, root, depth) for each in kind])
    return _of_kind(kind, schema, root, depth)


def _of_kind(kind: Any, schema: Mapping[str, Any], root: Mapping[str, Any], depth: int) -> Any:
    if kind == "object":
        if isinstance(schema.get("properties"), Mapping):
            more = schema.get("additionalProperties", True)
            return _object("object", schema, root, depth - 1, more=more is not False)
        return dict[str, Any]
    if kind == "array":
        found: Any = list[_type(schema.get("items"), root, depth - 1)]  # type: ignore[misc]
    elif isinstance(kind, str) and kind in _SCALARS:
        found = _SCALARS[kind]
    else:
        return Any
    bounds = {
        ours: schema[theirs]
        for theirs, ours in _BOUNDS.get(kind, {}).items()
        if isinstance(schema.get(theirs), int | float) and not isinstance(schema[theirs], bool)
    }
    return Annotated[found, Field(**bounds)] if bounds else found


def _object(
    name: str, schema: Mapping[str, Any], root: Mapping[str, Any], depth: int, *, more: bool
) -> Any:
    required = schema.get("required", ())
    fields = {
        field: Required[kind] if field in required else NotRequired[kind]
        for field, kind in (
            (field, _type(each, root, depth))
            for field, each in schema.get("properties", {}).items()
        )
    }
    shape = _typed_dict(name, fields)
    shape.__pydantic_config__ = ConfigDict(extra="allow" if more else "forbid")
    return shape


def _choice(values: list[Any]) -> Any:
    """One of these; what `Literal` cannot hold is left to the server."""
    if not values or any(
        value is not None and not isinstance(value, str | int | bool) for value in values
    ):
        return Any
    return Literal[tuple(values)]


def _one_of(kinds: list[Any]) -> Any:
    if not kinds or any(kind is Any for kind in kinds):
        return Any
    return reduce(or_, kinds[1:], kinds[0]) if len(kinds) > 1 else kinds[0]


def _referred(ref: Any, root: Mapping[str, Any]) -> Any:
    """What a `#` or `#/…` refers to; anything else is nobody's."""
    if ref == "#":
        return root
    if not isinstance(ref, str) or not ref.startswith("#/"):
        return None
    found: Any = root
    for step in ref[2:].split("/"):
        word = step.replace("~1", "/").replace("~0", "~")
        found = found.get(word) if isinstance(found, Mapping) else None
    return found
