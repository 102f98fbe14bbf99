"""User data on its way into a record and out of it: canonical JSON, bounded, with a keyed digest.

Equal values give equal bytes (sorted keys, no spaces, UTF-8), so digests can be compared. NUL and lone surrogates,
which models do produce, survive as JSON escapes; NaN and infinities, which JSON does not have, are refused.
"""

from __future__ import annotations

import hmac
import json
from collections.abc import Sequence
from typing import Any

from .errors import InvalidPayload, PayloadTooLarge
from .keyed import keyed_hash
from .limits import PAYLOAD_MAX, TEXT_MAX
from .records import Payload, Version
from .shown import shown

JSON = "json"

ACTION_DOMAIN = b"wakeful/action/1"

_ENCODER = json.JSONEncoder(
    sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
)

DEPTH_MAX = 64
"""Levels of nesting in user data; far below where Python's own stack ends."""


def json_payload(value: object, digest_key: bytes) -> Payload:
    """The value as stored; `InvalidPayload` or `PayloadTooLarge` where it cannot be."""
    data = canonical_json(value)
    if len(data) > PAYLOAD_MAX:
        raise PayloadTooLarge("the payload", size=len(data), limit=PAYLOAD_MAX)
    return Payload(JSON, data, None, keyed_digest(data, digest_key), len(data), None)


def load_json(payload: Payload, digest_key: bytes | None = None) -> Any:
    """The value, decoded afresh; checks size and encoding, and the digest where its key is given."""
    data = payload.inline
    if payload.encoding != JSON or data is None or payload.key_id is not None:
        raise InvalidPayload(
            f"expected inline json, got {payload.encoding!r}, ref {payload.ref!r}, key {payload.key_id!r}"
        )
    if len(data) != payload.size:
        raise InvalidPayload(
            f"the payload is said to have {payload.size} bytes and has {len(data)}"
        )
    if digest_key is not None and not hmac.compare_digest(
        keyed_digest(data, digest_key), payload.digest
    ):
        raise InvalidPayload("the payload's bytes do not match its digest")
    try:
        return json.loads(data, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise InvalidPayload(f"the payload is not json: {error}") from error


def canonical_json(value: object) -> bytes:
    """The one form of a JSON value: sorted keys, no spaces, UTF-8, lone surrogates escaped."""
    _check_json(value, 0)
    try:
        text = _ENCODER.encode(value)
    except (TypeError, ValueError) as error:
        raise InvalidPayload(f"the value has no json form: {error}") from error
    try:
        return text.encode()
    except UnicodeEncodeError:
        # Halves that stand side by side are one character to every JSON reader, so they are to us.
        joined = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
        return joined.encode("utf-8", "backslashreplace")


def keyed_digest(data: bytes, digest_key: bytes) -> bytes:
    """HMAC-SHA-256: with the key destroyed, a digest says nothing about the data."""
    if not digest_key:
        raise ValueError(
            "the digest key is empty: give the one of your settings, WAKEFUL_DIGEST_KEY"
        )
    return keyed_hash(digest_key, data)


def action_digest(
    name: str,
    contract: str,
    arguments: bytes,
    approver: str,
    digest_key: bytes,
    terms: bytes = b"",
) -> bytes:
    """What an approval binds: this tool, this contract, these canonical arguments, this approver rule and its terms.

    Each part is preceded by its length in four bytes, so that no part can lend bytes to its neighbour; the first is
    a domain, which no payload's JSON starts like.
    """
    parts = [ACTION_DOMAIN, name.encode(), contract.encode(), arguments, approver.encode()]
    parts += [terms] if terms else []
    joined = b"".join(len(part).to_bytes(4, "big") + part for part in parts)
    return keyed_digest(joined, digest_key)


def approval_terms(quorum: int, requester: str, relies_on: Sequence[Version]) -> bytes:
    """The rest of what an approval binds, where there is any: how many approve, who may not, what data it was made from."""
    if quorum == 1 and not requester and not relies_on:
        return b""
    return canonical_json([quorum, requester, sorted([v.name, v.version] for v in relies_on)])


def storable_text(text: str, length_max: int = TEXT_MAX) -> str:
    """A free text (an exception's message, say) as a record can hold it: bounded, lone surrogates escaped."""
    cut = text if len(text) <= length_max else text[: length_max - 1] + "…"
    return cut.encode("utf-8", "backslashreplace").decode()


def _check_json(value: object, depth: int) -> None:
    """json.dumps would turn the keys 1, True and None into text, and two keys into one."""
    if depth > DEPTH_MAX:
        raise InvalidPayload(
            f"the value is nested more than {DEPTH_MAX} deep: flatten it, or pass it as text"
        )
    if isinstance(value, dict):
        for key, item in value.items():
            if not isinstance(key, str):
                raise InvalidPayload(
                    f"json keys are text, got {shown(key)} ({type(key).__name__}): make a text of it"
                )
            if isinstance(item, (dict, list, tuple)):
                _check_json(item, depth + 1)
    elif isinstance(value, (list, tuple)):
        for item in value:
            if isinstance(item, (dict, list, tuple)):
                _check_json(item, depth + 1)


def _refuse_constant(name: str) -> object:
    raise ValueError(f"{name} is not json")
