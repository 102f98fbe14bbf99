"""Types that lose their value when they are stored: pydantic's secrets, whose JSON is a row of stars."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from pydantic import Secret, SecretBytes, SecretStr, TypeAdapter

FIELDS = ("model-fields", "typed-dict", "dataclass-args")
"""Parts of pydantic's schemas that have fields."""

NOT_WRITTEN = ("metadata", "config", "definitions")
"""Parts of any schema that say nothing of what is written."""


def masked_at(adapter: TypeAdapter[Any]) -> str | None:
    """Where in this type a secret would be stored as stars: names of fields with dots between, empty for all of it.

    None where nothing would. A field that is left out, or that is written by a serialiser of the user's own, keeps
    what that gives, and is none.
    """
    schema = adapter.core_schema
    return next(_masked(schema, (), dict(definitions(schema))), None)


def _masked(node: Any, at: tuple[str, ...], known: dict[str, Any]) -> Iterator[str]:
    """`known` are the types that are referred to, by reference, until they have been looked at."""
    if isinstance(node, list | tuple):
        for item in node:
            yield from _masked(item, at, known)
        return
    if not isinstance(node, Mapping) or node.get("serialization_exclude") is True:
        return
    written = node.get("serialization")
    if isinstance(written, Mapping) and "function" in written:
        if written["function"] in _masks():
            yield ".".join(at)
        return
    if node.get("type") == "definition-ref":
        yield from _masked(known.pop(node["schema_ref"], None), at, known)
    fields = node.get("fields") if node.get("type") in FIELDS else None
    if fields is not None:
        for name, field in named(fields):
            yield from _masked(field, (*at, name), known)
    for part, value in node.items():
        if part not in NOT_WRITTEN and value is not fields:
            yield from _masked(value, at, known)


def definitions(schema: Any) -> Iterator[tuple[str, Any]]:
    """The types that a schema refers to, by reference."""
    if schema.get("type") == "definitions":
        for defined in schema["definitions"]:
            yield defined["ref"], defined


def named(fields: Any) -> Iterator[tuple[str, Any]]:
    """Fields of models and typed dictionaries by name; those of dataclasses are a list."""
    if isinstance(fields, Mapping):
        yield from ((str(name), field) for name, field in fields.items())
    else:
        yield from ((str(field["name"]), field) for field in fields)


def _functions(node: Any) -> Iterator[Any]:
    if isinstance(node, Mapping):
        written = node.get("serialization")
        if isinstance(written, Mapping) and "function" in written:
            yield written["function"]
        for value in node.values():
            yield from _functions(value)


@cache
def _masks() -> frozenset[Any]:
    """What writes the stars, as pydantic has it; asked for late, since every command imports this module."""
    return frozenset(
        function
        for kind in (SecretStr, SecretBytes, Secret[int])
        for function in _functions(TypeAdapter(kind).core_schema)
    )
