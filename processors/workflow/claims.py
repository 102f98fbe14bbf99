"""The large payloads of one stretch: those it gives away, whose bytes are not stored yet, and those it is handed.

What a workflow asks for becomes a reference at once, which needs no store, so that a replay compares digests and
stores nothing. Bytes are stored when their fact is about to be recorded: a recorded reference is always to something
that was there.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ...events import records as r
from ...events.blobs import BLOB_FAULTS, Blobs, claim, fetched, payloads_in
from ...events.errors import BlobDamaged, BlobMissing, InvalidPayload, WakefulError
from ...events.payloads import storable_text

CLAIM_FAULTS = (*BLOB_FAULTS, InvalidPayload)
"""What keeps a session from going on: its payloads cannot be had, stored, or read as JSON."""


class Claims:
    """See the module."""

    def __init__(self, tenant: str, digest_key: bytes, blobs: Blobs | None) -> None:
        self._tenant = tenant
        self._digest_key = digest_key
        self._blobs = blobs
        self._unstored: dict[str, bytes] = {}

    def payload(self, value: Any) -> r.Payload:
        """The value as it is recorded; no store is asked."""
        stores = self._blobs is not None
        payload, data = claim(value, self._tenant, self._digest_key, stores=stores)
        if payload.ref is not None and data is not None:
            self._unstored[payload.ref] = data
        return payload

    def bytes_of(self, payload: r.Payload) -> bytes:
        """The bytes of what `payload` has made."""
        if payload.ref is None:
            return payload.inline or b""
        return self._unstored[payload.ref]

    def handed(self, value: Any) -> Any:
        """What a wait ended with: a payload has its bytes in it, whichever way it came; all else stays as it is."""
        if not isinstance(value, r.Payload):
            return value
        return fetched(value, self._tenant, self._digest_key, self._blobs)

    def store(self, bodies: Iterable[r.EventBody]) -> None:
        """Puts the bytes that these facts refer to; they are recorded next."""
        if not self._unstored:
            return
        for payload in payloads_in(tuple(bodies)):
            data = self._unstored.pop(payload.ref, None) if payload.ref is not None else None
            if data is not None and payload.ref is not None and self._blobs is not None:
                self._blobs.put(payload.ref, data)

    def forget(self, recorded: Iterable[r.Event]) -> None:
        """Lets go of the bytes that recorded facts refer to: they were stored before."""
        if not self._unstored:
            return
        for payload in payloads_in(tuple(event.body for event in recorded)):
            self._unstored.pop(payload.ref or "", None)


def held_by(fault: WakefulError) -> r.SessionHeld:
    """The hold of a session whose payload cannot be had or stored, and what to do about it."""
    if isinstance(fault, BlobMissing):
        reason = "payload_missing"
    elif isinstance(fault, BlobDamaged | InvalidPayload):
        reason = "payload_damaged"
    else:
        reason = "payload_unavailable"
    told = f"{fault.message}: restore it" if isinstance(fault, InvalidPayload) else fault.message
    return r.SessionHeld(reason, storable_text(f"{told}, then release"))
