"""User values on their way to stored JSON and back."""

import json
import math
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pytest
from pydantic import BaseModel, Field, TypeAdapter, ValidationError

from wakeful import Read, activity
from wakeful.processors.activities.definitions import WrongArguments
from wakeful.processors.stored_json import (
    ANY,
    changed_kind,
    json_value,
    lost_number,
    read_json,
)


class Note(BaseModel):
    text: str = ""


class Terms(BaseModel):
    cents: int = 0
    rate: float = 0.0
    limit: Decimal | None = None
    due: datetime | None = None
    day: date | None = None
    paid: bool = False
    codes: set[int | float | str] = set()
    lines: list[Note] = []
    to: str = Field(default="", alias="recipient")


def changed(given: Any) -> str | None:
    kind = TypeAdapter(Terms)
    return changed_kind(given, json_value(kind, read_json(kind, json.dumps(given).encode())))


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"cents": True}, "field 'cents' is true and would become 1"),
        ({"cents": "7"}, "field 'cents' is \"7\" and would become 7"),
        ({"paid": 1}, "field 'paid' is 1 and would become true"),
        ({"paid": "no"}, "field 'paid' is \"no\" and would become false"),
        ({"rate": "0.5"}, "field 'rate' is \"0.5\" and would become 0.5"),
        ({"limit": 12.5}, "field 'limit' is 12.5 and would become \"12.5\""),
        ({"limit": 1e-7, "rate": True}, "field 'limit' is 1e-07 and would become"),
    ],
)
def test_a_value_that_would_be_taken_for_another_kind_is_told(given: Any, told: str) -> None:
    assert (changed(given) or "").startswith(told)


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"cents": 5.0},
        {"rate": 5},
        {"limit": "12.50"},
        {"limit": None},
        {"due": "2026-01-01T00:00:00+00:00"},
        {"due": "2026-01-01 00:00"},
        {"day": "2026-01-01"},
        {"codes": ["b", 2.5, 1, 1, "a"]},
        {"codes": ["b", 2.5, 3, "a", 1]},
        {"lines": [{"text": "1"}, {}]},
        {"recipient": "me", "unknown": True},
    ],
)
def test_what_a_type_puts_in_order_is_its_own_affair(given: Any) -> None:
    assert changed(given) is None


def test_a_fraction_that_is_cut_off_is_told_and_one_that_is_rounded_is_not() -> None:
    told = "field 'a.1' is 2.5 and would become 2"
    assert changed_kind({"a": [1, 2.5]}, {"a": [1, 2]}) == told
    assert changed_kind({"a": [1, 2.5]}, {"a": [1, 3.0]}) is None
    assert (
        changed_kind({"a": "x" * 100}, {"a": 1}) == f"field 'a' is \"{'x' * 58}… and would become 1"
    )


@pytest.mark.parametrize("text", ["plain", "half \ud83d of a character", "nul \x00", "é"])
def test_a_text_comes_back_as_it_was(text: str) -> None:
    kind = TypeAdapter(Note)
    stored = json.dumps(json_value(kind, Note(text=text))).encode()
    assert read_json(kind, stored) == Note(text=text)


def test_arguments_may_hold_half_a_character() -> None:
    @activity(contract=Read())
    async def read(text: str) -> str:
        return text

    action = read.call("half \ud83d of a character")
    assert read.typed(action.arguments) == {"text": "half \ud83d of a character"}


@pytest.mark.parametrize("data", [b"", b"{", b'{"text": 5}', b"[]"])
def test_what_does_not_fit_is_refused(data: bytes) -> None:
    with pytest.raises(ValidationError):
        read_json(TypeAdapter(Note), data)


class Loose(BaseModel):
    a: Any = Field(None, alias="theA")
    f: float | None = None


@pytest.mark.parametrize(
    ("kind", "value", "at"),
    [
        (Any, math.nan, "it"),
        (Any, {"price": math.nan}, "field 'price'"),
        (dict[str, float], {"price": -math.inf}, "field 'price'"),
        (Any, {"n": None, 7: [1.5, (None, math.inf)]}, "field '7.1.1'"),
        (Any, {math.nan}, "field '0'"),
        (list[Loose], [Loose(), Loose(theA=math.nan)], "field '1.theA'"),
        (Any, [Loose(f=math.nan)], "field '0.f'"),
    ],
)
def test_a_number_that_json_does_not_have_is_named_by_its_place(
    kind: Any, value: Any, at: str
) -> None:
    adapter = TypeAdapter(kind)
    for written in (
        json_value(adapter, value),
        adapter.dump_python(value, mode="json", by_alias=True),
    ):
        told = lost_number(adapter, value, written)
        assert told is not None
        assert told.startswith(f"{at} holds a number that JSON does not have (NaN or an infinity)")


@pytest.mark.parametrize("value", [None, [None, 1.5], {"a": None, 1: Loose()}, {None}])
def test_a_null_that_was_none_is_none(value: Any) -> None:
    assert lost_number(ANY, value, json_value(ANY, value)) is None


def test_a_type_that_writes_texts_for_them_loses_none() -> None:
    class Texts(BaseModel, ser_json_inf_nan="strings"):
        f: float
        g: float | None = None

    kind, value = TypeAdapter(Texts), Texts(f=math.inf)
    written = json_value(kind, value)
    assert written == {"f": "Infinity", "g": None}
    assert lost_number(kind, value, written) is None


def test_arguments_that_json_does_not_have_are_declined_by_the_call() -> None:
    @activity(contract=Read())
    async def price(facts: dict[str, Any]) -> None: ...

    with pytest.raises(WrongArguments, match=r"price\(.*: field 'facts.price' holds a number"):
        price.call({"price": math.nan})
