"""Children in a rehearsal: each ends as the test says, in any order, and is cancelled with whoever waits for it."""

import pytest
from pydantic import BaseModel

from tests.processors.desk import Desk
from wakeful import ChildError, Message, Turn, WrongResult, workflow
from wakeful.events import records as r
from wakeful.events.keys import child_id_of, session_of_job
from wakeful.events.state import CHILDREN_MAX
from wakeful.testing import Held, Misuse, Rehearsal, rehearse


class Report(BaseModel):
    """What a researcher gives."""

    pages: int


@workflow("editor", version=1)
async def editor(turn: Turn, desk: Desk, message: Message) -> Desk:
    """Asks for as many reports as its message says, and waits for all, for the first, or for none."""
    how, _, count = message.text.partition(" ")
    asked = [
        turn.child("researcher", f"topic {n}", within="1h", expect=Report)
        for n in range(int(count))
    ]
    try:
        if how == "all":
            await turn.say(sum(report.pages for report in await turn.gather(*asked)))
        elif how == "first":
            won = await turn.first(*asked)
            await turn.say(won.value.pages)
        elif how == "twice":
            await turn.say((await asked[0]).pages + (await asked[0]).pages)
    except ChildError as error:
        await turn.say(f"{error.failure.kind} {error.failure.type} {error.failure.message}")
    except WrongResult as error:
        await turn.say(str(error).partition(":")[0])
    return desk


def asking(how: str) -> Rehearsal:
    session = rehearse(editor)
    session.crash_everywhere()
    session.send(how)
    return session


def ids(session: Rehearsal) -> list[str]:
    return [body.child_id for body in session.events if isinstance(body, r.ChildStarted)]


def test_their_outcomes_are_given_in_the_order_that_they_were_asked_for() -> None:
    session = asking("all 3")
    assert {(wait.kind, wait.name, wait.expiry) for wait in session.waits} == {
        ("child", "researcher", "expires")
    }
    for child, pages in zip(reversed(ids(session)), (3, 4, 5), strict=True):
        session.complete_child(child, {"pages": pages})
    assert session.replies == [12]


def test_one_may_be_awaited_twice_and_ends_once() -> None:
    session = asking("twice 1")
    session.complete_child("researcher", {"pages": 4})
    assert session.replies == [8]
    with pytest.raises(Misuse, match="no child of 'researcher' is open"):
        session.complete_child("researcher", {"pages": 4})


def test_its_id_says_whose_it_is_and_cannot_be_guessed() -> None:
    session = asking("all 1")
    (child,) = ids(session)
    assert child.startswith("session-1:1.1-")
    assert child != child_id_of("rehearsal", "session-1", "1.1", b"another key")


def test_a_long_id_of_a_parent_is_cut_and_its_children_stay_apart() -> None:
    found = {child_id_of("t", "s" * 128, f"1.{n}", b"key") for n in range(50)}
    assert len(found) == 50
    assert {len(one) for one in found} == {128}
    assert session_of_job(f"{child_id_of('t', 's', '1.1', b'key')}:1.2-0123456789abcdef")


@pytest.mark.parametrize("fails", ["fail", "cancel", "expire", "misfit"])
def test_one_that_does_not_complete_is_an_error(fails: str) -> None:
    session = asking("all 1")
    match fails:
        case "fail":
            session.fail_child("researcher", "no archive", kind="forbidden")
        case "cancel":
            session.cancel_child(None)
        case "expire":
            session.skip("1h")
        case _:
            session.complete_child(None, {"pages": "many"})
    assert session.replies == [
        {
            "fail": "child_failed forbidden no archive",
            "cancel": "child_cancelled  it was cancelled",
            "expire": "child_expired  it had not ended in time, and is cancelled",
            "misfit": "the result of child 'researcher' does not fit",
        }[fails]
    ]


def test_who_loses_is_withdrawn_and_its_end_comes_late() -> None:
    session = asking("first 2")
    loser, winner = ids(session)
    session.complete_child(winner, {"pages": 7})
    assert session.replies == [7]
    assert session.facts.count("ChildWithdrawn") == session.facts.count("LateChildRecorded") == 1
    (late,) = (body for body in session.events if isinstance(body, r.LateChildRecorded))
    assert (late.child_id, late.end) == (loser, "cancelled")


def test_a_cancelled_session_says_how_its_children_ended() -> None:
    session = asking("all 2")
    one, other = ids(session)
    session.complete_child(one, {"pages": 7})
    session.cancel()
    assert session.status == "Cancelled"
    last = session.events[-1]
    assert isinstance(last, r.SessionCancelled)
    assert last.children == (r.ChildEnd(other, "cancelled"),)


def test_those_that_nobody_awaits_end_with_the_turn() -> None:
    session = asking("none 2")
    assert session.facts[-3:] == ["TurnCompleted", "LateChildRecorded", "LateChildRecorded"]
    assert session.status == "Suspended"


def test_a_release_gives_them_their_time_anew() -> None:
    @workflow("halting", version=1)
    async def halting(turn: Turn, desk: Desk, message: Message) -> Desk:
        raise RuntimeError("broken")

    @workflow("halting", version=1)
    async def mended(turn: Turn, desk: Desk, message: Message) -> Desk:
        await turn.child("researcher", within="1h")
        return desk

    session = rehearse(halting)
    with pytest.raises(Held):
        session.send("go")
    session.redeploy(mended)
    session.skip("2h")
    session.release()
    (wait,) = session.waits
    assert wait.expires_at_ms == session._engine.now_ms + 3_600_000


def test_more_than_one_session_may_have_open_holds_it() -> None:
    with pytest.raises(Held, match=f"{CHILDREN_MAX} children are open"):
        asking(f"all {CHILDREN_MAX + 1}")


def test_many_are_told_in_few_words_where_it_parks() -> None:
    session = asking(f"all {CHILDREN_MAX}")
    parked = [body for body in session.events if isinstance(body, r.SessionWaiting)][-1]
    assert len(parked.obligations) == 21
    assert parked.obligations[-1].name == "180 more children"
