"""Reads records from Avro bytes that anybody may have made, by the schema that wrote them, into today's class.

Nothing is built before its bytes are there, sizes are checked against what is left, and array items are counted,
so that the work is bounded by the length. One value has one form: padded numbers, unknown branches, and flags
other than 0 and 1 are refused. Fields the class no longer has are dropped; those it got since take their default.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .errors import Undecodable
from .shapes import Shape

TEXT, LONG, BYTES, MAYBE, NESTED = range(5)
CODES = {"string": TEXT, "long": LONG, "bytes": BYTES, "boolean": NESTED}

Schema = dict[str, Any]
Make = Callable[[Sequence[Any]], Any]
Read = Callable[[bytes, int, list[int]], tuple[Any, int]]
Step = tuple[int, Read]


@dataclass(frozen=True, slots=True)
class Target:
    """What is built: its full name and field names, the shapes of nested ones, how to make it of the values."""

    name: str
    names: tuple[str, ...]
    nested: dict[str, Shape]
    make: Make


def target_of(shape: Shape) -> Target:
    """The target that is a class."""
    cls = shape.cls
    nested = {field.name: field.shape for field in shape.fields if field.shape is not None}
    return Target(shape.name, shape.names, nested, lambda values: cls(*values))


class Reader:
    """Reads one record as `written`, and builds the target, or nothing where today's class has no such field.

    `wanted` holds today's records by name, for the defaults of fields that the writer did not know.
    """

    def __init__(
        self,
        written: Schema,
        target: Target | None,
        wanted: Mapping[str, Schema],
        named: Mapping[str, Schema] | None = None,
    ) -> None:
        named = records_in(written) if named is None else named
        self._steps = tuple(
            step for field in written["fields"] for step in _steps(field, target, wanted, named)
        )
        self._make = _maker(written, target, wanted)

    def read(self, body: bytes, at: int, budget: list[int]) -> tuple[Any, int]:
        """The record at a position, and the position after it.

        IndexError, or a position after the end, where the bytes end early: a slice that is too short is found out
        by whatever is read next, which saves a comparison per text.
        """
        values: list[Any] = []
        add = values.append
        steps = iter(self._steps)
        for code, nested in steps:
            if code == TEXT:
                size = body[at]
                at += 1
                if size > 127:
                    size, at = _long(body, at, size)
                if size & 1:
                    raise _negative(at)
                end = at + (size >> 1)
                add(body[at:end].decode())
                at = end
            elif code == LONG:
                size = body[at]
                at += 1
                if size > 127:
                    size, at = _long(body, at, size)
                add((size >> 1) ^ -(size & 1))
            elif code == MAYBE:
                branch = body[at]
                at += 1
                if branch == 0:
                    add(None)
                    next(steps)
                elif branch != 2:
                    raise Undecodable("bad_value", f"no union has a branch byte {branch}")
            elif code == BYTES:
                size = body[at]
                at += 1
                if size > 127:
                    size, at = _long(body, at, size)
                if size & 1:
                    raise _negative(at)
                end = at + (size >> 1)
                add(body[at:end])
                at = end
            else:
                value, at = nested(body, at, budget)
                add(value)
        return self._make(values), at


def _flag(body: bytes, at: int, _: list[int]) -> tuple[bool, int]:
    if body[at] > 1:
        raise Undecodable("bad_value", f"a flag is 0 or 1, not {body[at]}")
    return body[at] == 1, at + 1


def _text(body: bytes, at: int, _: list[int]) -> tuple[str, int]:
    size, at = _number(body, at)
    if size < 0:
        raise _negative(at)
    return body[at : at + size].decode(), at + size


def _array(item: Read) -> Read:
    """Blocks of items until an empty one; a negative count is followed by the block's size in bytes."""

    def read(body: bytes, at: int, budget: list[int]) -> tuple[tuple[Any, ...], int]:
        values: list[Any] = []
        count, at = _number(body, at)
        while count:
            if count < 0:
                count = -count
                _, at = _number(body, at)
            budget[0] -= count
            if budget[0] < 0:
                raise Undecodable("too_large", "more array items than a record may have")
            for _ in range(count):
                value, at = item(body, at, budget)
                values.append(value)
            count, at = _number(body, at)
        return tuple(values), at

    return read


def _number(body: bytes, at: int) -> tuple[int, int]:
    zigzag = body[at]
    at += 1
    if zigzag > 127:
        zigzag, at = _long(body, at, zigzag)
    return (zigzag >> 1) ^ -(zigzag & 1), at


def _long(body: bytes, at: int, first: int) -> tuple[int, int]:
    """The rest of a number whose first byte says that there is more; still zig-zag."""
    result = first & 127
    for shift in range(7, 70, 7):
        byte = body[at]
        at += 1
        result |= (byte & 127) << shift
        if byte < 128:
            if byte == 0 or result >> 64:
                raise Undecodable("bad_value", f"a number before {at} is padded or over 64 bits")
            return result, at
    raise Undecodable("bad_value", f"a number before {at} has more than ten bytes")


def _negative(at: int) -> Undecodable:
    return Undecodable("bad_value", f"the length before {at} is negative")


def records_in(schema: Schema) -> dict[str, Schema]:
    """Every record that a schema spells out, by its full name, itself included."""
    found = {_full_name(schema): schema}
    for field in schema["fields"]:
        kind = _core(field["type"])[0]
        if isinstance(kind, dict) and kind["type"] == "record":
            found.update(records_in(kind))
    return found


def _full_name(schema: Schema) -> str:
    name: str = schema["name"]
    return name if "." in name else f"{schema['namespace']}.{name}"


def _core(kind: Any) -> tuple[Any, bool, bool]:
    """A field's type without null and array around it, and whether those were there."""
    nullable = isinstance(kind, list)
    if nullable:
        if len(kind) != 2 or kind[0] != "null":
            raise TypeError(f"the only unions are with null, got {kind}")
        kind = kind[1]
    many = isinstance(kind, dict) and kind["type"] == "array"
    return (kind["items"] if many else kind), nullable, many


def _steps(
    field: Schema,
    target: Target | None,
    wanted: Mapping[str, Schema],
    named: Mapping[str, Schema],
) -> Iterator[Step]:
    """One step, and one before it where null is allowed: null skips the one that follows."""
    kind, nullable, many = _core(field["type"])
    if nullable:
        yield MAYBE, _flag
    if isinstance(kind, str) and kind in CODES:
        if many and kind != "string":
            raise TypeError(f"{field['name']}: expected an array of records or texts, not {kind}")
        yield (NESTED, _array(_text)) if many else (CODES[kind], _flag)
        return
    schema = named[kind] if isinstance(kind, str) else kind
    shape = target.nested.get(field["name"]) if target is not None else None
    nested = Reader(schema, target_of(shape) if shape is not None else None, wanted, named)
    yield NESTED, _array(nested.read) if many else nested.read


def _maker(written: Schema, target: Target | None, wanted: Mapping[str, Schema]) -> Make:
    """What turns the values as written into the target: in order, or by name with defaults."""
    if target is None:
        return lambda _: None
    names = tuple(field["name"] for field in written["fields"])
    if names == target.names:
        return target.make
    make = target.make
    fields = {field["name"]: field for field in wanted[target.name]["fields"]}
    picks = tuple(
        (names.index(name), None) if name in names else (-1, _default(fields[name]))
        for name in target.names
    )
    return lambda values: make([values[i] if i >= 0 else default for i, default in picks])


def _default(field: Schema) -> Any:
    value, kind = field["default"], field["type"]
    if isinstance(value, list):
        return tuple(value)
    return value.encode("latin-1") if kind == "bytes" else value
