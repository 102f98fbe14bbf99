"""A person vouches for a dead command: it is signed anew, byte for byte as it is, with a key of this keyring."""

from __future__ import annotations

from dataclasses import replace

from ...commands.identity import Identity, signed_anew
from ...commands.keyring import UNKNOWN_KEY
from ...commands.signatures import SIGNATURE_HEADER
from ...commands.wire import decode_command
from ...events.errors import Undecodable
from ...events.headers import dead_letter_in
from ...events.log.protocol import Record
from ...events.topics import Topics

UNVOUCHED = ("unsigned", UNKNOWN_KEY, "revoked_key", "expired_key")
"""Why a command was not let in that only lacks somebody who vouches for it; others say what nobody has signed."""


def why_not_vouched(record: Record) -> str:
    """Why nobody can vouch for this letter; empty where somebody can."""
    cause = dead_letter_in(record.headers)
    reason = cause.reason if cause is not None else "unknown"
    if reason not in UNVOUCHED:
        return f"it died of {reason}, and one can vouch for what died of {', '.join(UNVOUCHED)}"
    try:
        decode_command(record.value, record.headers)
    except Undecodable as error:
        return f"what it says cannot be read: {error}"
    return ""


def is_signed(record: Record) -> bool:
    """Whether it carries a signature."""
    return any(name == SIGNATURE_HEADER for name, _ in record.headers)


def vouched(record: Record, topics: Topics, identity: Identity) -> Record:
    """The letter under a new signature in place of its own; `NoKey` where no key here may say that."""
    headers = signed_anew(identity, topics.commands, record.key, record.value, record.headers)
    return replace(record, headers=headers)
