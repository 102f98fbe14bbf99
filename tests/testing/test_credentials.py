"""Rehearsed activities take credentials: from the app's provider, from the test's, or as fakes that need none."""

import pytest
from pydantic import BaseModel

from wakeful import (
    Access,
    ActivityError,
    Message,
    Read,
    Retry,
    Turn,
    Write,
    activity,
    credentials,
    workflow,
)
from wakeful.processors.app import gather
from wakeful.testing import NO_ANSWER, Misuse, rehearse

ASKED: list[Access] = []


class Desk(BaseModel):
    pass


@credentials
async def vault(access: Access) -> str:
    ASKED.append(access)
    return f"token {len(ASKED)}"


def find_payment(key: str, *, credentials: str) -> str | None:
    return None


@activity(contract=Read(), retry=Retry(attempts=3, initial="1s"))
async def read_balance(account: str, *, credentials: str) -> str:
    return f"{account} with {credentials}"


@activity(contract=Write(lookup=find_payment))
def pay(account: str, *, key: str, credentials: str) -> str:
    if account == "leak":
        raise ValueError(f"refused {credentials} ({len(ASKED)})")
    return f"{account} with {credentials}"


@workflow("bank", version=1)
async def bank(turn: Turn, desk: Desk, message: Message) -> Desk:
    """A read or a write, by the first word."""
    name, _, account = message.text.partition(" ")
    try:
        await turn.say(await turn.run((pay if name == "pay" else read_balance).call(account)))
    except ActivityError as error:
        await turn.say(f"{error.failure.kind}: {error.failure.message}")
    return desk


@pytest.fixture(autouse=True)
def asked() -> list[Access]:
    ASKED.clear()
    return ASKED


@pytest.mark.parametrize("declared", [(bank,), (gather([bank, pay, read_balance, vault]),)])
def test_the_apps_own_provider_is_asked_for_whom_the_session_acts(declared, asked) -> None:
    session = rehearse(*declared)
    session.send("read a1", by="ann")
    session.send("pay a1", by="bob")
    assert session.replies == ["a1 with token 1", "a1 with token 2"]
    assert [(one.activity, one.writes, one.on_behalf_of) for one in asked] == [
        ("read_balance", False, "ann"),
        ("pay", True, "bob"),
    ]


def test_a_retried_attempt_asks_again(asked) -> None:
    session = rehearse(bank, activities={"read_balance": [ValueError("down"), read_balance]})
    session.send("read a1")
    session.skip("5s")
    assert session.replies == ["a1 with token 1"]
    assert [one.attempt for one in asked] == [2]


def test_after_a_crash_the_look_up_asks_for_what_reads(asked) -> None:
    session = rehearse(bank)
    session.crash_at(1)
    session.send("pay a1")
    assert session.replies == ["a1 with token 3"]
    assert [one.writes for one in asked] == [True, False, True]


@pytest.mark.parametrize(
    "given", ["mine", lambda access: "mine", credentials(lambda _access: "mine")]
)
def test_a_test_gives_its_own(given, asked) -> None:
    session = rehearse(bank, credentials=given)
    session.send("read a1")
    session.redeploy(bank)
    session.send("pay a1")
    assert (session.replies, asked) == (["a1 with mine"] * 2, [])


def test_a_test_sees_a_provider_that_fails_and_a_secret_that_is_hidden(asked) -> None:
    def refuses(access: Access) -> str:
        raise PermissionError("the words of the vault")

    session = rehearse(bank, credentials=refuses)
    session.send("pay a1")
    told = "no_credentials: provider 'refuses' gave no credentials for pay, so it did not run: "
    assert session.replies == [f"{told}it raised PermissionError"]
    session = rehearse(bank, credentials="a very secret token")
    session.send("pay leak")
    assert session.replies == ["raised: refused *** (0)"]


def test_for_fakes_that_do_not_take_them_nobody_is_asked(asked) -> None:
    fakes = {"pay": lambda account, **more: ",".join(more), "read_balance": ["done", NO_ANSWER]}
    session = rehearse(bank, activities=fakes)
    for text in ("pay a1", "read a1", "read a1"):
        session.send(text)
    session.answer("read_balance", "in the end")
    session.crash_at(1)
    session.send("pay a2")
    assert (session.replies, asked) == (["key", "done", "in the end", "key"], [])


def test_a_fake_that_takes_them_gets_them(asked) -> None:
    session = rehearse(bank, activities={"pay": lambda account, *, credentials: credentials})
    session.send("pay a1")
    assert (session.replies, [one.writes for one in asked]) == (["token 1"], [True])


def test_they_are_not_in_the_history_nor_among_a_calls_arguments() -> None:
    session = rehearse(bank, credentials="a very secret token", activities={"pay": pay})
    session.send("pay leak")
    assert session.calls("pay")[0].arguments == {"account": "leak"}
    assert "a very secret token" not in repr(session.events)


def test_without_any_a_test_is_told_what_to_give() -> None:
    module = {"bank": bank, "vault": None}
    session = rehearse(bank)
    session._stage.app.credentials = None
    with pytest.raises(Misuse, match=r"'read_balance' takes credentials, and nobody gives them"):
        session.send("read a1")
    with pytest.raises(Misuse, match="cannot be asked"):
        rehearse(bank, credentials=lambda: "mine")
    with pytest.raises(Misuse, match="a rehearsal takes workflows"):
        rehearse(module)  # type: ignore[arg-type]


def test_of_two_providers_a_test_names_one() -> None:
    with pytest.raises(Misuse, match="two providers"):
        rehearse(bank, vault, credentials(lambda _access: ""))
    session = rehearse(bank, credentials(lambda _access: "by hand"))
    session.send("read a1")
    assert session.replies == ["a1 with by hand"]
