"""Tests that ask for what cannot be are told what is there and what may come next."""

from datetime import datetime

import pytest

from tests.processors import desk as played
from tests.processors.desk import Desk, desk, find_order, refund, sleeper
from wakeful import Message, Read, Turn, activity, workflow
from wakeful.testing import NO_ANSWER, Misuse, rehearse


@workflow("asks-twice", version=1)
async def asks_twice(turn: Turn, desk: Desk, message: Message) -> Desk:
    """Two proposals at once."""
    one, two = await turn.gather(turn.approval(refund.call(500)), turn.approval(refund.call(600)))
    await turn.say(f"{one.decision} {two.decision}")
    return desk


@workflow("endless", version=1)
async def endless(turn: Turn, desk: Desk, message: Message) -> Desk:
    """Never waits for anything but its activity."""
    while True:
        await turn.run(find_order.call("x"))


def test_approving_when_nothing_is_open_says_what_may_come() -> None:
    session = rehearse(sleeper)
    session.send("go")
    with pytest.raises(Misuse) as error:
        session.approve()
    assert str(error.value) == (
        "no approval is open: the session is Waiting, open: timer sleep (1.1) until 2027-01-15 08:10:00; "
        "next may come: SendMessage (queues behind the running turn), CancelSession (ends the session for good), "
        "SendSignal (kept until a turn asks for it), StartTurn (queues behind the running turn)"
    )


def test_approving_something_else_says_what_is_open() -> None:
    session = rehearse(desk, activities={"find_order": 500})
    session.send("go")
    with pytest.raises(Misuse, match=r"no approval of 'pay' is open: .*approval refund \(1\.2-"):
        session.approve("pay")


def test_one_of_several_is_named_by_its_id() -> None:
    session = rehearse(asks_twice)
    session.send("go")
    with pytest.raises(
        Misuse, match=r"several approvals are open: name one of 1\.1-\w+ \(refund\), 1\.2-"
    ):
        session.approve()
    first, second = (wait.id for wait in session.waits)
    session.reject(second)
    session.approve(first)
    assert session.replies == ["approved rejected"]


def test_skipping_to_what_is_not_due_is_refused_with_what_is_open() -> None:
    session = rehearse(desk)
    with pytest.raises(Misuse, match="nothing is due: the session is Opened, open: nothing"):
        session.skip_to_next()
    with pytest.raises(Misuse, match="no approval is open"):
        session.expire()


@pytest.mark.parametrize(
    "ask",
    [
        lambda session: session.calls("pay"),
        lambda session: session.fail_next("pay"),
        lambda session: session.fake("pay", 1),
        lambda session: session.answer("pay", 1),
    ],
)
def test_an_unknown_activity_is_named_with_those_there_are(ask) -> None:
    with pytest.raises(
        Misuse, match=r"no activity 'pay' is known here \(known: find_order, refund\)"
    ):
        ask(rehearse(desk))


def test_an_unknown_kind_of_failure_is_refused() -> None:
    with pytest.raises(Misuse, match=r"no failure is of kind 'tired' .*timed_out"):
        rehearse(desk).fail_next("find_order", kind="tired")


def test_only_a_call_without_an_answer_can_be_answered() -> None:
    session = rehearse(desk, activities={"find_order": NO_ANSWER})
    session.send("go")
    with pytest.raises(Misuse, match=r"no call of 'refund' is without an answer \(without: find_"):
        session.answer("refund", "x")
    with pytest.raises(Misuse, match="NO_ANSWER is no answer"):
        session.answer("find_order", NO_ANSWER)
    session.answer("find_order", 5)
    assert len(session.replies) == 1


@pytest.mark.parametrize(
    ("declared", "told"),
    [
        ((), r"which workflow\? give workflow='…' \(declared: none\)"),
        ((played,), r"which workflow\? .*\(declared: desk, sleeper, stubborn\)"),
        ((desk, 7), "takes workflows, activities, an app, a module or its name, got 7"),
        ((desk.function,), "takes workflows, activities, an app"),
        (("no_such_module_here",), "no module 'no_such_module_here'"),
    ],
)
def test_what_cannot_be_rehearsed_is_refused(declared, told) -> None:
    with pytest.raises(Misuse, match=told):
        rehearse(*declared)


def test_an_unknown_workflow_is_refused() -> None:
    with pytest.raises(Misuse, match=r"no workflow 'dask' is declared here \(declared: desk\)"):
        rehearse(desk, workflow="dask")


def test_two_activities_of_one_name_are_refused() -> None:
    @activity(contract=Read(), name="find_order")
    async def other(text: str) -> int:
        return 1

    with pytest.raises(Misuse, match="activity 'find_order' is declared twice"):
        rehearse(desk, find_order, other)


def test_an_activity_that_a_workflow_reaches_unseen_is_asked_for() -> None:
    hidden = {}

    @activity(contract=Read())
    async def look_around() -> int:
        return 1

    @workflow("hider", version=1)
    async def hider(turn: Turn, desk: Desk, message: Message) -> Desk:
        await turn.run(hidden["it"].call())
        return desk

    hidden["it"] = look_around
    session = rehearse(hider)
    with pytest.raises(Misuse, match=r"no activity 'look_around' is known here .*give it to the"):
        session.send("go")
    session = rehearse(hider, look_around)
    session.send("go")
    assert session.status == "Suspended"


def test_a_start_without_a_time_zone_is_refused() -> None:
    with pytest.raises(Misuse, match="has no time zone: give tzinfo=UTC"):
        rehearse(desk, starts_at=datetime(2030, 1, 1))


@pytest.mark.parametrize("duration", ["3 days", "soon", -1])
def test_a_duration_is_written_as_everywhere(duration) -> None:
    with pytest.raises(Misuse, match="duration"):
        rehearse(desk).skip(duration)


def test_a_workflow_without_an_end_is_stopped(monkeypatch) -> None:
    monkeypatch.setattr("wakeful.processors.testing.rehearsal.CALLS_MAX", 20)
    session = rehearse(endless, activities={"find_order": 1})
    with pytest.raises(Misuse, match="20 activities were called at one moment"):
        session.send("go")
