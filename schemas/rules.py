"""What a stored schema may look like: a small part of Avro, which every reader reads alike.

No enum (a default would turn an unknown word into a known one), no map (key order changes the bytes), no union but
with null (a writer guesses the branch), no recursion (a few bytes exhaust a reader's stack).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

NAMESPACE = "wakeful.v1"

LEAVES = frozenset({"string", "long", "bytes", "boolean"})

Schema = dict[str, Any]


def check_schema(schema: Schema, record: str) -> Iterator[str]:
    """What is wrong with one schema file, a sentence each; `record` is the full name it should have."""
    name = f"{schema.get('namespace')}.{schema.get('name')}"
    if schema.get("type") != "record" or name != record:
        yield f"is {name}, not the record {record}"
        return
    yield from _record(schema, (), {})


def full_name(schema: Schema) -> str:
    """A record's name with its namespace."""
    return f"{schema.get('namespace')}.{schema['name']}"


def records_in(schema: Schema) -> Iterator[Schema]:
    """Each record that a schema spells out, the outermost first."""
    yield schema
    for field in schema["fields"]:
        kind = core(field["type"])
        if isinstance(kind, dict) and kind.get("type") == "record":
            yield from records_in(kind)


def by_name(schema: Schema) -> Schema:
    """The record with a name in the place of each record in it: whether that is spelled out there, or was before."""
    return {**schema, "fields": [{**f, "type": _referred(f["type"])} for f in schema["fields"]]}


def _referred(kind: Any) -> Any:
    match kind:
        case list():
            return [_referred(one) for one in kind]
        case {"type": "array"}:
            return {**kind, "items": _referred(kind["items"])}
        case {"type": "record"}:
            return full_name(kind)
        case _:
            return kind


def core(kind: Any) -> Any:
    """A field's type without the null and the array around it."""
    if isinstance(kind, list) and len(kind) == 2:
        kind = kind[1]
    if isinstance(kind, dict) and kind.get("type") == "array":
        kind = kind["items"]
    return kind


def _record(schema: Schema, inside: tuple[str, ...], known: dict[str, Schema]) -> Iterator[str]:
    name = full_name(schema)
    if name in known:
        yield f"spells {name} out twice"
    known[name] = schema
    if schema.get("namespace") != NAMESPACE:
        yield f"{name} is not in namespace {NAMESPACE}"
    if not schema.get("doc"):
        yield f"{name} has no doc"
    for field in schema["fields"]:
        where = f"{schema['name']}.{field['name']}"
        if not field.get("doc"):
            yield f"{where} has no doc"
        if "aliases" in field:
            yield f"{where} has aliases: a field keeps its name"
        yield from _type(field["type"], where, (*inside, name), known)
        yield from _default(field, where)


def _type(
    kind: Any, where: str, inside: tuple[str, ...], known: dict[str, Schema]
) -> Iterator[str]:
    if isinstance(kind, list):
        if len(kind) != 2 or kind[0] != "null" or isinstance(kind[1], list):
            yield f"{where} is a union of {kind}: only [null, T] is allowed"
            return
        kind = kind[1]
        if isinstance(kind, dict) and kind.get("type") == "array":
            yield f"{where} is a nullable array: an empty one says the same"
    if isinstance(kind, dict) and kind.get("type") == "array":
        yield from _items(kind["items"], where, inside, known)
    elif isinstance(kind, dict) and kind.get("type") == "record":
        yield from _record(kind, inside, known)
    else:
        yield from _named(kind, where, inside, known)


def _items(
    items: Any, where: str, inside: tuple[str, ...], known: dict[str, Schema]
) -> Iterator[str]:
    """Items take at least a byte each, or a few bytes become a million of them."""
    schema = known.get(items) if isinstance(items, str) else items
    if isinstance(items, str) and items in LEAVES and items != "string":
        yield f"{where} is an array of {items}: only records and strings are read"
    elif isinstance(schema, dict) and schema.get("type") == "record" and not schema["fields"]:
        yield f"{where} is an array of a record without fields"
    elif isinstance(items, (list, dict)) and not (
        isinstance(items, dict) and items.get("type") == "record"
    ):
        yield f"{where} is an array of {_told(items)}: only records and strings are read"
    else:
        yield from _type(items, where, inside, known)


def _named(
    kind: Any, where: str, inside: tuple[str, ...], known: dict[str, Schema]
) -> Iterator[str]:
    if isinstance(kind, str) and kind in inside:
        yield f"{where} is a {kind} inside itself: no cycles"
    elif isinstance(kind, dict) or (kind not in LEAVES and kind not in known):
        yield f"{where} is {_told(kind)}: only {', '.join(sorted(LEAVES))}, records and arrays are allowed"


def _default(field: Schema, where: str) -> Iterator[str]:
    nullable = isinstance(field["type"], list)
    if nullable and ("default" not in field or field["default"] is not None):
        yield f"{where} may be null but does not default to it"
    if isinstance(field.get("default"), dict):
        yield f"{where} defaults to a record: make it nullable"


def _told(kind: Any) -> str:
    if isinstance(kind, dict):
        return str(kind.get("type"))
    return str(kind)
