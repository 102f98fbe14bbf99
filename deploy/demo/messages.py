"""What customers wrote: JSON Lines with `text`, and `customer` where known, read whole before anything starts.

All messages of one customer go to one session, in their order. One without a customer has a session to itself.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from ...events.limits import PAYLOAD_MAX
from ...events.payloads import canonical_json

MESSAGES_MAX = 10_000
"""One turn each; more is a load test, and `make bench` is that."""

TEXT_BYTES_MAX = PAYLOAD_MAX - 4_096
"""What one record may carry, less what is around the text."""

CUSTOMER_LENGTH_MAX = 200


class InputRefused(Exception):
    """The input cannot be used: names the file, the line, what is there and what was expected."""


@dataclass(frozen=True, slots=True)
class Incoming:
    """One message: its line in the file, what was written, by whom (empty where not known), and its session."""

    line: int
    text: str
    customer: str
    session_id: str

    @property
    def message_id(self) -> str:
        """The id that it is sent under: sent again, it changes nothing."""
        return f"line-{self.line}"


def own_messages() -> list[Incoming]:
    """The sixty that come with the package."""
    text = resources.files(f"{__package__}.refund_desk").joinpath("messages.jsonl").read_bytes()
    return parse(text.splitlines(), "messages.jsonl")


def read_messages(path: Path) -> list[Incoming]:
    """The messages of a file; `InputRefused` says what is wrong with it."""
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise InputRefused(
            f"cannot read {path}: {(error.strerror or str(error)).lower()}"
        ) from error
    return parse(raw.removeprefix(b"\xef\xbb\xbf").split(b"\n"), str(path))


def parse(lines: Iterable[bytes], name: str) -> list[Incoming]:
    """The messages in these lines; blank lines count, and say nothing."""
    found = list(_parse(lines, name))
    if not found:
        raise InputRefused(f'{name} holds no message: expected lines like {{"text": "…"}}')
    return found


def _parse(lines: Iterable[bytes], name: str) -> Iterator[Incoming]:
    count = 0
    sessions: dict[str, str] = {}
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        count += 1
        if count > MESSAGES_MAX:
            raise InputRefused(
                f"{name}:{number}: more than {MESSAGES_MAX} messages: split the file"
            )
        try:
            text, customer = _said(_object(line))
        except InputRefused as error:
            raise InputRefused(f"{name}:{number}: {error}") from error
        own = f"s{number:05d}"
        yield Incoming(
            number, text, customer, sessions.setdefault(customer, own) if customer else own
        )


def _object(line: bytes) -> dict[str, Any]:
    try:
        value = json.loads(line.decode())
    except UnicodeDecodeError as error:
        raise InputRefused(f"byte {error.start + 1} is not utf-8") from error
    except json.JSONDecodeError as error:
        raise InputRefused(f"not json ({error.msg.lower()}, column {error.colno})") from error
    except ValueError as error:  # a number of more digits than Python reads
        raise InputRefused(f"not json that can be read ({error})") from error
    except RecursionError as error:
        raise InputRefused("nested too deep") from error
    if not isinstance(value, dict):
        raise InputRefused(f'expected an object like {{"text": "…"}}, got {_kind(value)}')
    return value


def _said(value: dict[str, Any]) -> tuple[str, str]:
    """The text, and the customer."""
    if "text" not in value:
        raise InputRefused("the object has no 'text'")
    text, customer = value["text"], value.get("customer")
    if not isinstance(text, str):
        raise InputRefused(f"'text' must be a text, got {_kind(text)}")
    size = len(canonical_json(text))
    if size > TEXT_BYTES_MAX:
        raise InputRefused(f"'text' has {size} bytes and the limit is {TEXT_BYTES_MAX}")
    if customer is None:
        customer = ""
    if not isinstance(customer, str) or len(customer) > CUSTOMER_LENGTH_MAX:
        told = f"must be a text of up to {CUSTOMER_LENGTH_MAX} characters"
        raise InputRefused(f"'customer' {told}, got {_kind(customer)}")
    return text, customer


def _kind(value: Any) -> str:
    names = {dict: "an object", list: "a list", str: "a text", bool: "a truth value"}
    if value is None:
        return "null"
    return names.get(type(value), "a number")
