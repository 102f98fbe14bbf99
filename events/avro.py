"""Records to bytes and back: strict, bounded, and always by the schema that wrote them.

A stored value is `00`, the 4-byte schema id, and the Avro body (Confluent framing, for other tools). We choose the
schema by the CRC-64-AVRO fingerprint in the `wakeful_fingerprint` header; the id serves foreign producers. Bytes
from outside never raise anything but `Undecodable`, and cost no more than their size allows.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import fields
from io import BytesIO
from typing import Any, cast, get_type_hints

from fastavro import parse_schema, schemaless_reader, schemaless_writer
from fastavro.read import SchemaResolutionError

from ..schemas import Library, SchemaVersion, bundled
from .errors import PayloadTooLarge, Undecodable
from .freezing import dataclass
from .reading import Reader
from .scan import SCAN_ABOVE, scan
from .shapes import NAMESPACE, Part, Shape, shape_of
from .writing import Writer

FRAME = 5
"""Bytes of the framing: a zero and the schema id."""

FOREIGN = (
    EOFError,
    IndexError,
    KeyError,
    OverflowError,
    TypeError,
    ValueError,
    SchemaResolutionError,
)
"""What fastavro raises on bytes that do not fit the schema."""


@dataclass(frozen=True, slots=True)
class Encoded:
    """A record as bytes: `body` is hashed, `value` is stored, `fingerprint` goes into the header."""

    fingerprint: bytes
    body: bytes
    value: bytes
    record_name: str


@dataclass(frozen=True, slots=True)
class _Known:
    """A class, ready to be written; `schema` is as its file has it."""

    version: SchemaVersion
    frame: bytes
    shape: Shape
    writer: Writer
    schema: dict[str, Any]


@dataclass(frozen=True, slots=True)
class _Reader:
    """How bytes of one fingerprint are read: `ours` by today's schema, `wanted` only where that is another one."""

    name: str
    written: Any
    wanted: Any
    build: Callable[[dict[str, Any]], Any]
    ours: Reader | None


class Codec:
    """Encodes and decodes the records of some classes.

    `wrapper` is a class of two fields, a lead and a body (`Event`): in Avro they are one record, the lead first.
    `canonical` refuses bytes that other readers might read differently: for records that strangers write.
    """

    def __init__(
        self,
        classes: Sequence[type],
        *,
        wrapper: type | None = None,
        canonical: bool = False,
        value_max: int,
        library: Library | None = None,
    ) -> None:
        self._library = library or bundled()
        self._classes = {f"{NAMESPACE}.{cls.__name__}": cls for cls in classes}
        self._shapes: dict[type, Shape] = {}
        self._wrapper = wrapper
        self._canonical = canonical
        self._value_max = value_max
        self._known: dict[type, _Known] = {}
        self._readers: dict[bytes, _Reader] = {}
        self._preparing = (
            threading.RLock()
        )  # a shape is known before it is whole: shapes nest in themselves
        if wrapper is not None:
            self._lead_name, self._body_name = (f.name for f in fields(wrapper))
            self._lead = shape_of(get_type_hints(wrapper)[self._lead_name], self._shapes)

    def encode(self, record: object) -> Encoded:
        """The record as bytes. TypeError and ValueError name the field and the value; nothing is coerced."""
        cls = type(record) if self._wrapper is None else self._body_class(record)
        known = self._known.get(cls) or self._prepare(cls)
        try:
            body = known.writer.write(record)
        except (OverflowError, ValueError) as error:
            raise ValueError(known.writer.unstorable(record) or str(error)) from error
        value = known.frame + body
        version = known.version
        if len(value) > self._value_max:
            raise PayloadTooLarge(version.record, size=len(value), limit=self._value_max)
        return Encoded(version.fingerprint, body, value, version.record)

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
        reader = self._readers.get(fingerprint) or self._add_reader(fingerprint)
        return Encoded(fingerprint, value[FRAME:], value, reader.name)

    def decode_body(self, body: bytes, fingerprint: bytes) -> Any:
        """The record in a bare Avro body; its bytes are consumed to the last one, or it is refused."""
        reader = self._readers.get(fingerprint) or self._add_reader(fingerprint)
        if len(body) > SCAN_ABOVE:
            if len(body) > self._value_max:
                raise Undecodable("too_large", f"{len(body)} bytes, the limit is {self._value_max}")
            scan(reader.written, body)
        record = reader.ours.read(body) if reader.ours is not None else None
        return self._decode_any(reader, body) if record is None else record

    def _decode_any(self, reader: _Reader, body: bytes) -> Any:
        """By fastavro: what an older schema wrote, or others in their way, and what is wrong with it."""
        source = BytesIO(body)
        try:
            read = schemaless_reader(source, reader.written, None)
        except FOREIGN as error:
            # A number that is cut is an IndexError in fastavro, as is a branch that a union lacks.
            cut = isinstance(error, IndexError) and source.tell() == len(body)
            word = "truncated" if cut or isinstance(error, EOFError) else "bad_value"
            raise Undecodable(word, f"{reader.name}: {error or 'the bytes end early'}") from error
        if source.tell() != len(body):
            left = len(body) - source.tell()
            raise Undecodable("trailing_bytes", f"{left} bytes after the end of {reader.name}")
        if self._canonical:
            _check_canonical(reader, body, read)
        if reader.wanted is not None:
            read = _resolve(reader, body)
        return reader.build(cast("dict[str, Any]", read))

    def _body_class(self, record: object) -> type:
        if type(record) is not self._wrapper:
            wanted = cast("type", self._wrapper).__name__
            raise TypeError(f"expected {wanted}, got {type(record).__name__}")
        return type(getattr(record, self._body_name))

    def _parts(self, shape: Shape) -> list[Part]:
        """What is written as one record: the lead and the body of a wrapper, or the record itself."""
        if self._wrapper is None:
            return [("", shape)]
        return [(self._lead_name, self._lead), (self._body_name, shape)]

    def _prepare(self, cls: type) -> _Known:
        name = f"{NAMESPACE}.{cls.__name__}"
        if self._classes.get(name) is not cls:
            raise TypeError(f"{cls.__name__} is not a record of this codec")
        with self._preparing:
            return self._known.get(cls) or self._make_known(cls, name)

    def _make_known(self, cls: type, name: str) -> _Known:
        version = self._library.current(name)
        schema = self._library.schema(version)
        shape = shape_of(cls, self._shapes)
        lead = (self._lead_name,) if self._wrapper is not None else ()
        named = tuple(field["name"] for field in schema["fields"])
        if named != lead + shape.names:
            raise TypeError(f"{version.file} has {named}, its class has {lead + shape.names}")
        frame = b"\0" + version.id.to_bytes(4, "big")
        known = _Known(version, frame, shape, Writer(self._parts(shape)), schema)
        self._known[cls] = known
        return known

    def _add_reader(self, fingerprint: bytes) -> _Reader:
        version = self._library.of_fingerprint(fingerprint)
        if version is None:
            raise Undecodable("unknown_fingerprint", f"no bundled schema has {fingerprint.hex()!r}")
        cls = self._classes.get(version.record)
        if cls is None:
            raise Undecodable("wrong_record", f"{version.record} does not belong here")
        known = self._known.get(cls) or self._prepare(cls)
        written = parse_schema(self._library.schema(version))
        wanted, ours = None, None
        if version.fingerprint == known.version.fingerprint:
            ours = Reader(self._parts(known.shape), self._wrapper or cls)
        else:
            wanted = parse_schema(known.schema)
        reader = _Reader(version.record, written, wanted, self._resolved(known.shape), ours)
        self._readers[fingerprint] = reader
        return reader

    def _resolved(self, shape: Shape) -> Callable[[dict[str, Any]], Any]:
        """What builds a record from fastavro's dicts, whose fields may come in any order."""
        wrapper = self._wrapper
        if wrapper is None:
            return shape.build
        name, lead = self._lead_name, self._lead
        return lambda read: wrapper(lead.build(read.pop(name)), shape.build(read))

    def _fingerprint_of(self, id_: int) -> bytes:
        version = self._library.of_id(id_)
        if version is None:
            raise Undecodable(
                "unknown_id", f"no fingerprint header, and no bundled schema has id {id_}"
            )
        return version.fingerprint


def _check_canonical(reader: _Reader, body: bytes, read: Any) -> None:
    """Avro has several forms of one value (long numbers padded, blocks cut); strangers get to use one."""
    again = BytesIO()
    schemaless_writer(again, reader.written, read)
    if again.getvalue() != body:
        raise Undecodable("not_canonical", f"the bytes are not how {reader.name} is written")


def _resolve(reader: _Reader, body: bytes) -> Any:
    try:
        return schemaless_reader(BytesIO(body), reader.written, reader.wanted)
    except FOREIGN as error:
        raise Undecodable("unresolvable", f"{reader.name}: {error}") from error
