"""The envelope alone, of any event, even one whose record type this version does not know.

Every event's schema begins with the envelope, and the envelope with the fields that it had at first, for ever, so these
bytes can be read without the rest. What was added behind them (`vouched_by`) is not told here: which events have it,
only their own schema says.
"""

from __future__ import annotations

from functools import cache
from io import BytesIO
from typing import Any, cast

from fastavro import parse_schema, schemaless_reader

from ..schemas import bundled
from .avro import FRAME
from .errors import Undecodable
from .hashing import FINGERPRINT_SIZE
from .headers import fingerprint_in
from .log.protocol import Record
from .records import Envelope
from .shapes import NAMESPACE, Shape, shape_of

LAST = "prev_hash"
"""The last of the fields that every event ever written has."""


def read_envelope(body: bytes) -> Envelope:
    """The envelope at the start of an event's Avro body, as far as `LAST`; `Undecodable` where there is none."""
    schema, shape = _envelope()
    try:
        read = schemaless_reader(BytesIO(body), schema, None)
    except (EOFError, IndexError, KeyError, OverflowError, TypeError, ValueError) as error:
        raise Undecodable(
            "bad_envelope", f"the bytes do not begin with an envelope: {error}"
        ) from error
    return cast("Envelope", shape.build({**cast("dict[str, Any]", read), "vouched_by": None}))


def stored_bytes(record: Record) -> tuple[bytes, bytes]:
    """Fingerprint and Avro body of an event as it lies in the log, whether or not its schema is known."""
    fingerprint = fingerprint_in(record.headers)
    value = record.value or b""
    if (
        fingerprint is None
        or len(fingerprint) != FINGERPRINT_SIZE
        or len(value) <= FRAME
        or value[0] != 0
    ):
        raise Undecodable(
            "bad_frame", f"no event at {record.topic}/{record.partition}/{record.offset}"
        )
    return fingerprint, value[FRAME:]


@cache
def _envelope() -> tuple[Any, Shape]:
    library = bundled()
    event = library.schema(library.current(f"{NAMESPACE}.SessionOpened"))
    schema = dict(event["fields"][0]["type"])
    named = [field["name"] for field in schema["fields"]]
    schema["fields"] = schema["fields"][: named.index(LAST) + 1]
    return parse_schema(schema), shape_of(Envelope, {})
