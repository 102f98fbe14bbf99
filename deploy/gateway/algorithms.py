"""Which signatures of others count, and which of their keys makes one: never 'none', and never a secret they share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from joserfc.jwk import ECKey, Key, KeySet, OKPKey, RSAKey

ALGORITHMS = (
    *("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    *("ES256", "ES384", "ES512", "EdDSA", "Ed25519"),
)

RSA_BITS_MIN = 2_048

_EC = {"ES256": "P-256", "ES384": "P-384", "ES512": "P-521"}


def key_for(keys: KeySet, header: Mapping[str, Any]) -> Key | None:
    """The key that this header names, where its kind fits the algorithm; without a name the only one that fits."""
    algorithm, kid = header.get("alg"), header.get("kid")
    if algorithm not in ALGORITHMS:
        return None
    fitting = [key for key in keys.keys if _fits(key, str(algorithm))]
    if kid is not None:
        fitting = [key for key in fitting if key.kid == kid]
    return fitting[0] if len(fitting) == 1 else None


def names(keys: KeySet, kid: object) -> bool:
    """Whether one of them has this name."""
    return any(key.kid == kid for key in keys.keys)


def _fits(key: Key, algorithm: str) -> bool:
    said = key.as_dict(private=False)
    if said.get("use", "sig") != "sig" or said.get("alg", algorithm) != algorithm:
        return False
    match key:
        case RSAKey():
            return algorithm[:2] in ("RS", "PS") and key.raw_value.key_size >= RSA_BITS_MIN
        case ECKey():
            return _EC.get(algorithm) == key.curve_name
        case OKPKey():
            return algorithm in ("EdDSA", "Ed25519") and key.curve_name == "Ed25519"
        case _:
            return False
