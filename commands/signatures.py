"""The signature of a command: what is signed, the two algorithms, and the headers that carry it.

Kafka cannot tell a consumer who produced a record, so whoever vouches for a command says so itself. Signed are, each
after its length in 4 bytes, big-endian: the cluster's id, the topic, the record's key and its value; before them all
stands `wakeful/1`. A record copied to another topic, cluster or session therefore has no valid signature. `issued_at`
lies in the value, so a copy in the same place is a repeat, or too old.

| header | what |
|---|---|
| `wakeful_key` | the id of the key, UTF-8 |
| `wakeful_signature` | HMAC-SHA-256: 32 bytes; Ed25519: 64 bytes |
"""

from __future__ import annotations

import hmac
import secrets
from functools import lru_cache
from typing import TYPE_CHECKING

from ..events import signed
from ..events.keyed import keyed_hash

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import (
        Ed25519PrivateKey,
        Ed25519PublicKey,
    )

KEY_HEADER = signed.KEY_HEADER
SIGNATURE_HEADER = "wakeful_signature"
SIGNED = (KEY_HEADER, SIGNATURE_HEADER)
"""The headers that vouch for a record: whatever else it has is its own."""

DOMAIN = b"wakeful/1"

HMAC_SHA256 = "hmac-sha256"
ED25519 = "ed25519"
ALGORITHMS = (HMAC_SHA256, ED25519)

SECRET_BYTES = 32
"""Of a secret, a private key and a public half alike."""

LOADED_MAX = 1_024
"""Ed25519 keys kept ready for use: loading one takes as long as half a signature."""


def signed_bytes(cluster_id: str, topic: str, key: bytes | None, value: bytes | None) -> bytes:
    """What a signature is over; see the module. A missing key or value counts as an empty one."""
    key, value = key or b"", value or b""
    return b"%b%b%b%b%b" % (
        _place(cluster_id, topic),
        len(key).to_bytes(4, "big"),
        key,
        len(value).to_bytes(4, "big"),
        value,
    )


def sign(algorithm: str, secret: bytes, message: bytes) -> bytes:
    """The signature of these bytes by a secret (HMAC) or a private key (Ed25519)."""
    if algorithm == HMAC_SHA256:
        return keyed_hash(secret, message)
    return _private(secret).sign(message)


def verifies(algorithm: str, known: bytes, message: bytes, signature: bytes) -> bool:
    """Whether the signature is of these bytes, by the secret (HMAC) or the public half (Ed25519) that is known."""
    if algorithm == HMAC_SHA256:
        return hmac.compare_digest(keyed_hash(known, message), signature)
    from cryptography.exceptions import InvalidSignature

    try:
        _public(known).verify(signature, message)
    except InvalidSignature:
        return False
    return True


def new_secret() -> bytes:
    """A fresh secret, or a fresh private key: 32 random bytes are either."""
    return secrets.token_bytes(SECRET_BYTES)


def public_half(private: bytes) -> bytes:
    """What verifies the signatures of an Ed25519 private key, and makes none."""
    return _private(private).public_key().public_bytes_raw()


@lru_cache(maxsize=256)
def _place(cluster_id: str, topic: str) -> bytes:
    """The part that is the same for all commands of one topic."""
    parts = (cluster_id.encode(), topic.encode())
    return DOMAIN + b"".join(len(part).to_bytes(4, "big") + part for part in parts)


@lru_cache(maxsize=LOADED_MAX)
def _private(secret: bytes) -> Ed25519PrivateKey:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    return Ed25519PrivateKey.from_private_bytes(secret)


@lru_cache(maxsize=LOADED_MAX)
def _public(known: bytes) -> Ed25519PublicKey:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    return Ed25519PublicKey.from_public_bytes(known)
