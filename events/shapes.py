"""Classes and their stored form: the fields of one frozen dataclass, and what is wrong with a value of it.

Types are exact: 5.9 or True is no `int`, a list is no tuple, a str of another class is no `str`. What stands in an
annotation here is what stands in the Avro schema, field for field: str, int, bytes and bool are string, long,
bytes and boolean; a dataclass is a record; `tuple[T, ...]` an array; `T | None` a union with null.
"""

from __future__ import annotations

import types
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, Union, get_args, get_origin, get_type_hints

NAMESPACE = "wakeful.v1"

PRIMITIVES: dict[type, str] = {str: "string", int: "long", bytes: "bytes", bool: "boolean"}


@dataclass(frozen=True, slots=True)
class Field:
    """One field: a primitive or a nested shape, maybe nullable, maybe many."""

    name: str
    kind: type
    shape: Shape | None
    many: bool
    nullable: bool


class Shape:
    """The fields of one class, in order."""

    def __init__(self, cls: type, known: dict[type, Shape]) -> None:
        known[cls] = self
        hints = get_type_hints(cls)
        self.cls = cls
        self.name = f"{NAMESPACE}.{cls.__name__}"
        self.fields = tuple(_field(f.name, hints[f.name], known) for f in fields(cls))
        self.names = tuple(f.name for f in self.fields)

    def fault(self, record: object, path: str = "") -> str | None:
        """What is wrong with the record's types, or null; names the first field that does not fit."""
        path = path or self.cls.__name__
        if type(record) is not self.cls:
            return f"{path}: expected {self.cls.__name__}, got {told(record)}"
        for field in self.fields:
            where = f"{path}.{field.name}"
            if not hasattr(record, field.name):
                return f"{where}: missing"
            found = _field_fault(field, getattr(record, field.name), where)
            if found is not None:
                return found
        return None

    def unstorable(self, record: Any, path: str = "") -> str | None:
        """Which value of a well-typed record Avro cannot hold: a number or a text out of range."""
        path = path or self.cls.__name__
        for field in self.fields:
            value = getattr(record, field.name)
            for item in value if field.many else (value,):
                found = _value_fault(field, item, f"{path}.{field.name}")
                if found is not None:
                    return found
        return None


def shape_of(cls: type, known: dict[type, Shape]) -> Shape:
    """The shape of a class, made once per `known`."""
    return known.get(cls) or Shape(cls, known)


def told(value: object) -> str:
    """A value for a message: its start, and its type."""
    text = ascii(value)
    return f"{text if len(text) <= 60 else text[:57] + '...'} ({type(value).__name__})"


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


def _field_fault(field: Field, value: object, path: str) -> str | None:
    if value is None and field.nullable:
        return None
    if not field.many:
        return _item_fault(field, value, path)
    if type(value) is not tuple:
        return f"{path}: expected a tuple, got {told(value)}"
    found = (_item_fault(field, item, f"{path}[{i}]") for i, item in enumerate(value))
    return next((fault for fault in found if fault is not None), None)


def _item_fault(field: Field, value: object, path: str) -> str | None:
    if field.shape is not None:
        return field.shape.fault(value, path)
    if type(value) is not field.kind:
        return f"{path}: expected {field.kind.__name__}, got {told(value)}"
    return None


def _value_fault(field: Field, value: Any, path: str) -> str | None:
    if value is None:
        return None
    if field.shape is not None:
        return field.shape.unstorable(value, path)
    if field.kind is int and not -(2**63) <= value < 2**63:
        return f"{path}: expected an integer of 64 bits, got {told(value)}"
    if field.kind is str and not _encodable(value):
        return f"{path}: expected text without lone surrogates, got {told(value)}"
    return None


def _encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
