"""Records to Avro bytes: for each class one function, made once, that checks every value where it writes it.

Avro writes a nested record as its fields and a union as a branch number and a value, so a record is the bytes of its
leaves, joined. fastavro does the same from dictionaries, guessing and coercing; a function that knows its class takes
a quarter of that time, which was a fifth of a processor's. Tests hold the bytes against the schemas as written in the
files, and against two other libraries.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property, lru_cache
from typing import Any

from .limits import ITEMS_MAX, item_weight
from .shapes import Field, Part, Shape

Write = Callable[[Any], bytes]

LONGS_KEPT = 256
"""Numbers whose bytes are kept: the moment and the offset of one command are in all events that come of it."""

_READY = 1_024
"""Numbers whose bytes are made beforehand: lengths, counts, steps."""


class Writer:
    """Writes the records of one class, or of several attributes (`parts`) that are one record in Avro."""

    def __init__(self, parts: Sequence[Part]) -> None:
        self._parts = tuple(parts)

    @cached_property
    def _write(self) -> Write:
        """Made for the first record: who only reads a class makes none."""
        return _written(self._parts, {}, bounded=True)

    def write(self, record: object) -> bytes:
        """The record's Avro body. TypeError names the field that does not fit; ValueError and OverflowError are of a value."""
        try:
            return self._write(record)
        except (AttributeError, TypeError) as error:
            raise TypeError(self._fault(record) or str(error)) from error

    def unstorable(self, record: object) -> str | None:
        """Which value Avro cannot hold, after `write` said that there is one."""
        faults = (shape.unstorable(part) for shape, part in self._split(record))
        return next((fault for fault in faults if fault is not None), None)

    def _split(self, record: object) -> list[tuple[Shape, Any]]:
        return [(shape, getattr(record, name) if name else record) for name, shape in self._parts]

    def _fault(self, record: object) -> str | None:
        faults = (shape.fault(part) for shape, part in self._split(record))
        return next((fault for fault in faults if fault is not None), None)


class _Source:
    """The lines of one function: what it fetches, what it checks, and the bytes that it joins."""

    def __init__(self, made: dict[type, Write]) -> None:
        self.space: dict[str, Any] = {"LONGS": _LONGS, "long": long_bytes, "many": _many}
        self.fetches: list[str] = []
        self.checks: list[str] = []
        self.pieces: list[str] = []
        self.weights: list[str] = []
        self._made = made

    def record(self, shape: Shape, path: str) -> None:
        """A record whose fields stand in its place."""
        name = self._fetched(path)
        self.checks.append(f"type({name}) is {self._known(shape.cls)}")
        for field in shape.fields:
            if field.shape is not None and not (field.many or field.nullable):
                self.record(field.shape, f"{name}.{field.name}")
            else:
                self._leaf(field, f"{name}.{field.name}")

    def _leaf(self, field: Field, path: str) -> None:
        name = self._fetched(path)
        if field.many:
            self.checks.append(f"type({name}) is tuple")
            self.weights.append(f"len({name}) * {item_weight(_values_in(field))}")
            item = _item(field.kind) if field.shape is None else self._nested(field.shape)
            self.pieces.append(f"many({name}, {self._known(item)})")
            return
        fits = f"type({name}) is {self._known(field.kind)}"
        written = self._bytes_of(field, name)
        if field.nullable:
            self.checks.append(f"({name} is None or {fits})")
            some = " + ".join(["b'\\2'", *written])
            self.pieces.append(f"(b'\\0' if {name} is None else {some})")
        else:
            self.checks.append(fits)
            self.pieces += written

    def _bytes_of(self, field: Field, name: str) -> list[str]:
        """The expressions whose bytes are the value of this name, one after another."""
        if field.shape is not None:
            return [f"{self._known(self._nested(field.shape))}({name})"]
        if field.kind is int:
            return [f"(LONGS[{name}] if 0 <= {name} < {_READY} else long({name}))"]
        if field.kind is bool:
            return [f"(b'\\1' if {name} else b'\\0')"]
        whole = name if field.kind is bytes else f"({name} := {name}.encode())"
        return [f"(LONGS[n] if (n := len({whole})) < {_READY} else long(n))", name]

    def _nested(self, shape: Shape) -> Write:
        if shape.cls not in self._made:
            self._made[shape.cls] = _written((("", shape),), self._made, bounded=False)
        return self._made[shape.cls]

    def _fetched(self, path: str) -> str:
        name = f"v{len(self.fetches)}"
        self.fetches.append(f" {name} = {path}\n")
        return name

    def _known(self, thing: Any) -> str:
        name = f"k{len(self.space)}"
        self.space[name] = thing
        return name


def _written(parts: Sequence[Part], made: dict[type, Write], *, bounded: bool) -> Write:
    """The function that writes these parts; `bounded` where more items than a reader takes (`scan.py`) are refused."""
    source = _Source(made)
    for name, shape in parts:
        source.record(shape, f"record.{name}" if name else "record")
    text = "def write(record):\n" + "".join(source.fetches)
    text += f" if not ({' and '.join(source.checks)}): raise TypeError('a value of another type')\n"
    if bounded and source.weights:
        source.space["bound"] = _bound
        text += f" bound({' + '.join(source.weights)})\n"
    text += f" return b''.join(({', '.join(source.pieces)},))\n"
    exec(text, source.space)  # noqa: S102 names of fields and nothing else, as dataclasses do it
    made_of: Write = source.space["write"]
    return made_of


def _bound(count: int) -> None:
    if count > ITEMS_MAX:
        raise ValueError(f"over {ITEMS_MAX} items in the arrays of one record: {count}")


def _values_in(field: Field) -> int:
    """How many values one item holds at most, as `scan.py` counts them."""
    if field.shape is None:
        return 1
    return sum(1 if inner.many else _values_in(inner) for inner in field.shape.fields)


@lru_cache(LONGS_KEPT)
def long_bytes(value: int) -> bytes:
    """Avro's zig-zag number. OverflowError where it has over 64 bits."""
    if not -(2**63) <= value < 2**63:
        raise OverflowError(f"{value} has over 64 bits")
    left = (value << 1) ^ (value >> 63)
    out = bytearray()
    while left > 0x7F:
        out.append(left & 0x7F | 0x80)
        left >>= 7
    out.append(left)
    return bytes(out)


_LONGS = tuple(map(long_bytes, range(_READY)))


def _many(values: tuple[Any, ...], item: Write) -> bytes:
    """An array in one block."""
    if not values:
        return b"\0"
    return b"".join((long_bytes(len(values)), *map(item, values), b"\0"))


def _data(value: bytes) -> bytes:
    return long_bytes(len(value)) + value


_PRIMITIVE: dict[type, Write] = {
    str: lambda value: _data(value.encode()),
    int: long_bytes,
    bytes: _data,
    bool: lambda value: b"\1" if value else b"\0",
}


def _item(kind: type) -> Write:
    """Writes a primitive that stands in an array."""
    write = _PRIMITIVE[kind]

    def item(value: Any) -> bytes:
        if type(value) is not kind:
            raise TypeError("an item of another type")
        return write(value)

    return item
