"""Headers of a record: CloudEvents in binary mode, the schema's fingerprint, the trace, the batch, the cause.

| header | what |
|---|---|
| `ce_specversion`, `ce_type`, `ce_source`, `ce_id`, `content-type` | CloudEvents 1.0; source and id are unique together |
| `wakeful_fingerprint` | 8 bytes: CRC-64-AVRO of the schema that wrote the value |
| `traceparent` | W3C trace context, passed through |
| `wakeful_batch`, `wakeful_batch_count` | which transaction the record belongs to, and how many records that has |
| `wakeful_dlq_*` | a dead letter's reason, origin, and SHA-256 of its value |
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from typing import TYPE_CHECKING

from .avro import Encoded
from .errors import Undecodable

if TYPE_CHECKING:
    from .log.protocol import Record

Header = tuple[str, bytes]
Headers = Sequence[Header] | None

FINGERPRINT = "wakeful_fingerprint"
TRACEPARENT = "traceparent"
BATCH = "wakeful_batch"
BATCH_COUNT = "wakeful_batch_count"
DEAD = "wakeful_dlq_"

CONTENT_TYPE = b"application/avro"
SOURCE = b"wakeful"

DETAIL_MAX = 1_000
"""Bytes of a dead letter's explanation."""

OVER_QUOTA = "over_quota"
"""The reason whose letters speak of a tenant; letters that tell of several speak of a record key otherwise."""


def record_headers(encoded: Encoded, id_: str, traceparent: bytes | None = None) -> list[Header]:
    """Headers of a record of ours; `id_` is unique among records of its type."""
    headers = [*_constant(encoded.record_name, encoded.fingerprint), ("ce_id", id_.encode())]
    if traceparent is not None:
        headers.append((TRACEPARENT, traceparent))
    return headers


def event_headers(
    encoded: Encoded, key: bytes, seq: int, traceparent: bytes | None = None
) -> list[Header]:
    """Headers of an event: its id is `<tenant>/<session_id>/<seq>`."""
    headers = [
        *_constant(encoded.record_name, encoded.fingerprint),
        ("ce_id", b"%b/%d" % (key, seq)),
    ]
    if traceparent is not None:
        headers.append((TRACEPARENT, traceparent))
    return headers


def batch_headers(batch_id: str, count: int) -> tuple[Header, Header]:
    """For every record of a transaction: all `count` of them are visible, or none is."""
    return (BATCH, batch_id.encode()), (BATCH_COUNT, b"%d" % count)


def find(headers: Headers, name: str) -> bytes | None:
    """The value of a header; `Undecodable` where it is given twice, with different values."""
    found: bytes | None = None
    for key, value in headers or ():
        if key == name:
            if found is not None and value != found:
                raise Undecodable("ambiguous_header", f"{name} is given twice")
            found = value
    return found


def fingerprint_in(headers: Headers) -> bytes | None:
    """The fingerprint that names the value's schema; foreign producers may leave it out."""
    return find(headers, FINGERPRINT)


@cache
def _constant(record_name: str, fingerprint: bytes) -> tuple[Header, ...]:
    """What is equal for all records of one schema; the cache holds one entry for each."""
    return (
        ("ce_specversion", b"1.0"),
        ("ce_type", record_name.encode()),
        ("ce_source", SOURCE),
        ("content-type", CONTENT_TYPE),
        (FINGERPRINT, fingerprint),
    )


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """Where a dead letter came from, and why it is one; `count` is of how many, itself the first, up to `last_offset`."""

    reason: str
    detail: str
    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    sha256: str
    count: int = 1
    last_offset: int = -1


def dead_letter_headers(
    record: Record, reason: str, detail: str, *, count: int = 1, last_offset: int | None = None
) -> list[Header]:
    """The record's own headers, then cause and origin; marks of an earlier death are replaced.

    With a count it stands for so many records of its partition, itself the first, up to the last offset.
    """
    own = [(key, value) for key, value in record.headers if not key.startswith(DEAD)]
    cause: dict[str, object] = {
        "reason": reason,
        "detail": detail,
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp_ms": record.timestamp_ms,
        "sha256": sha256(record.value or b"").hexdigest(),
    }
    if count > 1:
        cause |= {"count": count, "last_offset": last_offset}
    told = ((DEAD + name, _text(value)) for name, value in cause.items())
    return [*own, *told]


def dead_letter_in(headers: Headers) -> DeadLetter | None:
    """What `dead_letter_headers` wrote, or null where the record is no dead letter of ours."""
    marks = [(key, value) for key, value in headers or () if key.startswith(DEAD)]
    found = {key[len(DEAD) :]: value.decode("utf-8", "replace") for key, value in marks}
    try:
        return DeadLetter(
            reason=found["reason"],
            detail=found["detail"],
            topic=found["topic"],
            partition=int(found["partition"]),
            offset=int(found["offset"]),
            timestamp_ms=int(found["timestamp_ms"]),
            sha256=found["sha256"],
            count=int(found.get("count", 1)),
            last_offset=int(found.get("last_offset", found["offset"])),
        )
    except (KeyError, ValueError):
        return None  # written by somebody else: it is shown without a cause


def _text(value: object) -> bytes:
    """UTF-8 within the bound, whatever the text holds, and not cut inside a character."""
    raw = str(value).encode("utf-8", "backslashreplace")[:DETAIL_MAX]
    return raw.decode("utf-8", "ignore").encode()
