"""A state that another version has left: read where every field fits, by `upgrade` else, or held with the field's name."""

from typing import Any

import pytest
from pydantic import BaseModel
from tests.processors.workflow.hands import ACTIVITIES, Hand, Message, Turn, kinds, says, workflow

from wakeful.events import records as r
from wakeful.processors.activities.signatures import Declined


class Old(BaseModel):
    cents: int = 0
    note: str = ""


class Wider(BaseModel):
    cents: int = 0
    note: str = ""
    currency: str = "EUR"


class New(BaseModel):
    euros: float = 0.0


async def old(turn: Turn, state: Old, message: Message) -> Old:
    await turn.say(f"old {state.cents}")
    return Old(cents=state.cents + 100, note="n")


async def wider(turn: Turn, state: Wider, message: Message) -> Wider:
    await turn.say(f"wider {state.cents} {state.currency}")
    return Wider(cents=state.cents + 100, note="n", currency="CHF")


async def new(turn: Turn, state: New, message: Message) -> New:
    await turn.say(f"new {state.euros}")
    if message.text == "again" and state.euros < 10:
        return turn.again(New(euros=10))
    if message.text == "sleep":
        await turn.sleep("1h")
        await turn.say("slept")
    return New(euros=state.euros + 1)


def forward(stored: Any, version: int) -> New:
    assert version == 1
    return New(euros=stored["cents"] / 100)


def back(stored: Any, version: int) -> dict[str, Any]:
    assert version == 2
    return {"cents": int(stored["euros"] * 100), "note": "from 2"}


def desk(function: Any, version: int, **more: Any) -> Any:
    return workflow("desk", version=version, **more)(function)


V1 = desk(old, 1)
V2 = desk(new, 2, upgrade=forward)


def begun_on(*declared: Any) -> Hand:
    hand = Hand(*declared, *ACTIVITIES)
    hand.open("a")
    return hand


def test_a_field_that_has_come_takes_its_default() -> None:
    hand = begun_on(V1)
    hand.redeploy(V1, desk(wider, 2), *ACTIVITIES)
    hand.say("b")
    assert hand.replies == says("old 0", "wider 100 EUR")


def test_the_next_version_reads_what_its_upgrade_makes_of_it_and_a_replay_does_so_again() -> None:
    hand = begun_on(V1)
    hand.redeploy(V1, V2, *ACTIVITIES)
    hand.say("sleep")
    hand.session = hand.refold()
    hand.now_ms += 3_600_000
    hand.wake()
    hand.say("c")
    assert hand.replies == says("old 0", "new 1.0", "slept", "new 2.0")


def test_what_a_stretch_has_left_is_its_own_versions() -> None:
    hand = begun_on(V1)
    hand.redeploy(V1, V2, *ACTIVITIES)
    hand.say("again")
    assert hand.replies == says("old 0", "new 1.0", "new 10.0")
    assert not hand.bodies(r.SessionHeld)


def test_a_step_back_reads_what_the_newer_version_has_left() -> None:
    hand = begun_on(V1)
    hand.redeploy(V1, V2, *ACTIVITIES)
    hand.say("b")
    hand.redeploy(desk(old, 1, upgrade=back), *ACTIVITIES)
    hand.say("c")
    hand.redeploy(V1, V2, *ACTIVITIES)
    hand.say("d")
    assert hand.replies == says("old 0", "new 1.0", "old 200", "new 3.0")


def test_a_field_that_would_be_lost_holds_the_session_by_its_name_and_an_upgrade_lets_it_go_on() -> (
    None
):
    hand = begun_on(V1)
    hand.redeploy(V1, desk(new, 2), *ACTIVITIES)
    held = hand.say("b")[-1]
    assert held.reason == "state_unreadable"
    assert "version 2 does not read the state that version 1 has left as its New" in held.detail
    assert "(field 'cents' would be lost)" in held.detail
    assert "upgrade=" in held.detail
    hand.redeploy(V1, V2, *ACTIVITIES)
    hand.release()
    assert hand.replies == says("old 0", "new 1.0")


def test_a_step_back_without_an_upgrade_names_the_field_too() -> None:
    hand = begun_on(V1)
    hand.redeploy(V1, desk(wider, 2), *ACTIVITIES)
    hand.say("b")
    hand.redeploy(V1, *ACTIVITIES)
    held = hand.say("c")[-1]
    assert (held.reason, "field 'currency' would be lost" in held.detail) == (
        "state_unreadable",
        True,
    )


class Strict(BaseModel):
    cents: str = ""
    note: str = ""


@pytest.mark.parametrize("version", [1, 2])
def test_a_field_that_does_not_fit_is_named(version: int) -> None:
    async def strict(turn: Turn, state: Strict, message: Message) -> Strict:
        return state

    hand = begun_on(V1)
    hand.redeploy(desk(strict, version), *ACTIVITIES)
    held = hand.say("b")[-1]
    assert held.reason == "state_unreadable"
    assert "cents: Input should be a valid string" in held.detail


@pytest.mark.parametrize(
    ("upgrade", "told"),
    [
        (
            lambda stored, version: stored["nothing"],
            "its upgrade raised KeyError: 'nothing' (line ",
        ),
        (lambda stored, version: {"euros": "many"}, "gave what does not fit: euros: "),
        (lambda stored, version: {1, 2}, "let it return the New, or its JSON"),
    ],
)
def test_an_upgrade_that_does_not_give_a_state_holds_the_session(upgrade: Any, told: str) -> None:
    hand = begun_on(V1)
    hand.redeploy(V1, desk(new, 2, upgrade=upgrade), *ACTIVITIES)
    out = hand.say("b")
    assert kinds(out)[-1] == "SessionHeld"
    assert (out[-1].reason, told in out[-1].detail) == ("state_unreadable", True), out[-1].detail


async def waits(stored: Any, version: int) -> Any:
    return stored


@pytest.mark.parametrize("upgrade", ["no", waits, lambda stored: stored])
def test_what_is_no_upgrade_is_declined_where_it_is_declared(upgrade: Any) -> None:
    with pytest.raises(Declined, match=r"give a function 'def upgrade\(stored, version\)'"):
        desk(new, 2, upgrade=upgrade)
