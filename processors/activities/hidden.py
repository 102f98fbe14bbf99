"""Secrets that no report may tell: found in what a provider returned, and replaced in what a tool says.

It is a net, not a wall. It knows texts as they are, as `repr`, JSON and URLs write them, and line by line; whatever else a
tool makes of a secret (a part, a hash, base64) it does not recognise.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any
from urllib.parse import quote, quote_plus

from pydantic import BaseModel, Secret, SecretBytes, SecretStr

STAND_IN = "***"

LENGTH_MIN = 8
"""Characters of a secret: shorter ones are words that any message may have."""

DEPTH_MAX = 6
"""Of models in models: a credential is flat, and a client that is given away as one may hold half the world."""

VALUES_MAX = 1_000
"""Of one credential, for the same reason."""


class Hidden:
    """The secrets of one attempt, and of no other."""

    def __init__(self) -> None:
        self._texts: list[str] = []

    def add(self, credentials: object) -> None:
        """Learns what is secret in it: texts and bytes, alone or in the fields of models, dataclasses and collections."""
        found = {form for text in _texts_in(credentials) for form in _forms(text)}
        # The longest first: what stands within another secret must not break that one into pieces.
        self._texts = sorted(found.union(self._texts), key=len, reverse=True)

    def hide(self, text: str) -> str:
        """The text without them."""
        for secret in self._texts:
            text = text.replace(secret, STAND_IN)
        return text


def _texts_in(credentials: object) -> Iterator[str]:
    waiting: list[tuple[Any, int]] = [(credentials, 0)]
    for _ in range(VALUES_MAX):
        if not waiting:
            return
        value, depth = waiting.pop(0)
        if isinstance(value, str):
            yield value
        elif isinstance(value, bytes | bytearray):
            yield value.decode(errors="backslashreplace")
            yield repr(bytes(value))[2:-1]
        elif depth < DEPTH_MAX:
            waiting += [(part, depth + 1) for part in _parts(value)]


def _parts(value: Any) -> list[Any]:
    if isinstance(value, SecretStr | SecretBytes | Secret):
        return [value.get_secret_value()]
    if isinstance(value, BaseModel):
        more = {**(value.__pydantic_extra__ or {}), **(value.__pydantic_private__ or {})}
        return [*vars(value).values(), *more.values()]
    if isinstance(value, dict):
        return list(value.values())
    if isinstance(value, list | tuple | set | frozenset):
        return list(value)
    if is_dataclass(value):
        return [getattr(value, field.name, None) for field in fields(value)]
    return []


def _forms(text: str) -> Iterator[str]:
    """As it is met in messages; of those that are too short, none."""
    written = [text, repr(text)[1:-1], json.dumps(text)[1:-1], *text.splitlines()]
    written += [
        quote(text, errors="replace"),
        quote(text, safe="", errors="replace"),
        quote_plus(text, errors="replace"),
    ]
    return (form for form in written if len(form.strip()) >= LENGTH_MIN)
