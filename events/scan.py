"""Walks the bytes of a large record by its schema before anything is built from them.

A megabyte of zeros can be half a million empty items, each a Python object of a hundred bytes. Small records
cannot do harm; large ones are walked first, which costs little where they are large because of one payload.
"""

from __future__ import annotations

from typing import Any

from .errors import Undecodable
from .limits import ITEMS_MAX, item_weight

SCAN_ABOVE = 16 * 1024
"""Bytes up to which a record may hold whatever it can: a few thousand items, a few milliseconds."""

NUMBER_BYTES_MAX = 10
"""64 bits, seven in each byte."""


def scan(schema: dict[str, Any], body: bytes) -> None:
    """Raises `Undecodable` for too many items, or for sizes that do not fit; accepts what it cannot fault."""
    named: dict[str, Any] = {}
    _collect(schema, named)
    _Walk(body, named).record(schema)


def _collect(kind: Any, named: dict[str, Any]) -> None:
    """The records by name: a schema spells one out where it comes first, which may be a branch that no bytes take."""
    if isinstance(kind, list):
        for branch in kind:
            _collect(branch, named)
    elif isinstance(kind, dict) and kind["type"] == "array":
        _collect(kind["items"], named)
    elif isinstance(kind, dict) and kind["type"] == "record":
        named[kind["name"]] = kind
        for field in kind["fields"]:
            _collect(field["type"], named)


def _values_in(kind: Any, named: dict[str, Any]) -> int:
    """How many values one of this type holds at most, an array counted as one."""
    if isinstance(kind, list):
        return max(_values_in(branch, named) for branch in kind)
    record = named.get(kind) if isinstance(kind, str) else kind
    if record is None or record["type"] != "record":
        return 1
    return sum(_values_in(field["type"], named) for field in record["fields"])


class _Walk:
    """A position in the bytes, and what was counted so far."""

    def __init__(self, body: bytes, named: dict[str, Any]) -> None:
        self.body = body
        self.at = 0
        self.items = 0
        self.named = named

    def record(self, schema: dict[str, Any]) -> None:
        for field in schema["fields"]:
            self.value(field["type"])

    def value(self, kind: Any) -> None:
        if isinstance(kind, list):
            branch = self.number()
            if not 0 <= branch < len(kind):
                raise Undecodable("bad_value", f"a union of {len(kind)} has no branch {branch}")
            kind = kind[branch]
        if isinstance(kind, str):
            self.primitive(kind)
        elif kind["type"] == "array":
            self.array(kind["items"])
        elif kind["type"] == "record":
            self.record(kind)
        else:
            self.primitive(kind["type"])

    def primitive(self, kind: str) -> None:
        if kind == "null":
            return
        if kind == "boolean":
            self.skip(1)
        elif kind in {"long", "int"}:
            self.number()
        elif kind in {"string", "bytes"}:
            self.skip(self.number())
        else:
            self.record(self.named[kind])

    def array(self, items: Any) -> None:
        weight = item_weight(_values_in(items, self.named))
        while count := self.number():
            if count < 0:
                count = -count
                self.number()
            self.items += count * weight
            if self.items > ITEMS_MAX:
                raise Undecodable("too_large", f"over {ITEMS_MAX} items in its arrays")
            for _ in range(count):
                self.value(items)

    def skip(self, size: int) -> None:
        if not 0 <= size <= len(self.body) - self.at:
            raise Undecodable("truncated", f"{size} bytes are said to follow at {self.at}")
        self.at += size

    def number(self) -> int:
        found, self.at = number_at(self.body, self.at)
        return found


def number_at(body: bytes, at: int) -> tuple[int, int]:
    """Avro's zig-zag number at a position, and the position after it; `Undecodable` where there is none."""
    result = shift = 0
    for end in range(at, min(at + NUMBER_BYTES_MAX, len(body))):
        byte = body[end]
        result |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (result >> 1) ^ -(result & 1), end + 1
        shift += 7
    if len(body) - at < NUMBER_BYTES_MAX:
        raise Undecodable("truncated", f"a number goes on after the end, at {len(body)}")
    raise Undecodable("bad_value", f"a number of more than {NUMBER_BYTES_MAX} bytes at {at}")
