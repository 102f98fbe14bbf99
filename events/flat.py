"""Records as fastavro reads them fastest: one flat record of leaves.

Avro writes a nested record as its fields, so a record whose nested fields stand in their place has the same bytes.
Tests hold this against the schemas as written in the files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from fastavro import parse_schema

from .shapes import Field, Shape, builder
from .writing import Part

Schema = dict[str, Any]


class FlatReader:
    """The flat read schema of a record, and what builds the record from the leaves."""

    def __init__(self, parts: Sequence[Part], schema: Schema, make: Callable[..., Any]) -> None:
        fields: list[Schema] = []
        self._converts: list[tuple[int, Callable[[Any], Any]]] = []
        named, spelled = _named(schema), set[str]()
        for field, avro in _leaves(parts, named):
            if field.many or field.shape is not None:
                self._converts.append((len(fields), builder(field)))
            kind = _spell(avro, named, spelled)
            kind = ["null", kind] if field.nullable else kind
            fields.append({"name": f"f{len(fields)}", "type": kind})
        self.schema = parse_schema({"type": "record", "name": "Flat", "fields": fields})
        self._make = _maker([shape for _, shape in parts], make)

    def build(self, read: dict[str, Any]) -> Any:
        """The record from what fastavro read with the flat schema."""
        values = list(read.values())
        for index, convert in self._converts:
            if values[index] is not None:
                values[index] = convert(values[index])
        return self._make(*values)


def _maker(shapes: Sequence[Shape], make: Callable[..., Any]) -> Callable[..., Any]:
    """What makes the record of its leaves: one function with all calls in it, for there is one for every event read."""
    known: dict[str, Callable[..., Any]] = {}
    calls, at = [], 0
    for shape in shapes:
        call, at = _call(shape, at, known)
        calls.append(call)
    whole = calls[0]
    if len(calls) > 1:
        known["make"], whole = make, f"make({', '.join(calls)})"
    leaves = ", ".join(f"v{index}" for index in range(at))
    source = f"lambda {', '.join(known)}: lambda {leaves}: {whole}"
    made: Callable[..., Any] = eval(source)(*known.values())  # noqa: S307 names and commas from here
    return made


def _call(shape: Shape, at: int, known: dict[str, Callable[..., Any]]) -> tuple[str, int]:
    """The words that make a class of the leaves from this one on, and the leaf after them."""
    name, arguments = f"c{len(known)}", []
    known[name] = shape.cls
    for field in shape.fields:
        argument = f"v{at}"
        if field.shape is not None and not (field.many or field.nullable):
            argument, at = _call(field.shape, at, known)
        else:
            at += 1
        arguments.append(argument)
    return f"{name}({', '.join(arguments)})", at


def _leaves(parts: Sequence[Part], named: dict[str, Schema]) -> Iterator[tuple[Field, Any]]:
    """All values in the order of the bytes: the field, and its type in Avro without null."""
    for _, shape in parts:
        yield from _inline(shape, named)


def _inline(shape: Shape, named: dict[str, Schema]) -> Iterator[tuple[Field, Any]]:
    types = {field["name"]: field["type"] for field in named[shape.name]["fields"]}
    for field in shape.fields:
        if field.shape is not None and not (field.many or field.nullable):
            yield from _inline(field.shape, named)
        else:
            kind = types[field.name]
            yield field, kind[1] if field.nullable else kind


def _named(schema: Schema) -> dict[str, Schema]:
    """Every record that the schema spells out, by its full name."""
    found = {f"{schema['namespace']}.{schema['name']}": schema}
    for field in schema["fields"]:
        kind = field["type"][-1] if isinstance(field["type"], list) else field["type"]
        if isinstance(kind, dict) and kind["type"] == "array":
            kind = kind["items"]
        if isinstance(kind, dict):
            found.update(_named(kind))
    return found


def _spell(kind: Any, named: dict[str, Schema], done: set[str]) -> Any:
    """A type on its own: records it only names are spelled out where they come first."""
    if isinstance(kind, list):
        return [_spell(branch, named, done) for branch in kind]
    if isinstance(kind, dict) and kind["type"] == "array":
        return {"type": "array", "items": _spell(kind["items"], named, done)}
    name = f"{kind['namespace']}.{kind['name']}" if isinstance(kind, dict) else kind
    if name not in named or name in done:
        return name
    done.add(name)
    fields = [
        {"name": field["name"], "type": _spell(field["type"], named, done)}
        for field in named[name]["fields"]
    ]
    return {"type": "record", "name": name, "fields": fields}
