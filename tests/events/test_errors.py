"""Errors say what they are about."""

import re

import pytest

from wakeful.events import errors
from wakeful.events.errors import PayloadTooLarge, Undecodable, WakefulError


def test_an_error_names_the_session_offset_and_event_it_is_about() -> None:
    plain = WakefulError("it broke")
    assert str(plain) == "it broke"
    told = WakefulError("it broke", session="acme/s-1", offset=0, event_id="acme/s-1/7")
    assert str(told) == "it broke (session acme/s-1, offset 0, event acme/s-1/7)"


def test_the_tree_in_the_docstring_is_the_tree() -> None:
    drawn = set(re.findall(r"[├└]── (\w+)", WakefulError.__doc__ or ""))
    real = {
        name
        for name, value in vars(errors).items()
        if isinstance(value, type) and issubclass(value, WakefulError) and value is not WakefulError
    }
    assert drawn == real


@pytest.mark.case("U12")
def test_errors_carry_what_a_program_needs() -> None:
    large = PayloadTooLarge("the payload", size=300, limit=200)
    assert (large.size, large.limit) == (300, 200)
    assert "pass a reference" in str(large)
    bad = Undecodable("bad_frame", "expected 00")
    assert (bad.reason, bad.detail, str(bad)) == (
        "bad_frame",
        "expected 00",
        "bad_frame: expected 00",
    )
