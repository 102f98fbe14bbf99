"""A secret of pydantic's is stored as stars: what would store one is declined, and says where it is."""

from dataclasses import dataclass
from typing import Annotated, Any, Optional

import pytest
from pydantic import BaseModel, Field, RootModel, Secret, SecretBytes, SecretStr, field_serializer
from typing_extensions import TypedDict

from wakeful import Message, Read, Turn, activity, workflow
from wakeful.processors.activities.signatures import Declined


class Login(BaseModel):
    user: str = ""
    token: SecretStr = SecretStr("")


class Account(BaseModel):
    name: str = ""
    logins: dict[str, list[Login]] = {}


class Branch(BaseModel):
    """Holds itself, and a secret below."""

    left: Optional["Branch"] = None
    login: Login | None = None


class Plain(TypedDict):
    pin: SecretBytes


@dataclass
class Kept:
    code: Secret[int]


class Revealed(BaseModel):
    """Written as it is, which its author wanted."""

    token: SecretStr

    @field_serializer("token", when_used="json")
    def shown(self, token: SecretStr) -> str:
        return token.get_secret_value()


class Left(BaseModel):
    """Not written at all."""

    user: str
    token: SecretStr | None = Field(default=None, exclude=True)


HOLD = [
    (SecretStr, ""),
    (SecretBytes | None, ""),
    (list[Secret[int]], ""),
    (Annotated[SecretStr, Field(min_length=3)], ""),
    (RootModel[SecretStr], ""),
    (Login, "token"),
    (Account, "logins.token"),
    (Branch, "login.token"),
    (tuple[int, Plain], "pin"),
    (dict[str, Kept], "code"),
]


def returning(kind: Any):
    async def log_in(user: str): ...

    log_in.__annotations__["return"] = kind
    return log_in


@pytest.mark.parametrize(("kind", "at"), HOLD, ids=str)
def test_a_result_that_holds_a_secret_is_declined_and_says_where(kind: Any, at: str) -> None:
    where = f"at '{at}'" if at else "in it"
    with pytest.raises(Declined) as declined:
        activity(contract=Read())(returning(kind))
    told = str(declined.value)
    assert told.startswith(
        f"the result of activity 'log_in' cannot be stored: the pydantic secret {where} would be"
    )
    assert "take '*, credentials: …' from the app's provider (@credentials)" in told


@pytest.mark.parametrize(("kind", "at"), HOLD, ids=str)
def test_so_is_a_parameter(kind: Any, at: str) -> None:
    async def log_in(user: str, proof) -> str: ...

    log_in.__annotations__["proof"] = kind
    where = f"proof.{at}".rstrip(".")
    told = f"the parameters of activity 'log_in' cannot be stored: .* secret at '{where}'"
    with pytest.raises(Declined, match=told):
        activity(contract=Read())(log_in)


def test_so_is_the_state_between_turns() -> None:
    async def desk(turn: Turn, login: Login, message: Message) -> Login:
        return login

    with pytest.raises(
        Declined, match=r"state Login of workflow 'desk' cannot be stored: .* at 'token'"
    ):
        workflow("desk", version=1)(desk)


@pytest.mark.parametrize("kind", [Revealed, Left, str, Any, None, dict[str, Any]], ids=str)
def test_what_is_stored_as_it_is_may_be_a_result(kind: Any) -> None:
    made = activity(contract=Read())(returning(kind))
    if kind is Revealed:
        stored = made.stored(Revealed(token=SecretStr("hush")))
        assert made.result_type.validate_python(stored).token.get_secret_value() == "hush"


def test_credentials_may_be_a_secret_since_they_are_not_stored() -> None:
    @activity(contract=Read())
    async def read(account: str, *, credentials: SecretStr) -> int:
        return len(account)

    assert read.call("NL01").arguments == {"account": "NL01"}
