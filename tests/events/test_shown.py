"""A user's value in a message is one short line, whatever its `repr` does."""

from collections.abc import Callable
from enum import Enum
from typing import Any

import pytest

from wakeful.events.errors import OwnSignal
from wakeful.events.shown import SHOWN_MAX, said, shown, worded


class Raises:
    def __repr__(self) -> str:
        raise KeyError("no")


class Recurses:
    def __repr__(self) -> str:
        return repr(self)


class Lines:
    def __repr__(self) -> str:
        return "a\nb"


class Colour(Enum):
    red = 1


class Mute(Exception):
    def __str__(self) -> str:
        raise KeyError("no")


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ("a 'word'", "\"a 'word'\""),
        (None, "None"),
        (Colour.red, "<Colour.red: 1>"),
        (Lines(), "a\\nb"),
        (Raises(), "<Raises, whose repr raises KeyError>"),
        ([Raises()], "<list, whose repr raises KeyError>"),
        (Recurses(), "<Recurses, whose repr raises RecursionError>"),
        (10**5000, "<int of 16610 bits>"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_it_says_what_the_value_is(value: Any, told: str) -> None:
    assert shown(value) == told


@pytest.mark.parametrize("value", ["x" * 2_000_000, b"x" * 2_000_000, list(range(100_000))])
def test_it_is_cut(value: Any) -> None:
    assert len(shown(value)) == SHOWN_MAX
    assert shown(value).endswith("…")


def test_an_error_is_told_by_its_type_and_first_line() -> None:
    assert worded(ValueError("one\ntwo")) == "ValueError: one"
    assert worded(ValueError()) == "ValueError"
    assert worded(Mute()) == "Mute"
    assert len(worded(ValueError("x" * 9_000))) == SHOWN_MAX


class Exits(Exception):
    def __str__(self) -> str:
        raise SystemExit

    __repr__ = __str__


class Ends(Exception):
    def __str__(self) -> str:
        raise OwnSignal

    __repr__ = __str__


def test_one_that_exits_the_process_is_told_of_as_well() -> None:
    error = Exits()
    told = (shown(error), worded(error), said(error))
    assert told == (
        "<Exits, whose repr raises SystemExit>",
        "Exits",
        "<its message raised SystemExit>",
    )


@pytest.mark.parametrize("tell", [shown, worded, said])
def test_our_own_signals_go_through(tell: Callable[[BaseException], str]) -> None:
    with pytest.raises(OwnSignal):
        tell(Ends())
