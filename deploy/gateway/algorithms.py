"""Which signatures of others count, and which of their keys makes one: never 'none', and never a secret they share."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

from cryptography.exceptions import UnsupportedAlgorithm
from joserfc.errors import JoseError, SecurityWarning
from joserfc.jwk import ECKey, JWKRegistry, Key, KeySet, OKPKey, RSAKey

ALGORITHMS = (
    *("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    *("ES256", "ES384", "ES512", "EdDSA", "Ed25519"),
)

RSA_BITS_MIN = 2_048

KEYS_MAX = 100

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


def public_keys(found: Any) -> KeySet:
    """The keys of a JWK set that can sign for us; others beside them do no harm. ValueError where there are none."""
    rows = found["keys"] if isinstance(found, dict) else None
    if not isinstance(rows, list) or len(rows) > KEYS_MAX:
        raise ValueError(f"it is no JWK set of at most {KEYS_MAX} keys")
    keys = [key for row in rows if (key := _read(row)) is not None]
    if not keys:
        raise ValueError("none of its keys can be used here")
    return KeySet(keys)


def _read(row: Any) -> Key | None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SecurityWarning)  # small keys are left out below
        try:
            key = JWKRegistry.import_key(row)
        except (JoseError, ValueError, TypeError, KeyError, AttributeError, UnsupportedAlgorithm):
            return None
    return key if any(_fits(key, algorithm) for algorithm in ALGORITHMS) else None


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
