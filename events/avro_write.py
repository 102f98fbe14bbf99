"""Writes records as Avro, strictly: the types of a record's values are checked in one look-up.

All leaves of a record are fetched at once. Their types, as a tuple, were seen before (and then the plan of what to
write is known) or are checked one by one. Only nullable fields vary, so there are few plans.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter
from types import NoneType
from typing import Any

from .shapes import Field, Shape

ITEMS_MAX = 16_384
"""Items in all arrays of one record: reading them stays below 50 ms."""

PLANS_MAX = 4_096
"""Plans remembered per record: 12 nullable fields in every combination."""

Out = list[bytes]
Composite = Callable[[Out, Any, list[int]], None]

TEXT, LONG, BYTES, FLAG, NULL, SOME, COMPOSITE = range(7)
CODES = {str: TEXT, int: LONG, bytes: BYTES, bool: FLAG}

SMALL = tuple(bytes((number,)) for number in range(128))
"""Numbers of one byte: lengths, branches, counts."""


class Writer:
    """Writes the records of one class, or of two that are one record in Avro (an envelope and its body).

    `parts` are attributes of what is written, with their shapes; one part without a name is the record itself.
    """

    def __init__(self, parts: Sequence[tuple[str, Shape]]) -> None:
        self._parts = tuple(parts)
        self._leaves: list[tuple[str, Field | None]] = []
        for name, shape in parts:
            if name:
                self._leaves.append((name, None))
            self._add(f"{name}." if name else "", shape)
        self._get = _getter([path for path, _ in self._leaves])
        self._plans: dict[tuple[type, ...], tuple[tuple[int, int, Composite | None], ...]] = {}
        self._composites = {
            path: _composite(field)
            for path, field in self._leaves
            if field is not None and (field.many or field.shape is not None)
        }

    def write(self, out: Out, record: object, budget: list[int]) -> None:
        """Appends the record's bytes. `budget` holds how many array items may still come.

        TypeError for a type that does not fit; ValueError (also UnicodeEncodeError) for a value out of range.
        """
        try:
            values = self._get(record)
        except AttributeError as error:
            raise TypeError(self._fault(record) or str(error)) from error
        kinds = tuple(map(type, values))
        plan = self._plans.get(kinds) or self._admit(record, kinds)
        add = out.append
        for code, index, composite in plan:
            if code == TEXT:
                data = values[index].encode()
                size = len(data)
                add(SMALL[size << 1] if size < 64 else number(size))
                add(data)
            elif code == LONG:
                value = values[index]
                add(SMALL[value << 1] if 0 <= value < 64 else number(value))
            elif code == BYTES:
                data = values[index]
                size = len(data)
                add(SMALL[size << 1] if size < 64 else number(size))
                add(data)
            elif code == NULL:
                add(b"\0")
            elif code == SOME:
                add(b"\2")
            elif code == FLAG:
                add(b"\1" if values[index] else b"\0")
            elif composite is not None:
                composite(out, values[index], budget)

    def unstorable(self, record: object) -> str | None:
        """Which value is out of range, after `write` said that one is."""
        faults = (shape.unstorable(part) for shape, part in self._split(record))
        return next((fault for fault in faults if fault is not None), None)

    def _split(self, record: object) -> list[tuple[Shape, Any]]:
        return [(shape, getattr(record, name) if name else record) for name, shape in self._parts]

    def _fault(self, record: object) -> str | None:
        faults = (shape.fault(part) for shape, part in self._split(record))
        return next((fault for fault in faults if fault is not None), None)

    def _add(self, prefix: str, shape: Shape) -> None:
        for field in shape.fields:
            inline = field.shape is not None and not (field.many or field.nullable)
            self._leaves.append((prefix + field.name, None if inline else field))
            if inline and field.shape is not None:
                self._add(f"{prefix}{field.name}.", field.shape)

    def _admit(
        self, record: object, kinds: tuple[type, ...]
    ) -> tuple[tuple[int, int, Composite | None], ...]:
        fault = self._fault(record)
        if fault is not None:
            raise TypeError(fault)
        plan: list[tuple[int, int, Composite | None]] = []
        for index, ((path, field), kind) in enumerate(zip(self._leaves, kinds, strict=True)):
            if field is None:
                continue  # a record in its place: it has no bytes of its own, its fields follow
            if kind is NoneType:
                plan.append((NULL, index, None))
                continue
            if field.nullable:
                plan.append((SOME, index, None))
            composite = self._composites.get(path)
            plan.append((COMPOSITE if composite else CODES[kind], index, composite))
        if len(self._plans) < PLANS_MAX:
            self._plans[kinds] = tuple(plan)
        return tuple(plan)


def number(value: int) -> bytes:
    """A long: zig-zag, seven bits to a byte, the lowest first."""
    rest = (value << 1) ^ (value >> 63)
    if rest >> 64:
        raise OverflowError("an integer of more than 64 bits")
    out = bytearray()
    while rest > 127:
        out.append(rest & 127 | 128)
        rest >>= 7
    out.append(rest)
    return bytes(out)


def _getter(paths: Sequence[str]) -> Callable[[Any], tuple[Any, ...]]:
    """All leaves at once; attrgetter alone gives a bare value where there is one name only."""
    if not paths:
        return lambda _: ()
    get = attrgetter(*paths)
    return get if len(paths) > 1 else lambda record: (get(record),)


def _composite(field: Field) -> Composite:
    if field.many:
        return _array(field)
    if field.shape is None:
        raise TypeError(f"{field.name} is a leaf")
    return Writer((("", field.shape),)).write


def _array(field: Field) -> Composite:
    item = _texts(field) if field.shape is None else Writer((("", field.shape),)).write

    def write(out: Out, values: tuple[Any, ...], budget: list[int]) -> None:
        count = len(values)
        budget[0] -= count
        if budget[0] < 0:
            raise ValueError(f"{field.name}: over {ITEMS_MAX} items in the arrays of one record")
        if count:
            out.append(number(count))
            for value in values:
                item(out, value, budget)
        out.append(b"\0")

    return write


def _texts(field: Field) -> Composite:
    """Arrays hold records or texts; the stored format has no use for others yet."""
    if field.kind is not str:
        raise TypeError(f"{field.name}: expected an array of records or texts, not {field.kind}")

    def write(out: Out, value: object, _: list[int]) -> None:
        if type(value) is not str:
            raise TypeError(f"{field.name}: expected str, got {type(value).__name__}")
        data = value.encode()
        out.append(number(len(data)))
        out.append(data)

    return write
