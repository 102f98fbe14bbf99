"""A state is committed once it is certain that the next turn reads it back; else the turn that left it is held."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any

import pytest
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    PlainSerializer,
    computed_field,
    field_serializer,
    model_validator,
)

from wakeful import Message, Turn, workflow
from wakeful.testing import Held, Rehearsal, rehearse

DRAWN = iter(range(1_000_000))


class Number(BaseModel):
    f: float = 0
    n: int = 0


class More(Number):
    extra: int = 9


class Named(Number):
    """Adds nothing that is stored."""

    kept_out: int = Field(9, exclude=True)

    @cached_property
    def twice(self) -> int:
        return 2 * self.n


@dataclass
class Near:
    x: int = 0


@dataclass
class Farther(Near):
    z: int = 0


class Boxes(BaseModel):
    at: dict[str, list[Number]] = {}
    place: Near = Near()


class Either(BaseModel):
    one: More | Number = Number()
    open: dict[str, Any] = {}


class Maybe(BaseModel):
    inner: dict[str, list[float | None]] = {}


class Forbids(BaseModel):
    model_config = ConfigDict(extra="forbid")
    n: int = 0

    @computed_field  # type: ignore[prop-decorator]
    @property
    def twice(self) -> int:
        return 2 * self.n


class Places(BaseModel):
    at: dict[tuple[int, int], str] = {}


class Small(BaseModel):
    n: int = 0

    @model_validator(mode="after")
    def check(self) -> "Small":
        if self.n > 5:
            raise ValueError("five at most")
        return self


class Raises(BaseModel):
    ok: int = 0
    bad: int = 0

    @field_serializer("bad")
    def written(self, bad: int) -> int:
        if bad:
            raise RuntimeError("no pen")
        return bad


class Anything(BaseModel):
    ok: str = ""
    x: Any = None


class Shifts(BaseModel):
    """Is read as something else than it is written as."""

    n: Annotated[int, PlainSerializer(lambda n: n + 1)] = 0


class Moment(BaseModel):
    n: int = 0
    names: set[str] = set()

    @computed_field  # type: ignore[prop-decorator]
    @property
    def drawn(self) -> int:
        return next(DRAWN)


def looked_at() -> Named:
    named = Named(n=2)
    assert named.twice == 4  # and is now kept in the object
    return named


def mutated() -> Small:
    small = Small(n=4)
    small.n = 6
    return small


def leaves(kind: Any, value: Any, *, again: bool = False) -> Rehearsal:
    async def turn_of_it(turn: Turn, state, message: Message):
        await turn.say(repr(state))
        if again and message.text == "again":
            return turn.again(value)
        return value

    turn_of_it.__annotations__["state"] = kind
    return rehearse(workflow("desk", version=1)(turn_of_it))


LOST = [
    (Number, Number(f=math.nan), "field 'f' holds a number that JSON does not have"),
    (Number, Number(f=-math.inf), "field 'f' holds a number that JSON does not have"),
    (Anything, Anything(x=math.nan), "field 'x' holds a number that JSON does not have"),
    (Anything, Anything(x={1: (Anything(x=math.inf),)}), "field 'x.1.0.x' holds a number that"),
    (Number, More(extra=9), "field 'extra' is of a subclass and would be dropped: declare the"),
    (
        Boxes,
        Boxes(at={"a": [More()]}),
        "field 'at.a.0.extra' is of a subclass and would be dropped",
    ),
    (Boxes, Boxes(place=Farther()), "field 'place.z' is of a subclass and would be dropped"),
    (Maybe, Maybe(inner={"a": [1, math.nan]}), "field 'inner.a.1' holds a number that JSON"),
    (Number, Number.model_construct(n="zz"), "it would not be read back (n: Input should be a"),
    (Number, Number.model_construct(n="7"), "field 'n' is written as '7' and would be read back"),
    (Forbids, Forbids(n=5), "it would not be read back (twice: Extra inputs are not permitted)"),
    (Places, Places(at={(1, 2): "a"}), "it would not be read back (at.1,2.[key]: Input should"),
    (Small, mutated(), "it would not be read back (value: Value error, five at most)"),
    (Raises, Raises(bad=1), "field 'bad' cannot be stored as JSON (PydanticSerializationError: "),
    (Anything, Anything(x=print), "field 'x' cannot be stored as JSON (PydanticSerialization"),
    (Anything, Anything(x=10**5000), "field 'x' cannot be stored as JSON (InvalidPayload: "),
    (Shifts, Shifts(n=1), "field 'n' is written as 2 and would be read back as 3"),
]


@pytest.mark.parametrize("again", [False, True], ids=["returned", "again"])
@pytest.mark.parametrize(("kind", "value", "why"), LOST, ids=[why for _, _, why in LOST])
def test_the_turn_that_leaves_it_is_held_in_one_line(
    kind: Any, value: Any, why: str, *, again: bool
) -> None:
    session = leaves(kind, value, again=again)
    with pytest.raises(Held) as held:
        session.send("again")
    assert held.value.reason == "state_unserialisable"
    hold = session.hold
    assert hold is not None
    assert "\n" not in hold.detail
    assert hold.detail.startswith(
        f"workflow desk: the {kind.__name__} that it returned cannot be kept: {why}"
    )
    assert hold.detail.endswith("; then deploy and release")
    assert "TurnCompleted" not in session.facts


def test_a_deploy_that_leaves_a_better_one_goes_on_from_the_state_before() -> None:
    session = leaves(Number, Number(f=math.nan))
    with pytest.raises(Held):
        session.send("a")

    @workflow("desk", version=1)
    async def mended(turn: Turn, state: Number, message: Message) -> Number:
        await turn.say(repr(state))
        return Number(f=1.5)

    session.redeploy(mended)
    session.release()
    session.send("b")
    assert session.replies == ["Number(f=0, n=0)", "Number(f=1.5, n=0)"]


@pytest.mark.parametrize(
    "make",
    [
        lambda: Moment(n=1, names={"a", "b", "c"}),
        lambda: Anything(x={"k": (1, 2)}),
        lambda: Anything(x={"a", "b", "c", "d"}),
        lambda: Anything(ok="\ud800\0"),
        lambda: Maybe(inner={"a": [None, 1e300]}),
        lambda: Number.model_construct(n=5.0),
        lambda: Either(one=More(), open={"a": [None, More()]}),
        lambda: Boxes(at={"a": [looked_at()]}),
    ],
)
def test_what_the_next_turn_reads_as_it_was_is_kept(make: Callable[[], BaseModel]) -> None:
    state = make()
    session = leaves(type(state), state)
    session.send("a")
    session.send("b")
    assert len(session.replies) == 2
    assert session.hold is None


class Flagged(BaseModel):
    note: str | None = Field(None, alias="theNote")


def test_a_field_that_is_named_is_named_by_its_alias_as_it_is_stored() -> None:
    session = leaves(Flagged, Flagged.model_construct(note=7))
    with pytest.raises(Held, match=r"it would not be read back \(theNote: Input should be a valid"):
        session.send("a")
