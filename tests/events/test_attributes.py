"""Attributes: what a name and a value may be, and the terms by which one of them, or two, are found."""

import math
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wakeful.events.attributes import (
    ATTRIBUTES_MAX,
    InvalidAttribute,
    attribute,
    attributes_of,
    changed,
    plain,
    term,
    terms,
    wanted,
    why_not,
)
from wakeful.events.records import Attribute

NOON = datetime(2026, 12, 1, 12, 30, tzinfo=timezone(timedelta(hours=1)))


@pytest.mark.parametrize(
    ("value", "kind", "told"),
    [
        ("ivo", "text", "ivo"),
        (1009, "integer", "1009"),
        (-(2**63) + 1, "integer", "-9223372036854775807"),
        (12.0, "number", "12"),
        (0.5, "number", "0.5"),
        (True, "boolean", "true"),
        (False, "boolean", "false"),
        (NOON, "timestamp", "2026-12-01T11:30:00Z"),
        (datetime(2026, 12, 1, 0, 0, 0, 250_000, UTC), "timestamp", "2026-12-01T00:00:00.25Z"),
    ],
)
def test_a_value_has_a_kind_and_one_text_that_is_compared(value: Any, kind: str, told: str) -> None:
    assert attribute("it", value) == Attribute("it", kind, told)


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("", "x", "attribute name '' is not allowed"),
        ("a-b", "x", "attribute name 'a-b' is not allowed"),
        ("a" * 65, "x", "is not allowed"),
        (7, "x", "attribute name 7 is not allowed"),
        ("it", "", "attribute 'it' is ''"),
        ("it", "x" * 129, "use 1 to 128 printable characters"),
        ("it", "a\0", "use 1 to 128 printable characters"),
        ("it", "\ud800", "use 1 to 128 printable characters"),
        ("it", 2**63, "use an integer of 64 bits"),
        ("it", math.nan, "use a finite number"),
        ("it", datetime(2026, 12, 1), "give the timestamp its time zone"),
        ("it", [1], "use a text, an integer, a number, a boolean or a timestamp"),
        ("it", None, "use a text, an integer, a number, a boolean or a timestamp"),
    ],
)
def test_what_no_attribute_can_be_is_named_with_what_can(name: Any, value: Any, told: str) -> None:
    with pytest.raises(InvalidAttribute, match="attribute") as refused:
        attribute(name, value)
    assert told in refused.value.message


def test_a_session_has_eight_at_most() -> None:
    many = {f"a{n}": n for n in range(ATTRIBUTES_MAX)}
    assert len(attributes_of(many)) == ATTRIBUTES_MAX
    with pytest.raises(InvalidAttribute, match=r"9 attributes .* leave some out"):
        attributes_of({**many, "one_more": 1})


@pytest.mark.parametrize(
    ("given_", "told"),
    [
        ((Attribute("b", "text", "x"), Attribute("a", "text", "x")), "not in order"),
        ((Attribute("a", "text", "x"), Attribute("a", "text", "y")), "not in order, each once"),
        ((Attribute("a", "blob", "x"),), "of kind 'blob'"),
        ((Attribute("a", "text", "x\n"),), "printable"),
        ((Attribute("&", "text", "x"),), "attribute name '&'"),
    ],
)
def test_what_a_stranger_sends_is_checked_again(given_: Any, told: str) -> None:
    assert told in why_not(given_)


def test_names_and_values_keep_apart_in_a_term() -> None:
    assert term({"b": "x=1&c=2", "a": "50%"}) == "a=50%25&b=x%3D1%26c%3D2"
    assert wanted(["order=1009", "customer=ivo"]) == "customer=ivo&order=1009"


@pytest.mark.parametrize(
    "told", [["customer"], ["customer="], ["a=1", "a=2"], ["a=1", "b=2", "c=3"], ["a-b=1"], []]
)
def test_what_cannot_be_looked_for_is_refused(told: list[str]) -> None:
    with pytest.raises(InvalidAttribute):
        wanted(told)


MAPS = st.dictionaries(
    st.sampled_from("abcd"), st.text("&=%x", min_size=1, max_size=3) | st.integers(0, 3)
)


@given(st.lists(MAPS, min_size=1, max_size=5))
def test_terms_that_follow_each_change_are_those_of_what_there_is(
    history: list[dict[str, Any]],
) -> None:
    """Given any changes, when their terms are followed, then there is one for each attribute and pair, and nothing more."""
    rows: dict[str, str | None] = {}
    before: tuple[Attribute, ...] = ()
    for values in history:
        after = attributes_of(values)
        rows.update(terms(after, changed(before, after)))
        before = after
    has = {one.name: one.value for one in before}
    one = {term({name: has[name]}) for name in has}
    two = {term({a: has[a], b: has[b]}) for a in has for b in has if a < b}
    assert {held for held in rows.values() if held is not None} == one | two
    assert {one.name: str(plain(one)) for one in before} == has
