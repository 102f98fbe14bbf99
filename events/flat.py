"""Records as fastavro handles them fastest: one flat record of leaves, with unions already decided.

Avro writes a nested record as its fields and a union as a branch number and a value, so a record whose nested fields
stand in their place, with a number before each value that may be null, has the same bytes. A write schema is made
for each combination of types met (only nullable fields vary, so there are few), which is also where types are
checked: a combination seen before is right. Tests hold the bytes against the schemas as written in the files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from io import BytesIO
from operator import attrgetter
from types import NoneType
from typing import Any

from fastavro import parse_schema, schemaless_writer

from .limits import ITEMS_MAX, item_weight
from .shapes import Field, Shape, builder, many_packer

PLANS_MAX = 4_096
"""Combinations remembered per record: 12 nullable fields in every one."""

UNUSED = "unused"
"""Values under this name are in no write schema: nulls, and records whose fields stand in their place."""

Part = tuple[str, Shape]
Schema = dict[str, Any]


@dataclass(frozen=True, slots=True)
class _Leaf:
    """A value to fetch: a field that is written, or (without field) a record whose fields follow."""

    path: str
    field: Field | None
    avro: Any


@dataclass(frozen=True, slots=True)
class _Plan:
    """How one combination of types is written: under which names, beside which branch numbers."""

    names: tuple[str, ...]
    branches: dict[str, Any]
    converts: tuple[tuple[int, Callable[[Any], object]], ...]
    arrays: tuple[tuple[int, int], ...]
    schema: Any


class FlatWriter:
    """Writes the records of one class, or of several attributes (`parts`) that are one record in Avro."""

    def __init__(self, parts: Sequence[Part], schema: Schema) -> None:
        self._parts = tuple(parts)
        self._named = _named(schema)
        self._leaves = tuple(_leaves(self._parts, self._named))
        self._get = _getter([leaf.path for leaf in self._leaves])
        self._plans: dict[tuple[type, ...], _Plan] = {}

    def write(self, out: BytesIO, record: object) -> None:
        """Appends the record's Avro body. TypeError for a type that does not fit, ValueError for a value."""
        try:
            values: Sequence[Any] = self._get(record)
        except AttributeError as error:
            raise TypeError(self._fault(record) or str(error)) from error
        kinds = tuple(map(type, values))
        plan = self._plans.get(kinds) or self._admit(record, kinds)
        if plan.converts:
            values = list(values)
            _check_items(values, plan.arrays)
            for index, convert in plan.converts:
                values[index] = convert(values[index])
        packed = plan.branches.copy()
        packed.update(zip(plan.names, values, strict=True))
        schemaless_writer(out, plan.schema, packed)

    def unstorable(self, record: object) -> str | None:
        """Which value Avro cannot hold, after `write` said that there is one."""
        faults = (shape.unstorable(part) for shape, part in self._split(record))
        return next((fault for fault in faults if fault is not None), None)

    def _split(self, record: object) -> list[tuple[Shape, Any]]:
        return [(shape, getattr(record, name) if name else record) for name, shape in self._parts]

    def _fault(self, record: object) -> str | None:
        faults = (shape.fault(part) for shape, part in self._split(record))
        return next((fault for fault in faults if fault is not None), None)

    def _admit(self, record: object, kinds: tuple[type, ...]) -> _Plan:
        fault = self._fault(record)
        if fault is not None:
            raise TypeError(fault)
        fields: list[Schema] = []
        names, branches, converts = [], {}, []
        spelled: set[str] = set()
        for index, (leaf, kind) in enumerate(zip(self._leaves, kinds, strict=True)):
            name, field = f"f{index}", leaf.field
            if field is not None and field.nullable:
                fields.append({"name": f"b{index}", "type": "long"})
                branches[f"b{index}"] = 0 if kind is NoneType else 1
            if field is None or kind is NoneType:
                names.append(UNUSED)
                continue
            names.append(name)
            fields.append({"name": name, "type": _spell(leaf.avro, self._named, spelled)})
            if field.many:
                converts.append((index, many_packer(field)))
            elif field.shape is not None:
                converts.append((index, field.shape.pack))
        schema = parse_schema({"type": "record", "name": "Flat", "fields": fields})
        arrays = [
            (i, item_weight(_values_in(leaf.field)))
            for i, leaf in enumerate(self._leaves)
            if leaf.field and leaf.field.many
        ]
        plan = _Plan(tuple(names), branches, tuple(converts), tuple(arrays), schema)
        if len(self._plans) < PLANS_MAX:
            self._plans[kinds] = plan
        return plan


def _check_items(values: Sequence[Any], arrays: Sequence[tuple[int, int]]) -> None:
    """More items than a reader takes (`scan.py`) are not written."""
    count = sum(len(values[index]) * weight for index, weight in arrays)
    if count > ITEMS_MAX:
        raise ValueError(f"over {ITEMS_MAX} items in the arrays of one record: {count}")


def _values_in(field: Field) -> int:
    """How many values one item holds at most, as `scan.py` counts them."""
    if field.shape is None:
        return 1
    return sum(1 if inner.many else _values_in(inner) for inner in field.shape.fields)


class FlatReader:
    """The flat read schema of a record, and what builds the record from the leaves."""

    def __init__(self, parts: Sequence[Part], schema: Schema, make: Callable[..., Any]) -> None:
        fields: list[Schema] = []
        self._converts: list[tuple[int, Callable[[Any], Any]]] = []
        named, spelled = _named(schema), set[str]()
        for leaf in _leaves(parts, named):
            if leaf.field is None:
                continue
            if leaf.field.many or leaf.field.shape is not None:
                self._converts.append((len(fields), builder(leaf.field)))
            kind = _spell(leaf.avro, named, spelled)
            kind = ["null", kind] if leaf.field.nullable else kind
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


def _leaves(parts: Sequence[Part], named: dict[str, Schema]) -> Iterator[_Leaf]:
    """All values in the order of the bytes."""
    for name, shape in parts:
        if name:
            yield _Leaf(name, None, None)
        yield from _inline(f"{name}." if name else "", shape, named)


def _inline(prefix: str, shape: Shape, named: dict[str, Schema]) -> Iterator[_Leaf]:
    types = {field["name"]: field["type"] for field in named[shape.name]["fields"]}
    for field in shape.fields:
        path = prefix + field.name
        if field.shape is not None and not (field.many or field.nullable):
            yield _Leaf(path, None, None)
            yield from _inline(f"{path}.", field.shape, named)
        else:
            kind = types[field.name]
            yield _Leaf(path, field, kind[1] if field.nullable else kind)


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


def _getter(paths: Sequence[str]) -> Callable[[Any], tuple[Any, ...]]:
    """All leaves at once; attrgetter alone gives a bare value where there is one name only."""
    get = attrgetter(*paths)
    return get if len(paths) > 1 else lambda record: (get(record),)
