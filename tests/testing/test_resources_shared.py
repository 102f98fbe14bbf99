"""Resources that branches share or let go, and what nobody could mean with one: the session is held, and told what would do."""

from typing import Any

import pytest
from pydantic import BaseModel

from tests.processors.desk import Desk
from tests.testing.boxes import DECLARED, Box, begun, coder, restore, run, start, stop
from wakeful import ActivityError, Message, Turn, Write, activity, workflow
from wakeful.testing import NO_ANSWER, Held, Rehearsal, rehearse


@pytest.fixture
def session() -> Rehearsal:
    """A session that has its sandbox."""
    return begun()


def test_branches_that_ask_for_it_at_once_share_what_one_of_them_sets_up() -> None:
    @workflow("shared", version=1)
    async def shared(turn: Turn, desk: Desk, message: Message) -> Desk:
        asked = [turn.resource("sandbox", attach=start.call(f"{n}"), ttl="1h") for n in range(3)]
        await turn.say([f"{box.how} {box.handle.address}" for box in await turn.gather(*asked)])
        return desk

    session = rehearse(shared, start)
    session.crash_everywhere()
    session.send("go")
    assert session.replies == [["attached 0-1", "held 0-1", "held 0-1"]]


def test_where_the_branch_fails_that_sets_it_up_the_next_one_tries() -> None:
    @workflow("shared", version=1)
    async def shared(turn: Turn, desk: Desk, message: Message) -> Desk:
        async def one(image: str) -> str:
            try:
                box = await turn.resource("sandbox", attach=start.call(image), ttl="1h")
            except ActivityError as error:
                return error.failure.kind
            return f"{box.how} {box.handle.address}"

        await turn.say(list(await turn.gather(one("a"), one("b"), one("c"))))
        return desk

    session = rehearse(shared, start, activities={"start": [RuntimeError("no"), Box(address="b")]})
    session.crash_everywhere()
    session.send("go")
    assert session.replies == [["raised", "attached b", "held b"]]


def test_a_branch_that_lost_while_it_set_it_up_does_not_keep_others_from_it() -> None:
    @workflow("hasty", version=1)
    async def hasty(turn: Turn, desk: Desk, message: Message) -> Desk:
        asked = [turn.resource("sandbox", attach=start.call("py"), ttl="1h") for _ in range(2)]
        await turn.first(*asked, turn.sleep("1h"), cancel=True)
        box = await turn.resource("sandbox", attach=start.call("c"), ttl="1h")
        await turn.say(box.handle.address)
        return desk

    session = rehearse(hasty, start, activities={"start": [NO_ANSWER, Box(address="c")]})
    session.crash_everywhere()
    session.send("go")
    session.skip("1h")
    assert session.replies == ["c"]


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"ttl": "0s"}, "say how long it may be held"),
        ({"ttl": "30m", "reconstruct": 7}, "give it an activity"),
        ({"ttl": "30m", "release": lambda handle: handle}, "let it return an action"),
        ({"ttl": "30m", "release": run.call(Box(address="x"), "y")}, "gives nothing back"),
    ],
)
def test_what_nobody_could_mean_holds_the_session_and_says_what_would_do(
    given: dict[str, Any], told: str
) -> None:
    @workflow("wrong", version=1)
    async def wrong(turn: Turn, desk: Desk, message: Message) -> Desk:
        await turn.resource("sandbox", attach=start.call("py"), **given)
        return desk

    session = rehearse(wrong, *DECLARED)
    with pytest.raises(Held, match=told):
        session.send("go")


def test_a_handle_that_is_no_address_is_refused() -> None:
    @workflow("heavy", version=1)
    async def heavy(turn: Turn, desk: Desk, message: Message) -> Desk:
        await turn.resource("sandbox", attach=start.call("x" * 20_000), ttl="30m")
        return desk

    session = rehearse(heavy, *DECLARED)
    with pytest.raises(Held, match="let the activity return an address"):
        session.send("go")


def test_a_handle_of_another_type_holds_the_session_until_code_reads_it(session: Rehearsal) -> None:
    class Other(BaseModel):
        port: int

    @activity(contract=Write(idempotent=True), name="start")
    async def other_start(image: str) -> Other:
        return Other(port=1)

    @workflow("coder", version=2)
    async def other(turn: Turn, desk: Desk, message: Message) -> Desk:
        box = await turn.resource("sandbox", attach=other_start.call("py"), ttl="30m")
        await turn.say(f"{box.handle.port}")
        return desk

    session.redeploy(other, other_start, restore, stop, run)
    with pytest.raises(Held, match="handle of resource 'sandbox' is not what its attach returns"):
        session.send("b")
    session.redeploy(coder, *DECLARED)


def test_a_release_after_a_long_hold_uses_what_is_expired_by_then_as_such(
    session: Rehearsal,
) -> None:
    """While it is held the clock owes nothing: the tool that finds it gone is what says so."""

    @workflow("coder", version=1)
    async def broken(turn: Turn, desk: Desk, message: Message) -> Desk:
        raise ValueError("x")

    session.redeploy(broken, *DECLARED)
    with pytest.raises(Held):
        session.send("b")
    session.skip("31m")
    session.redeploy(coder, *DECLARED)
    session.release()
    assert session.replies[-1] == "b in py-1, held"
    assert session.facts.count("ResourceExpired") == 1
