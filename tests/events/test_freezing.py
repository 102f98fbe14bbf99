"""What `freezing.dataclass` makes cannot be told from what the original makes, but for the time it takes."""

import copy
import dataclasses
import inspect
import pickle
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.events.samples import records

from wakeful.commands import models
from wakeful.commands.models import CommandHeader
from wakeful.events import freezing, state
from wakeful.events import records as r

CLASSES = [
    kind
    for kind in [*vars(r).values(), *vars(state).values(), *vars(models).values()]
    if dataclasses.is_dataclass(kind) and kind not in (r.Event, models.Command)
]
HEADER = CommandHeader("acme", "s-1", "c-1", 1, "ann", None, "http", None)


def original(cls: Any) -> Any:
    """The same fields, as `dataclasses` makes them."""
    body = {
        f.name: f.default for f in dataclasses.fields(cls) if f.default is not f.default_factory
    }
    body |= {"__annotations__": {f.name: f.type for f in dataclasses.fields(cls)}}
    body |= {"__module__": cls.__module__, "__qualname__": cls.__qualname__}
    return dataclasses.dataclass(frozen=True, slots=True)(type(cls.__name__, (), body))


@pytest.mark.parametrize("cls", [c for c in CLASSES if c is not state.SessionState])
@settings(max_examples=10, deadline=None)
@given(data=st.data())
def test_a_value_is_what_the_original_makes(cls: Any, data: st.DataObject) -> None:
    value, same = data.draw(records(cls)), original(cls)
    given_ = [getattr(value, field.name) for field in dataclasses.fields(cls)]
    for made in (cls(*given_), cls(**dict(zip(cls.__match_args__, given_, strict=True)))):
        assert type(made) is cls
        assert made == value
        assert (hash(made), repr(made)) == (hash(same(*given_)), repr(same(*given_)))
    assert inspect.signature(cls) == inspect.signature(same)
    assert (cls.__slots__, cls.__match_args__) == (same.__slots__, same.__match_args__)
    for again in (copy.copy(value), copy.deepcopy(value), pickle.loads(pickle.dumps(value))):
        assert type(again) is cls
        assert again == value
    assert dataclasses.replace(value) == value
    assert not hasattr(value, "__dict__")


@pytest.mark.parametrize("name", ["actor", "issued_at_ms"])
def test_a_value_refuses_to_be_changed(name: str) -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(HEADER, name, "x")
    with pytest.raises(dataclasses.FrozenInstanceError):
        delattr(HEADER, name)
    assert dataclasses.astuple(HEADER) == ("acme", "s-1", "c-1", 1, "ann", None, "http", None)


@pytest.mark.parametrize("name", ["nothing_of_the_kind", "__class__"])
def test_a_value_takes_nothing_besides_its_fields(name: str) -> None:
    # In 3.11 the original comes to a TypeError here, as its `__setattr__` knows the class from before the slots.
    with pytest.raises((AttributeError, TypeError)):
        setattr(HEADER, name, CommandHeader)
    assert type(HEADER) is CommandHeader


def test_what_is_missing_or_unknown_is_named_with_the_class() -> None:
    with pytest.raises(TypeError, match=r"^Payload\.__init__\(\) missing 1 .*'key_id'"):
        r.Payload("json", b"", None, b"", 0)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"^Payload\.__init__\(\) got an unexpected .*'sise'"):
        r.Payload("json", b"", None, b"", sise=0, key_id=None)  # type: ignore[call-arg]


class Checked:
    low: int

    def __post_init__(self) -> None:
        assert self.low


class MadeUp:
    names: list[str] = dataclasses.field(default_factory=list)


class Named:
    name: str = dataclasses.field(kw_only=True)


class Counted:
    count: int = dataclasses.field(init=False, default=0)


class Inheriting(HEADER.__class__):  # type: ignore[name-defined,misc]
    more: int = 0


@pytest.mark.parametrize("cls", [Checked, MadeUp, Named, Counted, Inheriting])
def test_a_class_that_is_more_than_its_fields_is_refused(cls: type) -> None:
    with pytest.raises(TypeError, match=f"{cls.__name__} is more than fields"):
        freezing.dataclass(frozen=True, slots=True)(cls)
