"""Classes and their Avro form: what a frozen dataclass is made of, what is wrong with one, and how one is built.

Avro libraries coerce (5.9 becomes 5 in a long, True becomes 1), guess union branches, and fill what is missing. So
every value is checked by exact type where it is written (`writing.py`), and `fault` says which one does not fit.
"""

from __future__ import annotations

import types
from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, Union, get_args, get_origin, get_type_hints

NAMESPACE = "wakeful.v1"

PRIMITIVES: dict[type, str] = {str: "string", int: "long", bytes: "bytes", bool: "boolean"}

SHOWN_MAX = 60
"""Characters of a value that a message shows."""


@dataclass(frozen=True, slots=True)
class Field:
    """One field: a primitive or a nested shape, maybe nullable, maybe many."""

    name: str
    kind: type
    shape: Shape | None
    many: bool
    nullable: bool


class Shape:
    """One class, prepared: `fault` and `unstorable` say what cannot be written, `build` takes what fastavro read."""

    def __init__(self, cls: type, known: dict[type, Shape]) -> None:
        known[cls] = self
        hints = get_type_hints(cls)
        self.cls = cls
        self.name = f"{NAMESPACE}.{cls.__name__}"
        self.fields = tuple(_field(f.name, hints[f.name], known) for f in fields(cls))
        self.names = tuple(f.name for f in self.fields)
        self._builds = tuple(
            (f.name, builder(f)) for f in self.fields if f.shape is not None or f.many
        )

    def build(self, read: dict[str, Any]) -> Any:
        """The record from what fastavro read with this shape's schema as the reader's."""
        for name, convert in self._builds:
            value = read[name]
            if value is not None:
                read[name] = convert(value)
        return self.cls(**read)

    def fault(self, record: object, path: str = "") -> str | None:
        """What is wrong with the record's types, or null; names the first field that does not fit."""
        path = path or self.cls.__name__
        if type(record) is not self.cls:
            return f"{path}: expected {self.cls.__name__}, got {_told(record)}"
        for field in self.fields:
            where = f"{path}.{field.name}"
            if not hasattr(record, field.name):
                return f"{where}: missing"
            found = _field_fault(field, getattr(record, field.name), where)
            if found is not None:
                return found
        return None

    def unstorable(self, record: Any, path: str = "") -> str | None:
        """Which value of a well-typed record Avro cannot hold: a number or text out of range."""
        path = path or self.cls.__name__
        for field in self.fields:
            value = getattr(record, field.name)
            for item in value if field.many else (value,):
                where = f"{path}.{field.name}"
                if field.shape is not None and item is not None:
                    found = field.shape.unstorable(item, where)
                    if found is not None:
                        return found
                elif type(item) is int and not -(2**63) <= item < 2**63:
                    return f"{where}: expected an integer of 64 bits, got {_told(item)}"
                elif type(item) is str and not _encodable(item):
                    return f"{where}: expected text without lone surrogates, got {_told(item)}"
        return None


Part = tuple[str, Shape]
"""What is written as a part of one record: an attribute's name (none for the record itself) and its shape."""


def shape_of(cls: type, known: dict[type, Shape]) -> Shape:
    """The shape of a class, made once per `known`."""
    return known.get(cls) or Shape(cls, known)


def _field(name: str, hint: Any, known: dict[type, Shape]) -> Field:
    nullable, many = False, False
    if get_origin(hint) in {types.UnionType, Union}:
        (hint,) = (h for h in get_args(hint) if h is not types.NoneType)
        nullable = True
    if get_origin(hint) is tuple:
        hint, _ = get_args(hint)
        many = True
    if (many and nullable) or not (hint in PRIMITIVES or is_dataclass(hint)):
        raise TypeError(f"{name}: the stored format has no place for {hint}")
    return Field(name, hint, None if hint in PRIMITIVES else shape_of(hint, known), many, nullable)


def builder(field: Field) -> Callable[[Any], object]:
    shape = field.shape
    if shape is None:
        return tuple
    if field.many:
        return lambda values: tuple([shape.build(value) for value in values])
    return shape.build


def _field_fault(field: Field, value: object, path: str) -> str | None:
    if value is None and field.nullable:
        return None
    if field.many:
        if type(value) is not tuple:
            return f"{path}: expected a tuple, got {_told(value)}"
        found = (_item_fault(field, item, f"{path}[{i}]") for i, item in enumerate(value))
        return next((fault for fault in found if fault is not None), None)
    return _item_fault(field, value, path)


def _item_fault(field: Field, value: object, path: str) -> str | None:
    if field.shape is not None:
        return field.shape.fault(value, path)
    if type(value) is not field.kind:
        return f"{path}: expected {field.kind.__name__}, got {_told(value)}"
    return None


def _encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _told(value: object) -> str:
    """A value for a message: its start, and its type."""
    text = ascii(value)
    return f"{text if len(text) <= SHOWN_MAX else text[: SHOWN_MAX - 3] + '...'} ({type(value).__name__})"
