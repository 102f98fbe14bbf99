"""Records to bytes and back: strict, bounded, and always by the schema that wrote them.

A stored value is `00`, the 4-byte schema id, and the Avro body (Confluent framing, for other tools). We choose the
schema by the CRC-64-AVRO fingerprint in the `wakeful_fingerprint` header; the id serves foreign producers. Bytes
from outside never raise anything but `Undecodable`, and cost no more than their size allows.

Writer and reader are our own: the stored format is a small part of Avro, fastavro's took twice the time here, and
it reads bytes that Avro does not allow (docs/decisions/0002-own-avro.md). Tests hold ours against fastavro and avro.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, get_type_hints

from ..schemas import Library, SchemaVersion, bundled
from .avro_read import Reader, Target, records_in, target_of
from .avro_write import ITEMS_MAX, Writer
from .errors import PayloadTooLarge, Undecodable
from .shapes import NAMESPACE, Shape, shape_of

FRAME = 5
"""Bytes of the framing: a zero and the schema id."""


@dataclass(frozen=True, slots=True)
class Encoded:
    """A record as bytes: `body` is hashed, `value` is stored, `fingerprint` goes into the header."""

    fingerprint: bytes
    body: bytes
    value: bytes
    record_name: str


@dataclass(frozen=True, slots=True)
class _Wrapper:
    """A class of two fields that are one record in Avro, the lead first."""

    cls: type
    lead: str
    body: str
    shape: Shape


@dataclass(frozen=True, slots=True)
class _Known:
    """One class, ready to be written, with what its readers need."""

    version: SchemaVersion
    frame: bytes
    writer: Writer
    target: Target
    wanted: dict[str, dict[str, Any]]


class Codec:
    """Encodes and decodes the records of some classes; each is prepared when it is first met.

    `wrapper` is a class of two fields, a lead and a body (`Event`), which are one record in Avro.
    """

    def __init__(
        self,
        classes: Sequence[type],
        *,
        value_max: int,
        wrapper: type | None = None,
        library: Library | None = None,
    ) -> None:
        self._library = library or bundled()
        self._classes = {f"{NAMESPACE}.{cls.__name__}": cls for cls in classes}
        self._value_max = value_max
        self._shapes: dict[type, Shape] = {}
        self._known: dict[type, _Known] = {}
        self._readers: dict[bytes, tuple[str, Reader]] = {}
        self._wrapper: _Wrapper | None = None
        if wrapper is not None:
            lead, body = (field.name for field in fields(wrapper))
            shape = shape_of(get_type_hints(wrapper)[lead], self._shapes)
            self._wrapper = _Wrapper(wrapper, lead, body, shape)

    def encode(self, record: object) -> Encoded:
        """The record as bytes. TypeError and ValueError name the field and the value; nothing is coerced."""
        cls = type(record) if self._wrapper is None else self._body_class(record)
        known = self._known.get(cls) or self._prepare(cls)
        out = [known.frame]
        try:
            known.writer.write(out, record, [ITEMS_MAX])
        except (OverflowError, ValueError) as error:
            raise ValueError(known.writer.unstorable(record) or str(error)) from error
        value = b"".join(out)
        version = known.version
        if len(value) > self._value_max:
            raise PayloadTooLarge(version.record, size=len(value), limit=self._value_max)
        return Encoded(version.fingerprint, value[FRAME:], value, version.record)

    def decode(self, value: bytes | None, fingerprint: bytes | None) -> Any:
        """The record in a framed value, by the schema of the fingerprint, or of the frame's id without one."""
        stored = self.open(value, fingerprint)
        return self.decode_body(stored.body, stored.fingerprint)

    def open(self, value: bytes | None, fingerprint: bytes | None) -> Encoded:
        """Takes a stored value apart, for hashing, without decoding its body."""
        if value is None:
            raise Undecodable("empty", "the record has no value")
        if len(value) > self._value_max:
            raise Undecodable("too_large", f"{len(value)} bytes, the limit is {self._value_max}")
        if len(value) < FRAME or value[0] != 0:
            raise Undecodable("bad_frame", f"expected 00 and a 4-byte id, got {value[:5].hex()!r}")
        if fingerprint is None:
            fingerprint = self._fingerprint_of(int.from_bytes(value[1:FRAME], "big"))
        name, _ = self._readers.get(fingerprint) or self._add_reader(fingerprint)
        return Encoded(fingerprint, value[FRAME:], value, name)

    def decode_body(self, body: bytes, fingerprint: bytes) -> Any:
        """The record in a bare Avro body; its bytes are consumed to the last one, or it is refused."""
        name, reader = self._readers.get(fingerprint) or self._add_reader(fingerprint)
        if len(body) > self._value_max:
            raise Undecodable("too_large", f"{len(body)} bytes, the limit is {self._value_max}")
        try:
            record, end = reader.read(body, 0, [ITEMS_MAX])
        except IndexError as error:
            raise _truncated(name, body) from error
        except UnicodeDecodeError as error:
            raise Undecodable("bad_value", f"a text of {name} is not UTF-8: {error}") from error
        if end > len(body):
            raise _truncated(name, body)
        if end < len(body):
            raise Undecodable("trailing_bytes", f"{len(body) - end} bytes after the end of {name}")
        return record

    def _body_class(self, record: object) -> type:
        wrapper = self._wrapper
        if wrapper is None or type(record) is not wrapper.cls:
            wanted = wrapper.cls.__name__ if wrapper else "a record"
            raise TypeError(f"expected {wanted}, got {type(record).__name__}")
        return type(getattr(record, wrapper.body))

    def _prepare(self, cls: type) -> _Known:
        name = f"{NAMESPACE}.{cls.__name__}"
        if self._classes.get(name) is not cls:
            raise TypeError(f"{cls.__name__} is not a record of this codec")
        version = self._library.current(name)
        schema = self._library.schema(version)
        shape = shape_of(cls, self._shapes)
        writer, target = Writer((("", shape),)), target_of(shape)
        if self._wrapper is not None:
            writer = Writer(
                ((self._wrapper.lead, self._wrapper.shape), (self._wrapper.body, shape))
            )
            target = _wrapped(self._wrapper, shape)
        named = tuple(field["name"] for field in schema["fields"])
        if named != target.names:
            raise TypeError(f"{version.file} has the fields {named}, its class {target.names}")
        frame = b"\0" + version.id.to_bytes(4, "big")
        known = _Known(version, frame, writer, target, records_in(schema))
        self._known[cls] = known
        return known

    def _add_reader(self, fingerprint: bytes) -> tuple[str, Reader]:
        version = self._library.of_fingerprint(fingerprint)
        if version is None:
            raise Undecodable("unknown_fingerprint", f"no bundled schema has {fingerprint.hex()!r}")
        cls = self._classes.get(version.record)
        if cls is None:
            raise Undecodable("wrong_record", f"{version.record} does not belong here")
        known = self._known.get(cls) or self._prepare(cls)
        reader = Reader(self._library.schema(version), known.target, known.wanted)
        self._readers[fingerprint] = (version.record, reader)
        return version.record, reader

    def _fingerprint_of(self, id_: int) -> bytes:
        version = self._library.of_id(id_)
        if version is None:
            raise Undecodable(
                "unknown_id", f"no fingerprint header, and no bundled schema has id {id_}"
            )
        return version.fingerprint


def _truncated(name: str, body: bytes) -> Undecodable:
    return Undecodable("truncated", f"{name} goes on after its {len(body)} bytes")


def _wrapped(wrapper: _Wrapper, shape: Shape) -> Target:
    inner, cls, body = target_of(shape), wrapper.cls, shape.cls
    return Target(
        shape.name,
        (wrapper.lead, *inner.names),
        {wrapper.lead: wrapper.shape, **inner.nested},
        lambda values: cls(values[0], body(*values[1:])),
    )
