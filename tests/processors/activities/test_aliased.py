"""An alias costs nothing: values are stored under it. What would not be read back is declined, and says which field."""

from dataclasses import dataclass
from typing import Annotated, Any, NotRequired

import pytest
from pydantic import AliasChoices, AliasPath, BaseModel, ConfigDict, Field, model_serializer
from pydantic.alias_generators import to_camel
from typing_extensions import TypedDict

from wakeful import Message, Read, Turn, Write, activity, workflow
from wakeful.processors.activities.signatures import Declined
from wakeful.testing import rehearse


class Order(BaseModel):
    id: str = Field(alias="orderId")
    cents: int = Field(0, alias="amountCents")


class Desk(BaseModel):
    refunded: int = Field(0, alias="refundedCents")


class Camel(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, validate_by_name=True, extra="forbid")
    order_id: str = ""
    lines: list[Order] = []


class Chosen(BaseModel):
    id: str = Field("", validation_alias=AliasChoices("orderId", "id"))


@activity(contract=Write(idempotent=True))
async def refund(order: Order, *, key: str) -> Order:
    return Order(orderId=f"{order.id} for {order.cents}", amountCents=7)


@workflow("desk", version=1)
async def desk(turn: Turn, state: Desk, message: Message) -> Desk:
    done = await turn.run(refund.call(Order(orderId="o-7", amountCents=250)))
    await turn.say(f"{done.id}, {done.cents}, before {state.refunded}")
    return Desk(refundedCents=state.refunded + done.cents)


def test_state_arguments_and_results_with_aliases_come_back_as_they_were() -> None:
    session = rehearse(desk, refund)
    session.send("a")
    session.send("b")
    assert session.replies == ["o-7 for 250, 7, before 0", "o-7 for 250, 7, before 7"]
    assert session.state == Desk(refundedCents=14)


@pytest.mark.parametrize(
    "value",
    [
        Camel(order_id="o-7", lines=[Order(orderId="o-8")]),
        Chosen(orderId="o-7"),
        {"by": Order(orderId="o-7")},
    ],
    ids=str,
)
def test_whatever_names_it_takes_a_value_is_read_from_what_was_stored(value: Any) -> None:
    kind = dict[str, Order] if isinstance(value, dict) else type(value)
    made = activity(contract=Read())(taking(kind))
    assert made.typed(made.call(value).arguments) == {"value": value}
    assert made.result_type.validate_python(made.stored(value)) == value


def taking(kind: Any):
    async def take(value): ...

    take.__annotations__.update({"value": kind, "return": kind})
    return take


class WrittenOtherwise(BaseModel):
    id: str = Field("", serialization_alias="orderId")


class ReadOtherwise(BaseModel):
    id: str = Field("", validation_alias="orderId")


class Deep(BaseModel):
    id: str = Field("", validation_alias=AliasPath("order", 0))


class ByNameOnly(BaseModel):
    model_config = ConfigDict(validate_by_name=True, validate_by_alias=False)
    id: str = Field("", alias="orderId")


class Holds(BaseModel):
    """Holds itself, and what is lost below."""

    left: "Holds | None" = None
    right: list[ReadOtherwise] = []


@dataclass
class Kept:
    id: Annotated[str, Field(validation_alias="orderId")] = ""


class Given(TypedDict):
    id: NotRequired[Annotated[str, Field(validation_alias="orderId")]]


class Needed(BaseModel):
    id: str = Field(exclude=True)


LOSE = [
    (WrittenOtherwise, "id", "it is written as 'orderId', and read as 'id': give it one alias="),
    (ReadOtherwise, "id", "it is written as 'id', and read as 'orderId': give it one alias="),
    (Deep, "id", "it is read by a path, and written as 'id'"),
    (ByNameOnly, "id", "it is written as 'orderId', and read as 'id'"),
    (Holds, "right.id", "it is written as 'id', and read as 'orderId'"),
    (Kept, "id", "it is written as 'id', and read as 'orderId'"),
    (Given, "id", "it is written as 'id', and read as 'orderId'"),
    (Needed, "id", "it has exclude=True, so it is not written: remove that"),
]


@pytest.mark.parametrize(("kind", "at", "why"), LOSE, ids=str)
def test_a_type_that_does_not_read_what_it_writes_is_declined(kind: Any, at: str, why: str) -> None:
    with pytest.raises(Declined) as declined:
        activity(contract=Read())(taking(kind))
    told = str(declined.value)
    assert told.startswith("the parameters of activity 'take' cannot be read back once stored")
    assert f"field 'value.{at}' would be lost; {why}" in told


@pytest.mark.parametrize(("kind", "at", "why"), LOSE[:6], ids=str)
def test_so_is_a_state(kind: Any, at: str, why: str) -> None:
    async def turn_of_it(turn: Turn, state, message: Message): ...

    turn_of_it.__annotations__["state"] = kind
    with pytest.raises(Declined) as declined:
        workflow("desk", version=1)(turn_of_it)
    assert f"field '{at}' would be lost; {why}" in str(declined.value)


class Left(BaseModel):
    note: str = Field("", exclude=True)


class Own(BaseModel):
    """Written by itself, as it is read."""

    id: str = Field("", validation_alias="orderId")

    @model_serializer
    def written(self) -> dict[str, str]:
        return {"orderId": self.id}


def test_a_field_that_is_left_out_may_be_in_an_argument_and_not_in_a_state() -> None:
    assert activity(contract=Read())(taking(Left)).call(Left(note="x")).arguments == {"value": {}}

    async def turn_of_it(turn: Turn, state: Left, message: Message) -> Left: ...

    with pytest.raises(Declined, match=r"state Left .* field 'note' would be lost; it has exclude"):
        workflow("desk", version=1)(turn_of_it)


def test_what_a_model_writes_by_itself_is_taken_as_it_is() -> None:
    made = activity(contract=Read())(taking(Own))
    assert made.typed(made.call(Own(orderId="o-7")).arguments) == {"value": Own(orderId="o-7")}
