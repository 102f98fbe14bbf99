"""What takes an effect back and has a rule of its own is approved by that rule, and not by the one for whom the effect was."""

import pytest

from wakeful import Message, Needs, Read, Turn, Write, activity, workflow
from wakeful.testing import Refused, rehearse

IDEMPOTENT = Write(idempotent=True)


@activity(contract=IDEMPOTENT)
async def room(trip: str, *, key: str) -> str:
    """Books a room."""
    return key


@activity(contract=Read())
async def weather(trip: str) -> str:
    """Fails, and with it its session."""
    raise ValueError(trip)


@activity(contract=Read(), untrusted=True)
async def page(trip: str) -> str:
    """What nobody vouches for."""
    return trip


@activity(
    contract=IDEMPOTENT, approval=Needs("board", when=lambda cents: cents > 100, four_eyes=True)
)
async def pay(cents: int, *, key: str) -> str:
    """Small ones need nobody's word."""
    return key


def leaving(quorum: int, *, four_eyes: bool):
    """The activity that gives a room back, in one of its releases."""

    @activity(
        contract=IDEMPOTENT,
        approval=Needs("board", quorum=quorum, four_eyes=four_eyes, expires="1h"),
    )
    async def leave(trip: str, done_key: str) -> None:
        """Gives it back, at a price."""

    return leave


def travelling(leave):
    """The workflow over such a release."""

    @workflow("traveller", version=1)
    async def traveller(turn: Turn, state: list, message: Message) -> list:
        """Books in one turn, and fails in another."""
        if message.text == "book":
            await turn.run(room.call("rome"), compensate=leave)
        else:
            await turn.run(weather.call("rome"))
        return state

    return traveller


def booked_by_ann_and_failed_by_bob(*, roles=None):
    leave = leaving(2, four_eyes=True)
    session = rehearse(travelling(leave), room, weather, leave)
    if roles is not None:
        session.publish(roles=roles)
    session.send("book", by="ann")
    session.send("weather", by="bob")
    assert session.status == "Compensating"
    return session


def why_refused(session, by):
    with pytest.raises(Refused) as found:
        session.approve(by=by)
    return found.value.reason


@pytest.mark.parametrize("roles", [None, {"board": ["ann", "bob", "eve"]}], ids=["open", "policy"])
def test_the_one_for_whom_it_was_done_does_not_approve_that_it_is_taken_back(roles):
    session = booked_by_ann_and_failed_by_bob(roles=roles)
    assert why_refused(session, "ann") == "own_request"
    session.approve(by="bob")  # who spoke last, and has booked nothing
    session.approve(by="eve")
    assert (session.status, len(session.calls("leave"))) == ("Failed", 1)


def test_policy_knows_for_whom_it_was_done_where_the_rule_is_not_four_eyes():
    leave = leaving(1, four_eyes=False)
    session = rehearse(travelling(leave), room, weather, leave)
    session.publish(roles={"board": ["ann", "bob"]})
    session.send("book", by="ann")
    session.send("weather", by="bob")
    assert why_refused(session, "ann") == "forbidden"
    session.approve(by="bob")
    assert (session.status, len(session.calls("leave"))) == ("Failed", 1)


def test_the_rule_is_that_of_the_day_it_was_done_whatever_later_code_says():
    leave, lax = leaving(2, four_eyes=True), leaving(1, four_eyes=False)
    session = rehearse(travelling(leave), room, weather, leave)
    session.send("book", by="ann")
    session.redeploy(travelling(lax), room, weather, lax)
    session.send("weather", by="bob")
    assert why_refused(session, "ann") == "own_request"
    session.approve(by="bob")
    assert session.status == "Compensating"  # it takes two
    session.approve(by="eve")
    assert (session.status, len(session.calls("leave"))) == ("Failed", 1)


def test_where_policy_asks_the_rule_is_four_eyes_as_well():
    @workflow("payer", version=1)
    async def payer(turn: Turn, state: list, message: Message) -> list:
        await turn.run(page.call(message.text))
        return [*state, await turn.run(pay.call(50))]  # below the limit, and led to by a page

    session = rehearse(payer, page, pay)
    session.publish(roles={"board": ["ann", "bob"]})
    session.send("pay", by="ann")
    assert why_refused(session, "ann") == "own_request"
    session.approve(by="bob")
    assert len(session.calls("pay")) == 1
