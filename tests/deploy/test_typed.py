"""What a person typed, and what is said of what cannot be."""

import re

import pytest

from wakeful.deploy.cli.typed import json_value
from wakeful.deploy.exits import Exit, Stopped


@pytest.mark.parametrize("given", ["1e308", "[1e-400]", '{"cents": 5.0}'])
def test_a_number_that_can_be_held_is_one(given: str) -> None:
    assert json_value("TEXT", given) is not None


@pytest.mark.parametrize("number", ["1e400", "-1e999"])
def test_a_number_that_is_too_large_is_named_with_what_to_do(number: str) -> None:
    told = (
        f"TEXT: {number} is more than a number can hold, 1.8e+308: give a smaller number, or a text"
    )
    with pytest.raises(Stopped, match=f"^{re.escape(told)}$") as stopped:
        json_value("TEXT", f'{{"cents": [{number}]}}')
    assert stopped.value.code == Exit.USAGE
