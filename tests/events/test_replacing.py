"""`replace` of the folds gives what `dataclasses.replace` gives, for every value that a state is made of."""

import dataclasses
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.events.samples import records

from wakeful.events import state
from wakeful.events.replacing import replace

VALUES = [
    kind
    for kind in vars(state).values()
    if dataclasses.is_dataclass(kind) and kind.__module__ == state.__name__
]


@pytest.mark.parametrize("kind", VALUES)
@settings(max_examples=20, deadline=None)
@given(data=st.data())
def test_it_gives_what_the_original_gives_and_leaves_the_value_as_it_was(
    kind: Any, data: st.DataObject
) -> None:
    one, other = data.draw(records(kind)), data.draw(records(kind))
    names = data.draw(st.sets(st.sampled_from([field.name for field in dataclasses.fields(kind)])))
    changes = {name: getattr(other, name) for name in names}
    before = dataclasses.asdict(one)
    assert replace(one, **changes) == dataclasses.replace(one, **changes)
    assert dataclasses.asdict(one) == before


def test_a_field_that_is_not_there_is_an_error() -> None:
    with pytest.raises(AttributeError, match="stauts"):
        replace(state.State("desk"), stauts="Running")  # type: ignore[call-arg]


def test_a_class_that_does_more_than_hold_fields_is_refused() -> None:
    @dataclasses.dataclass(frozen=True, slots=True)
    class Checked:
        low: int
        high: int

        def __post_init__(self) -> None:
            assert self.low <= self.high

    with pytest.raises(TypeError, match="Checked is not made of two slots"):
        replace(Checked(1, 2), low=3)
