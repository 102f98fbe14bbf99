"""What a test gives a rehearsal, checked where it is given: by the client's own rules, where the client has them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from ...commands import inputs
from ...events.attributes import attributes_of
from ...events.errors import InvalidPayload, Rejected
from ...events.keys import check_id
from ...events.records import Attribute, Payload
from .errors import Misuse

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

SHOWN_MAX = 200
"""Characters of a wrong value that an error repeats."""


def text(what: str, given: object) -> str:
    """A text of any length, which may be empty; its bounds are somebody else's to check."""
    if not isinstance(given, str):
        raise Misuse(f"{what} is a text, got {shown(given)}")
    return given


def sentence(what: str, given: object) -> str:
    """A reason or a comment, as long as the client takes it."""
    return _by_the_client(lambda: inputs.text(what, text(what, given)))


def actor(given: object) -> str:
    """Who speaks: a name that the client takes."""
    return _by_the_client(lambda: inputs.name("by", text("by", given)))


def session_id(given: object) -> str:
    """An id that can be part of a key."""
    return _by_the_client(lambda: check_id("session id", text("session_id", given)))


def data(what: str, value: object, payload: Callable[[object], Payload]) -> Payload:
    """Anything that is JSON, as `payload` stores it; a mapping of any class is an object."""
    try:
        return payload(dict(value) if isinstance(value, Mapping) else value)
    except InvalidPayload as error:
        told = f"{what} is a text, or anything that is JSON, got {shown(value)}"
        raise Misuse(f"{told}: {error}") from error


def attributes(values: object) -> tuple[Attribute, ...]:
    """What a session is found by."""
    try:
        return attributes_of({} if values is None else values)
    except Rejected as error:
        raise Misuse(str(error)) from error


def yes_or_no(what: str, given: object) -> bool:
    """True or False; a text such as `"no"` is neither."""
    if not isinstance(given, bool):
        raise Misuse(f"{what} is True or False, got {shown(given)}")
    return given


def count(what: str, given: object) -> int:
    """A whole number from 1; True is none."""
    if not isinstance(given, int) or isinstance(given, bool):
        raise Misuse(f"{what} is a whole number from 1, got {shown(given)}")
    if given < 1:
        raise Misuse(f"there is no {what} {given}: {what}s count from 1")
    return given


def moment(what: str, given: object) -> datetime:
    """A time that is the same everywhere."""
    if not isinstance(given, datetime):
        raise Misuse(f"{what} is a datetime with a time zone, got {shown(given)}")
    if given.tzinfo is None:
        raise Misuse(f"{what}={given!r} has no time zone: give tzinfo=UTC")
    if given < EPOCH:
        raise Misuse(f"{what}={given!r} is before the log's time begins: give one from 1970 on")
    return given


def fakes(given: object) -> Mapping[str, Any]:
    """Fakes by the names of their activities; none where none are given. Whether there are such activities is not asked."""
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise Misuse(
            f"activities= is a mapping of names to fakes, such as {{'find_order': 7}}, got {shown(given)}"
        )
    return given


def shown(given: object) -> str:
    """The value in an error, whatever its `repr` does, and not at any length."""
    try:
        told = repr(given)
    except Exception as error:  # noqa: BLE001 - a class of the test's own decides what raises
        told = f"a {type(given).__name__} whose repr raises {type(error).__name__}"
    return told if len(told) <= SHOWN_MAX else f"{told[: SHOWN_MAX - 1]}…"


def _by_the_client(check: Callable[[], str]) -> str:
    try:
        return check()
    except Rejected as error:
        raise Misuse(str(error)) from error
