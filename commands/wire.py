"""Commands to bytes and back, and the hash by which a repeat is told from another command under the same id."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from functools import cache
from hashlib import sha256
from typing import Any, cast, get_args

from ..events.avro import Codec, Encoded
from ..events.blobs import payloads_in
from ..events.errors import Undecodable
from ..events.headers import Headers, fingerprint_in
from ..events.limits import COMMAND_MAX, NAME_BYTES_MAX, TEXT_BYTES_MAX
from ..events.scan import number_at
from .models import Command, CommandBody

COMMANDS = Codec(get_args(CommandBody), wrapper=Command, canonical=True, value_max=COMMAND_MAX)

HASH_DOMAIN = b"wakeful/command/1"

TEXTS_BEFORE_ISSUED_AT = 3
"""`tenant`, `session_id`, `command_id`: a command's schema starts with these and `issued_at_ms`, for ever."""

FREE_TEXTS = frozenset({"comment", "reason", "type", "message", "detail"})
"""Fields that hold sentences or an exception's words; every other text is a name."""

USER_DATA = "inline"
"""The field that has a limit of its own."""


def encode_command(command: Command) -> Encoded:
    """A command as bytes; raises TypeError or ValueError naming the field that does not fit."""
    return COMMANDS.encode(command)


def decode_command(value: bytes | None, headers: Headers) -> Command:
    """The command in a record; `Undecodable` says why there is none."""
    return cast("Command", COMMANDS.decode(value, fingerprint_in(headers)))


def read_command(value: bytes | None, headers: Headers) -> tuple[Command, Encoded]:
    """The command, and its bytes as stored, for `command_hash` and for parking it.

    `Undecodable` also where a text is longer than what is made of the command could hold: ids and actors are copied
    into events, outcomes, tasks and the state, each with a limit of its own.
    """
    stored = COMMANDS.open(value, fingerprint_in(headers))
    command = cast("Command", COMMANDS.decode_body(stored.body, stored.fingerprint))
    if len(stored.body) > NAME_BYTES_MAX:
        inline = sum(len(payload.inline or b"") for payload in payloads_in(command.body))
        if len(stored.body) - inline > NAME_BYTES_MAX:  # no text is longer than what holds it
            _check_texts(command, "")
    return command, stored


def command_hash(encoded: Encoded) -> bytes:
    """SHA-256 over the kind and the body, without `issued_at_ms`.

    A caller that asks again under the same id says the same thing at another time, maybe through another gateway,
    which stamps its own. Everything else is covered: actor, channel, `expected_seq` and all of the content.
    """
    start, end = _issued_at(encoded.body)
    hasher = sha256(HASH_DOMAIN + encoded.record_name.encode() + b"\0")
    hasher.update(encoded.body[:start])
    hasher.update(encoded.body[end:])
    return hasher.digest()


def _check_texts(part: Any, path: str) -> None:
    for name, limit in _limits(part.__class__):
        value = getattr(part, name)
        if isinstance(value, str | bytes):
            size = len(value.encode() if isinstance(value, str) else value)
            if limit is not None and size > limit:
                told = f"{path}{name} has {size} bytes, the limit is {limit}"
                raise Undecodable("text_too_long", told)
        elif is_dataclass(value):
            _check_texts(value, f"{path}{name}.")


@cache
def _limits(cls: type[Any]) -> tuple[tuple[str, int | None], ...]:
    """Its fields, and how long a text in each may be; null for the user's data, which has a limit of its own."""
    limits = {USER_DATA: None, **dict.fromkeys(FREE_TEXTS, TEXT_BYTES_MAX)}
    return tuple((field.name, limits.get(field.name, NAME_BYTES_MAX)) for field in fields(cls))


def _issued_at(body: bytes) -> tuple[int, int]:
    """Where the number lies, after the texts before it."""
    at = 0
    for _ in range(TEXTS_BEFORE_ISSUED_AT):
        size, at = number_at(body, at)
        if size < 0:
            raise Undecodable("bad_value", f"the length before {at} is negative")
        at += size
    return at, number_at(body, at)[1]
