"""What a client is given, checked before anything is sent: names, texts, digests, user data. Each error says what fits."""

from __future__ import annotations

import re

from ..events.blobs import Blobs, put_payload
from ..events.errors import InvalidKey, InvalidPayload, PayloadTooLarge, Rejected
from ..events.limits import TEXT_MAX
from ..events.records import Payload
from ..events.state import MESSAGE
from .actors import is_reserved
from .check import NAME_LENGTH_MAX

SEQ_MAX = 2**63 - 1
"""What an Avro long holds."""

DIGEST_BYTES = 32

_ACTIVITY_ID = re.compile(r"[1-9][0-9]{0,14}\.[1-9][0-9]{0,14}", re.ASCII)
"""`turn.step`, both from 1."""


def name(what: str, value: str) -> str:
    """A short printable text."""
    if (
        not isinstance(value, str)
        or not 1 <= len(value) <= NAME_LENGTH_MAX
        or not value.isprintable()
    ):
        shown = (
            ascii(value) if len(str(value)) <= NAME_LENGTH_MAX else f"of {len(value)} characters"
        )
        raise InvalidKey(
            f"{what} {shown} is not allowed: use 1 to {NAME_LENGTH_MAX} printable characters"
        )
    return value


def actor(value: str) -> str:
    """Who speaks: a name that is none of the engine's own."""
    name("actor", value)
    if value != value.strip():
        raise InvalidKey(f"actor {value!a} is not allowed: leave out the spaces around it")
    if is_reserved(value):
        raise InvalidKey(
            f"actor {value!a} is not allowed: it is a name of the engine's own, so take another"
        )
    return value


def trigger(value: str) -> str:
    """The kind of occasion that starts a turn; that of a message is taken."""
    if value == MESSAGE:
        raise Rejected(f"trigger {MESSAGE!r} is for messages: send one, or give another name")
    return name("trigger", value)


def activity_id(value: str) -> str:
    """An activity of a session, as `turn.step`."""
    if not isinstance(value, str) or _ACTIVITY_ID.fullmatch(value) is None:
        shown = ascii(value)[:NAME_LENGTH_MAX]
        raise InvalidKey(
            f"activity id {shown} is not one: pass turn.step, such as 1.3, as the ledger shows it"
        )
    return value


def attempt(value: int) -> int:
    """The number of an attempt, from 1; 0 names none."""
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= SEQ_MAX:
        raise Rejected(f"attempt {value!r} is not one: pass its number, as 'session show' has it")
    return value


def text(what: str, value: str) -> str:
    """A sentence, or none."""
    if len(value) > TEXT_MAX:
        raise InvalidPayload(
            f"the {what} has {len(value)} characters and the limit is {TEXT_MAX}: shorten it"
        )
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise InvalidPayload(f"the {what} is not text: {error.reason} at {error.start}") from error
    return value


def data(what: str, value: object, tenant: str, digest_key: bytes, blobs: Blobs | None) -> Payload:
    """Anything that is JSON, as it is stored; where it is too large for a record, it is in the store of blobs by then."""
    try:
        return put_payload(value, tenant, digest_key, blobs)
    except PayloadTooLarge as error:
        size, limit, advice = error.size, error.limit, error.advice
        raise PayloadTooLarge(f"the {what}", size=size, limit=limit, advice=advice) from None


def digest(value: bytes | str) -> bytes:
    """The digest of a proposal: bytes, or hex as it is shown."""
    try:
        found = bytes.fromhex(value) if isinstance(value, str) else value
    except ValueError:
        raise Rejected(f"digest {value!r} is not hex: pass it as the approval shows it") from None
    if len(found) != DIGEST_BYTES:
        raise Rejected(
            f"the digest has {len(found)} bytes, expected {DIGEST_BYTES}: pass it as the approval shows it"
        )
    return found


def seq(value: int | None) -> int | None:
    """A session's version, or none."""
    if value is not None and not 0 <= value <= SEQ_MAX:
        raise Rejected(
            f"expected_seq is {value}: give the number of the session's last event, from 0 to {SEQ_MAX}"
        )
    return value
