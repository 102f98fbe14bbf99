"""Attributes by which sessions are found: few, named, short values, and the terms that an index holds of them.

A value is kept as its kind and one text, which is what is compared: `1009` as a text, an integer or a number is the
same to whoever looks for it. Each attribute is a term, and so is each pair, so that looking for one or two of them is
looking for one term.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime

from .errors import Rejected
from .records import Attribute
from .shown import shown

ATTRIBUTES_MAX = 8
"""Of one session: with each pair a term, these are 36 rows of an index."""

NAME_LENGTH_MAX = 64
TEXT_LENGTH_MAX = 128
"""Characters of a value: two of them and their names have to fit into an entry of an index."""

INTEGER_MAX = 2**63 - 1

TEXT, INTEGER, NUMBER, BOOLEAN, TIMESTAMP = "text", "integer", "number", "boolean", "timestamp"
KINDS = (TEXT, INTEGER, NUMBER, BOOLEAN, TIMESTAMP)

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*", re.ASCII)
_KEPT_APART = str.maketrans({"%": "%25", "&": "%26", "=": "%3D"})

TERMS_MAX = 2
"""Attributes that can be looked for at once."""


class InvalidAttribute(Rejected):
    """A name or a value that no attribute can have; says which, and what can."""


def attribute(name: object, value: object) -> Attribute:
    """The attribute as it is recorded. `InvalidAttribute` names what is wrong with the name or the value."""
    checked = check_name(name)
    match value:
        case bool():
            return Attribute(checked, BOOLEAN, "true" if value else "false")
        case int() if abs(value) <= INTEGER_MAX:
            return Attribute(checked, INTEGER, int.__str__(value))
        case float() if math.isfinite(value):
            return Attribute(checked, NUMBER, _number(value))
        case datetime() if value.tzinfo is not None:
            return Attribute(checked, TIMESTAMP, _moment(value))
        case str() if _is_text(value):
            return Attribute(checked, TEXT, str.__str__(value))
        case _:
            raise InvalidAttribute(f"attribute {checked!r} is {shown(value, 80)}: {_advice(value)}")


def check_name(name: object) -> str:
    """The name, if an attribute may have it."""
    if isinstance(name, str) and len(name) <= NAME_LENGTH_MAX and _NAME.fullmatch(name):
        return str.__str__(name)
    raise InvalidAttribute(
        f"attribute name {shown(name, 80)} is not allowed: use a letter, then letters, digits and _, "
        f"{NAME_LENGTH_MAX} at most"
    )


def attributes_of(values: object) -> tuple[Attribute, ...]:
    """All of a mapping, by name; `InvalidAttribute` where it is none, has too many, or one of them cannot be."""
    if not isinstance(values, Mapping):
        raise InvalidAttribute(
            f"attributes are {shown(values, 80)}: give names and values, as in {{'customer': 'ivo'}}"
        )
    return check_count(attribute(name, value) for name, value in values.items())


def check_count(attributes: Iterable[Attribute]) -> tuple[Attribute, ...]:
    """These by name, unless there are too many for one session."""
    by_name = tuple(sorted(attributes, key=lambda one: one.name))
    if len(by_name) > ATTRIBUTES_MAX:
        names = ", ".join(one.name for one in by_name)
        raise InvalidAttribute(
            f"{len(by_name)} attributes ({names}), and a session has {ATTRIBUTES_MAX} at most: leave some out"
        )
    return by_name


def why_not(attributes: tuple[Attribute, ...]) -> str:
    """Why a stranger's command may not set these, in words; nothing where it may."""
    try:
        check_count(attributes)
        for one in attributes:
            check_name(one.name)
            if one.kind not in KINDS or not _is_text(one.value):
                raise InvalidAttribute(
                    f"attribute {one.name!r} is {shown(one.value, 80)} of kind {shown(one.kind, 80)}: "
                    f"expected {', '.join(KINDS)}, and 1 to {TEXT_LENGTH_MAX} printable characters"
                )
    except InvalidAttribute as error:
        return error.message
    names = [one.name for one in attributes]
    if names != sorted(set(names)):
        return (
            f"attributes {', '.join(names)} are not in order, each once: send them sorted by name"
        )
    return ""


def changed(before: Iterable[Attribute], after: Iterable[Attribute]) -> tuple[str, ...]:
    """The names that were set to something else, or removed."""
    return tuple(sorted({one.name for one in {*before} ^ {*after}}))


def plain(one: Attribute) -> str | int | float | bool:
    """The value as JSON has it; a timestamp as its text."""
    match one.kind:
        case "integer":
            return int(one.value)
        case "number":
            return float(one.value)
        case "boolean":
            return one.value == "true"
        case _:
            return one.value


def terms(attributes: Iterable[Attribute], of: Iterable[str]) -> Iterator[tuple[str, str | None]]:
    """By the names that it is about, each term in which one of these names takes part: null where it holds no more.

    Of a session that had other attributes, so much has changed when `of` these did.
    """
    known = {one.name: one.value for one in attributes}
    names = sorted(of)
    for name in names:
        yield name, _term({name: known[name]}) if name in known else None
    done: set[frozenset[str]] = set()
    for name in names:
        for other in sorted(known.keys() | set(names)):
            pair = frozenset({name, other})
            if other == name or pair in done:
                continue
            done.add(pair)
            both = {one: known[one] for one in sorted(pair) if one in known}
            yield "&".join(sorted(pair)), _term(both) if len(both) == len(pair) else None


def wanted(told: Iterable[str]) -> str:
    """What to look for, told as `name=value`, one or two; `InvalidAttribute` where one is not told so, or is told twice."""
    found: dict[str, str] = {}
    for one in told:
        name, equals, value = one.partition("=")
        if not equals or not value or name in found:
            why = "is given twice" if name in found else "is not name=value"
            raise InvalidAttribute(
                f"attribute {shown(one, 80)} {why}: give each name one value, as in customer=ivo"
            )
        found[name] = value
    return term(found)


def term(wanted: Mapping[str, str]) -> str:
    """What to look for, of one attribute or two; `InvalidAttribute` where it is more."""
    if not 1 <= len(wanted) <= TERMS_MAX:
        raise InvalidAttribute(
            f"attributes {', '.join(sorted(wanted))}: look for {TERMS_MAX} of them at most, and choose among the rows"
        )
    for name in wanted:
        check_name(name)
    return _term(dict(sorted(wanted.items())))


def _term(values: Mapping[str, str]) -> str:
    return "&".join(f"{name}={value.translate(_KEPT_APART)}" for name, value in values.items())


def _number(value: float) -> str:
    """A whole number as an integer is told: 12.0 and 12 are the same to whoever looks for them."""
    whole = value.is_integer() and abs(value) < 2**53
    return str(int(value)) if whole else float.__repr__(value)


def _moment(value: datetime) -> str:
    told = value.astimezone(UTC).isoformat(timespec="microseconds").removesuffix("+00:00")
    return f"{told.rstrip('0').rstrip('.') if '.' in told else told}Z"


def _is_text(value: str) -> bool:
    return 1 <= len(value) <= TEXT_LENGTH_MAX and value.isprintable()


def _advice(value: object) -> str:
    match value:
        case str():
            return f"use 1 to {TEXT_LENGTH_MAX} printable characters"
        case int():
            return f"use an integer of 64 bits, {-INTEGER_MAX} to {INTEGER_MAX}, or a text"
        case float():
            return "use a finite number"
        case datetime():
            return "give the timestamp its time zone, as in datetime.now(UTC)"
        case _:
            return "use a text, an integer, a number, a boolean or a timestamp"
