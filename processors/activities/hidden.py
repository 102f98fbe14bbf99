"""Secrets that no record and no log may tell: found in what a provider returned, replaced in what a tool says.

It is a net, not a wall. It knows texts as they are, as `repr`, JSON, URLs and basic authentication write them, and line by
line; whatever else a tool makes of a secret (a part, a hash) it does not recognise.

What a tool says in words (its exceptions, the worker's output) is told without any text of the credentials. What it
gives back as data (results, progress) is used by workflows, and a name or a number of an account may stand in both: where
the provider has marked its secrets (`SecretStr` and its like), only these are taken out of data.
"""

from __future__ import annotations

import json
import re
import threading
from base64 import b64encode
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from html import escape
from typing import Any
from urllib.parse import quote, quote_plus

from pydantic import BaseModel, Secret, SecretBytes, SecretStr

from ...events.payloads import DEPTH_MAX as JSON_DEPTH_MAX

STAND_IN = "***"

JSON_IN_JSON = 2
"""How often a secret is quoted at most: in a body that is told as a text of another one."""

LENGTH_MIN = 8
"""Characters of a secret: shorter ones are words that any message may have."""

DEPTH_MAX = 6
"""Of models in models: a credential is flat, and a client that is given away as one may hold half the world."""

VALUES_MAX = 1_000
"""Of one credential, for the same reason."""

REMEMBERED_MAX = 4_000
"""Forms of secrets that a process keeps out of its output: those of the newest few hundred attempts."""

_ESCAPE = re.compile("%[0-9A-F]{2}", re.ASCII)

MARKED = (SecretStr, SecretBytes, Secret)
"""What says of itself that it is secret."""


class Hidden:
    """The secrets of one attempt, and of no other."""

    def __init__(self) -> None:
        self._texts: list[str] = []
        self._in_data: list[str] = []

    def __bool__(self) -> bool:
        """Whether there are any."""
        return bool(self._texts)

    def add(self, credentials: object) -> None:
        """Learns what is secret in it: texts and bytes, alone or in the fields of models, dataclasses and collections."""
        found = list(_texts_in(credentials))
        marked = [text for text, is_marked in found if is_marked]
        texts = {form for text, _ in found for form in _forms(text)}
        self._texts = _longest_first(texts.union(self._texts))
        in_data = marked or [text for text, _ in found]
        forms = {form for text in in_data for form in _forms(text)}
        self._in_data = _longest_first(forms.union(self._in_data))
        OUTPUT.remember(self._texts)

    def hide(self, text: str) -> str:
        """The words without them."""
        return _without(text, self._texts)

    @property
    def in_data(self) -> list[str]:
        """What is taken out of data, in each form that it is known in; the longest first."""
        return self._in_data

    def hide_in(self, value: Any) -> Any:
        """A JSON value without them: in texts, names of fields, and numbers whose digits are one.

        Its depth is what JSON of a record may have; deeper ones come back as they are and are refused there.
        """
        return self._hide_in(value, 0) if self._in_data else value

    def _hide_in(self, value: Any, depth: int) -> Any:
        if isinstance(value, str):
            return _without(value, self._in_data)
        if depth > JSON_DEPTH_MAX:
            return value
        if isinstance(value, dict):
            return {
                _without(name, self._in_data): self._hide_in(part, depth + 1)
                for name, part in value.items()
            }
        if isinstance(value, list | tuple):
            return [self._hide_in(part, depth + 1) for part in value]
        if isinstance(value, int | float) and not isinstance(value, bool):
            return STAND_IN if _without(str(value), self._in_data) != str(value) else value
        return value


class Output:
    """What must not stand in the output of this process, whichever attempt it is of; from any thread."""

    def __init__(self, most: int = REMEMBERED_MAX) -> None:
        self._most = most
        # What the garbage collector closes, or a signal, may print in the middle of this.
        self._lock = threading.RLock()
        self._known: dict[str, None] = {}
        self._texts: list[str] | None = []
        """Null where it is to be put in order again: attempts are many, and lines of output few."""

    def remember(self, forms: list[str]) -> None:
        """Takes note of these; the oldest are forgotten."""
        with self._lock:
            is_new = any(form not in self._known for form in forms)
            for form in forms:
                self._known.pop(form, None)
                self._known[form] = None
            while len(self._known) > self._most:
                del self._known[next(iter(self._known))]
            if is_new:
                self._texts = None

    def hide(self, text: str) -> str:
        """The words without them."""
        with self._lock:
            if self._texts is None:
                self._texts = _longest_first(set(self._known))
            texts = self._texts
        return _without(text, texts)


OUTPUT = Output()
"""Of this process: a log has no attempt."""


def _longest_first(forms: set[str]) -> list[str]:
    """What stands within another secret must not break that one into pieces."""
    return sorted(forms, key=len, reverse=True)


def _without(text: str, secrets: list[str]) -> str:
    for secret in secrets:
        if secret in text:
            text = text.replace(secret, STAND_IN)
    return text


def _texts_in(credentials: object) -> Iterator[tuple[str, bool]]:
    """Each text, and whether it is marked as a secret."""
    waiting: list[tuple[Any, int, bool]] = [(credentials, 0, False)]
    for _ in range(VALUES_MAX):
        if not waiting:
            return
        value, depth, marked = waiting.pop(0)
        if isinstance(value, str):
            yield value, marked
        elif isinstance(value, bytes | bytearray):
            yield value.decode(errors="backslashreplace"), marked
            yield repr(bytes(value))[2:-1], marked
            yield from ((form, marked) for form in _in_base64(bytes(value)))
        elif depth < DEPTH_MAX:
            marked = marked or isinstance(value, MARKED)
            waiting += [(part, depth + 1, marked) for part in _parts(value)]


def _parts(value: Any) -> list[Any]:
    if isinstance(value, MARKED):
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
    data = text.encode("utf-8", "backslashreplace")
    written = [text, repr(text)[1:-1], ascii(text)[1:-1], repr(data)[2:-1], *text.splitlines()]
    in_json = [text]
    for _ in range(JSON_IN_JSON):
        in_json = [_quoted(one, ascii_only=asc) for one in in_json for asc in (True, False)]
        written += in_json
    written.append(escape(text))
    written += _in_urls(text)
    written += _in_base64(data)
    return (form for form in written if len(form.strip()) >= LENGTH_MIN)


def _quoted(text: str, *, ascii_only: bool) -> str:
    return json.dumps(text, ensure_ascii=ascii_only)[1:-1]


def _in_urls(text: str) -> Iterator[str]:
    """With large letters after `%` or small ones, and in an address that is part of another one."""
    once = (
        quote(text, errors="replace"),
        quote(text, safe="", errors="replace"),
        quote_plus(text, errors="replace"),
    )
    for one in {*once, *(quote(each, safe="") for each in once)}:
        yield one
        yield _ESCAPE.sub(lambda found: found[0].lower(), one)


def _in_base64(data: bytes) -> Iterator[str]:
    """What base64 makes of it, whatever stands before and after: `user:secret` in a header, say.

    Three bytes are four characters, so there are three ways for it to lie; those at its ends depend on its neighbours.
    """
    for before in range(3):
        written = b64encode(bytes(before) + data).decode()
        first = (0, 2, 3)[before]
        last = (before + len(data)) * 8 // 6
        inner = written[first:last]
        yield inner
        yield inner.replace("+", "-").replace("/", "_")
