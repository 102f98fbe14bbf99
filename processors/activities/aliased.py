"""Types whose JSON is not what they read: fields that are written under a name they are not read by, or not at all.

Values are stored under their fields' aliases, so an alias is no trouble by itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import TypeAdapter

from .masked import FIELDS, NOT_WRITTEN, definitions, named

Found = tuple[str, str]
"""Where, as names of fields with dots between, and what is wrong there and what to write instead."""


def unread_at(adapter: TypeAdapter[Any], *, whole: bool) -> Found | None:
    """The first field of this type that would not be read back as it was; none where there is none.

    A field that is left out is one if it has no default, and in any case where the `whole` of it has to come back.
    What a serialiser of the user's own writes is not looked into.
    """
    schema = adapter.core_schema
    return next(_unread(schema, (), {}, dict(definitions(schema)), whole=whole), None)


def _unread(
    node: Any, at: tuple[str, ...], config: Any, known: dict[str, Any], *, whole: bool
) -> Iterator[Found]:
    """`known` are the types that are referred to, by reference, until they have been looked at."""
    if isinstance(node, list | tuple):
        for item in node:
            yield from _unread(item, at, config, known, whole=whole)
        return
    if not isinstance(node, Mapping):
        return
    written = node.get("serialization")
    if isinstance(written, Mapping) and "function" in written:
        return
    config = node.get("config", config)
    if node.get("type") == "definition-ref":
        yield from _unread(known.pop(node["schema_ref"], None), at, config, known, whole=whole)
    fields = node.get("fields") if node.get("type") in FIELDS else None
    if fields is not None:
        for name, field in named(fields):
            told = _why_unread(name, field, config, whole=whole)
            if told:
                yield ".".join((*at, name)), told
            if field.get("serialization_exclude") is not True:
                yield from _unread(field, (*at, name), config, known, whole=whole)
    for part, value in node.items():
        if part not in NOT_WRITTEN and value is not fields:
            yield from _unread(value, at, config, known, whole=whole)


def _why_unread(name: str, field: Mapping[str, Any], config: Any, *, whole: bool) -> str:
    """What is wrong with this field and what to do about it; nothing where it comes back."""
    if field.get("init_only"):
        return ""  # a parameter, and no field
    if field.get("serialization_exclude") is True:
        if whole or not _may_be_absent(field):
            return "it has exclude=True, so it is not written: remove that, or keep it elsewhere"
        return ""
    written = field.get("serialization_alias", name)
    read = _read_by(name, field, config)
    if written in read:
        return ""
    if not read:
        found = f"read by a path, and written as {written!r}"
    else:
        found = f"written as {written!r}, and read as {' or '.join(map(repr, read))}"
    return f"it is {found}: give it one alias=, or none"


def _read_by(name: str, field: Mapping[str, Any], config: Any) -> list[str]:
    """The keys that it is read by."""
    alias = field.get("validation_alias")
    if alias is None:
        return [name]
    by_name = config.get("validate_by_name") or config.get("populate_by_name")
    by_alias = config.get("validate_by_alias", True)
    read = _keys(alias) if by_alias else []
    return [*read, name] if by_name else read


def _keys(alias: Any) -> list[str]:
    """A plain alias, or those among several that are no paths."""
    if isinstance(alias, str):
        return [alias]
    paths = alias if all(isinstance(path, list) for path in alias) else [alias]
    return [path[0] for path in paths if len(path) == 1]


def _may_be_absent(field: Mapping[str, Any]) -> bool:
    """Whether it has a default, or is one of a typed dictionary that may lack it."""
    if field["type"] == "typed-dict-field":
        return not field.get("required", True)
    return bool(field["schema"].get("type") == "default")
