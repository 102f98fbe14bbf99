"""Avro bytes to records: for each class one function, made once, that reads the one form in which we write it.

Avro has several forms of one value: long numbers padded, arrays cut into blocks. What `writing.py` writes has one, and
so has what strangers may send. So these functions take that form alone, and give nothing for bytes in any other, or in
none: those are read by fastavro, which is general, knows what is wrong with them, and takes three times as long.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .shapes import Field, Part, Shape

SHIFT_MAX = 63
"""Bits of a number before its last byte."""

Read = Callable[[bytes, int], tuple[Any, int]]
"""From the bytes and a position in them: a value, and the position after it. IndexError or ValueError in another form."""


class Reader:
    """Reads the records of one class, or a `make` of several parts that are one record in Avro."""

    def __init__(self, parts: Sequence[Part], make: Callable[..., Any]) -> None:
        self._read = _Source({}).function([shape for _, shape in parts], make)

    def read(self, body: bytes) -> Any | None:
        """The record, if these bytes are one from the first to the last, in our form."""
        try:
            record, end = self._read(body, 0)
        except (IndexError, ValueError):
            return None
        return record if end == len(body) else None


class _Source:
    """The lines of one function, and what they name."""

    def __init__(self, made: dict[type, Read]) -> None:
        self._made = made
        self._space: dict[str, Any] = {"number": _number, "size": _size, "many": _many}
        self._lines: list[str] = []
        self._values = 0

    def function(self, shapes: Sequence[Shape], make: Callable[..., Any]) -> Read:
        """Reads these records, one after another, and makes one of them where there are several."""
        whole = [self._record(shape) for shape in shapes]
        if len(whole) > 1:
            return self._compiled(f"{self._known(make)}({', '.join(whole)})")
        return self._compiled(whole[0])

    def item(self, field: Field) -> Read:
        """Reads a primitive that stands in an array."""
        return self._compiled(self._value(field.kind, " "))

    def _compiled(self, whole: str) -> Read:
        lines = "\n".join(self._lines)
        exec(f"def read(body, at):\n{lines}\n return {whole}, at", self._space)  # noqa: S102 names of classes only
        read: Read = self._space["read"]
        return read

    def _record(self, shape: Shape) -> str:
        """The words that make the record of what its lines have read."""
        arguments = []
        for field in shape.fields:
            if field.shape is not None and not (field.many or field.nullable):
                arguments.append(self._record(field.shape))
            else:
                arguments.append(self._leaf(field))
        return f"{self._known(shape.cls)}({', '.join(arguments)})"

    def _leaf(self, field: Field) -> str:
        if field.many:
            item = self._nested(field.shape) if field.shape else _Source(self._made).item(field)
            return self._call(f"many(body, at, {self._known(item)})", " ")
        if not field.nullable:
            return self._value(field.kind, " ")
        self._lines.append(" n = body[at]; at += 1\n if n == 2:")
        if field.shape is not None:
            name = self._call(f"{self._known(self._nested(field.shape))}(body, at)", "  ")
        else:
            name = self._value(field.kind, "  ")
        self._lines.append(f" elif n: raise ValueError\n else: {name} = None")
        return name

    def _value(self, kind: type, indent: str) -> str:
        """Reads a primitive; gives the name that its value has."""
        name = self._next()
        lines = ["n = body[at]; at += 1"]
        if kind is int:
            lines += ["if n > 127: n, at = number(body, at)", f"{name} = (n >> 1) ^ -(n & 1)"]
        elif kind is bool:
            lines += ["if n > 1: raise ValueError", f"{name} = n == 1"]
        else:
            text = ".decode()" if kind is str else ""
            lines += ["if n & 129: n, at = size(body, at)", "end = at + (n >> 1)"]
            lines += [f"{name} = body[at:end]{text}", "at = end"]
        self._lines += [indent + line for line in lines]
        return name

    def _call(self, call: str, indent: str) -> str:
        name = self._next()
        self._lines.append(f"{indent}{name}, at = {call}")
        return name

    def _nested(self, shape: Shape) -> Read:
        if shape.cls not in self._made:
            self._made[shape.cls] = _Source(self._made).function([shape], shape.cls)
        return self._made[shape.cls]

    def _next(self) -> str:
        self._values += 1
        return f"v{self._values}"

    def _known(self, thing: Any) -> str:
        name = f"k{len(self._space)}"
        self._space[name] = thing
        return name


def _number(body: bytes, at: int) -> tuple[int, int]:
    """A number of two bytes or more, before its zig-zag is undone; its first byte is the one before this position."""
    number, shift = body[at - 1] & 0x7F, 7
    while (byte := body[at]) > 0x7F:
        number |= (byte & 0x7F) << shift
        shift += 7
        at += 1
        if shift > SHIFT_MAX:
            break  # over 64 bits already: a number of a thousand bytes would cost the square of them
    number |= byte << shift
    if not byte or number >= 2**64:
        raise ValueError("a padded number, or one of over 64 bits")
    return number, at + 1


def _size(body: bytes, at: int) -> tuple[int, int]:
    """The same for a size, which is not negative: any odd number is, or goes on in the next byte."""
    number, at = _number(body, at) if body[at - 1] > 0x7F else (body[at - 1], at)
    if number & 1:
        raise ValueError("a negative size")
    return number, at


def _many(body: bytes, at: int, item: Read) -> tuple[tuple[Any, ...], int]:
    """An array in one block."""
    count = body[at]
    at += 1
    if not count:
        return (), at
    if count & 129:
        count, at = _size(body, at)
    values = []
    for _ in range(count >> 1):
        value, at = item(body, at)
        values.append(value)
    if body[at]:
        raise ValueError("a second block")
    return tuple(values), at + 1
