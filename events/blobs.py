"""Large payloads: their bytes lie in a store, and records hold a reference. The port, the names, the pure rules.

A blob's name follows from its content: `<tenant>/<hex of the keyed digest>`. So a repeat puts the same bytes under
the same name, two writers cannot disagree, and the name says nothing about the data to whoever lacks the key.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Iterator
from dataclasses import is_dataclass, replace
from functools import cache
from typing import Any, Protocol, get_args, get_type_hints

from .errors import BlobDamaged, BlobMissing, BlobUnavailable, InvalidPayload, PayloadTooLarge
from .keys import ID
from .limits import BLOB_MAX, PAYLOAD_MAX
from .payloads import JSON, canonical_json, keyed_digest
from .records import Payload

INLINE_MAX = PAYLOAD_MAX
"""Bytes of a payload that stay in its record; the simulation makes do with fewer."""

SETTING = "WAKEFUL_BLOBS"
"""What an operator sets to have a store."""

BLOB_FAULTS = (BlobMissing, BlobDamaged, BlobUnavailable)
"""What a store may raise, and nothing else."""

_REF = re.compile(rf"({ID.pattern})/[0-9a-f]{{64}}", re.ASCII)


class Blobs(Protocol):
    """A store of bytes by name. Safe to use from several threads."""

    def put(self, ref: str, data: bytes) -> None:
        """Keeps the bytes under this name; whole or not at all. A repeat is cheap and changes nothing.

        `BlobDamaged` where other bytes have the name, `BlobUnavailable` where nobody can tell.
        """

    def get(self, ref: str) -> bytes:
        """The bytes; `BlobMissing`, `BlobDamaged` or `BlobUnavailable` where there are none to be had."""

    def doubt(self, ref: str) -> None:
        """Told by a reader that the bytes it got are not the right ones: no memory of them is to be trusted."""


class MemoryBlobs:
    """A store that lives as long as its process: for tests, rehearsals and the simulation."""

    def __init__(self) -> None:
        self.held: dict[str, bytes] = {}

    def put(self, ref: str, data: bytes) -> None:
        """See `Blobs`."""
        if self.held.setdefault(check_ref(ref), data) != data:
            raise other_bytes(ref, size=len(data), found=len(self.held[ref]))

    def get(self, ref: str) -> bytes:
        """See `Blobs`."""
        try:
            return self.held[check_ref(ref)]
        except KeyError:
            raise missing(ref) from None

    def doubt(self, ref: str) -> None:
        """See `Blobs`."""


def ref_of(tenant: str, digest: bytes) -> str:
    """The name of a tenant's data with this keyed digest."""
    return check_ref(f"{tenant}/{digest.hex()}")


def check_ref(ref: str) -> str:
    """The name where it is one; `InvalidPayload` where it is not, or would lead out of the store."""
    named = _REF.fullmatch(ref)
    if named is None or named[1] in (".", ".."):
        raise InvalidPayload(
            f"reference {ref[:200]!a} is not <tenant>/<64 hex digits of the keyed digest>"
        )
    return ref


def claim(
    value: object, tenant: str, digest_key: bytes, *, stores: bool
) -> tuple[Payload, bytes | None]:
    """The value as a payload: inline, or where it is too large a reference, with the bytes that are to be put first.

    `PayloadTooLarge` where it is too large for a record and nobody `stores`, or larger than any blob.
    """
    data = canonical_json(value)
    if len(data) > INLINE_MAX and not stores:
        advice = f"set {SETTING} to have it stored beside the log, or pass a reference of your own"
        raise PayloadTooLarge("the payload", size=len(data), limit=INLINE_MAX, advice=advice)
    if len(data) > BLOB_MAX:
        raise PayloadTooLarge("the payload", size=len(data), limit=BLOB_MAX)
    digest = keyed_digest(data, digest_key)
    if len(data) <= INLINE_MAX:
        return Payload(JSON, data, None, digest, len(data), None), None
    return Payload(JSON, None, ref_of(tenant, digest), digest, len(data), None), data


def put_payload(value: object, tenant: str, digest_key: bytes, blobs: Blobs | None) -> Payload:
    """The value as a payload that everybody can read: its bytes are in the store where it is a reference."""
    payload, data = claim(value, tenant, digest_key, stores=blobs is not None)
    if blobs is not None and payload.ref is not None and data is not None:
        blobs.put(payload.ref, data)
    return payload


def fetch(payload: Payload, tenant: str, digest_key: bytes, blobs: Blobs | None) -> bytes:
    """The payload's bytes, those of a reference from the store, proved to be what the record says of them."""
    ref = payload.ref
    if payload.inline is not None or ref is None:
        return payload.inline or b"null"
    told = why_no_reference(payload, tenant)
    if told is not None:
        raise BlobDamaged(f"{told}: find out who wrote the record")
    if blobs is None:
        told = f"blob {ref} cannot be read without a store"
        raise BlobUnavailable(f"{told}: set {SETTING} to where whoever wrote it puts them")
    data = blobs.get(ref)
    if _why_wrong(data, payload, digest_key) is not None:
        blobs.doubt(ref)
        data = blobs.get(ref)  # it may have been restored since it was read
    told = _why_wrong(data, payload, digest_key)
    if told is not None:
        blobs.doubt(ref)
        raise BlobDamaged(f"blob {ref} {told}: restore it")
    return data


def _why_wrong(data: bytes, payload: Payload, digest_key: bytes) -> str | None:
    """Why these are not the bytes that the record refers to; none where they are."""
    if len(data) != payload.size:
        return f"has {len(data)} bytes, the record says {payload.size}"
    if not hmac.compare_digest(keyed_digest(data, digest_key), payload.digest):
        return "does not have the bytes that its digest was made of, or not with this digest key"
    return None


def fetched(payload: Payload, tenant: str, digest_key: bytes, blobs: Blobs | None) -> Payload:
    """The same payload with its bytes in it, whichever way it came."""
    if payload.ref is None or payload.inline is not None:
        return payload
    return replace(payload, inline=fetch(payload, tenant, digest_key, blobs), ref=None)


def why_no_reference(payload: Payload, tenant: str) -> str | None:
    """Why this cannot be a reference to data of the tenant; none where it can. No store is asked."""
    ref = payload.ref or ""
    try:
        check_ref(ref)
    except InvalidPayload as error:
        return error.message
    if payload.inline is not None or payload.encoding != JSON or payload.key_id is not None:
        inline = "no" if payload.inline is None else len(payload.inline)
        return (
            f"reference {ref} comes with encoding {payload.encoding!r}, {inline} inline bytes and key "
            f"{payload.key_id!r}: expected 'json', none and none"
        )
    if is_foreign(payload, tenant):
        return f"reference {ref} is not of tenant {tenant!r}"
    if ref != ref_of(tenant, payload.digest):
        return f"reference {ref} is not named by its digest {payload.digest.hex()}"
    if not 1 <= payload.size <= BLOB_MAX:
        return f"reference {ref} is to {payload.size} bytes: a blob has 1 to {BLOB_MAX}"
    return None


def is_foreign(payload: Payload, tenant: str) -> bool:
    """Whether the payload is a reference to another tenant's data, by its name."""
    named = _REF.fullmatch(payload.ref or "")
    return named is not None and named[1] != tenant


def payloads_in(record: Any) -> Iterator[Payload]:
    """All payloads of a record, in the order of its fields."""
    if isinstance(record, Payload):
        yield record
    elif isinstance(record, tuple):
        for item in record:
            yield from payloads_in(item)
    elif is_dataclass(record):
        kind: Any = type(record)
        for name in _holders(kind):
            yield from payloads_in(getattr(record, name))


@cache
def _holders(kind: type) -> tuple[str, ...]:
    """The fields of a record that can hold a payload, by their types."""
    return tuple(name for name, hint in get_type_hints(kind).items() if _may_hold(hint))


def _may_hold(hint: Any) -> bool:
    parts = get_args(hint)
    if parts:
        return any(_may_hold(part) for part in parts)
    kind: Any = hint
    return hint is Payload or (is_dataclass(hint) and bool(_holders(kind)))


def missing(ref: str) -> BlobMissing:
    """The fault of a get that finds nothing."""
    return BlobMissing(f"blob {ref} is not in the store: put it back")


def other_bytes(ref: str, *, size: int, found: int) -> BlobDamaged:
    """The fault of a put that would change what is there."""
    told = f"blob {ref} is in the store with other bytes ({found}, not {size})"
    return BlobDamaged(f"{told}: it is damaged, move it away")
