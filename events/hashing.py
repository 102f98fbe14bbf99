"""The chain of a session's events: each hash covers the event's stored bytes and the hash before it.

Hash = SHA-256("wakeful1" ‖ fingerprint ‖ Avro body ‖ previous hash). The body is what the log holds, without
framing (the id in there is a registry's business), and is never encoded again: a new schema or library that writes
other bytes for the same facts does not break old chains. All parts but the body have fixed lengths.
"""

from __future__ import annotations

from hashlib import sha256

DOMAIN = b"wakeful1"

HASH_SIZE = 32
FINGERPRINT_SIZE = 8


def event_hash(fingerprint: bytes, body: bytes, prev_hash: bytes) -> bytes:
    """The hash of one event; `prev_hash` is that of the session's event before, zeros for the first."""
    if len(fingerprint) != FINGERPRINT_SIZE or len(prev_hash) != HASH_SIZE:
        raise ValueError(
            f"expected a fingerprint of {FINGERPRINT_SIZE} bytes and a hash of {HASH_SIZE}, "
            f"got {len(fingerprint)} and {len(prev_hash)}"
        )
    return sha256(b"".join((DOMAIN, fingerprint, body, prev_hash))).digest()
