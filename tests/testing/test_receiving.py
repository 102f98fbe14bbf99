"""Rehearsals of what comes from outside: signals, triggers, messages in the middle of a turn, and doubts resolved."""

from collections.abc import Callable

import pytest
from pydantic import BaseModel, ValidationError

from tests.processors.desk import Desk
from tests.processors.workflow.hands import book, find_order, wire
from wakeful import ActivityError, Message, Turn, WrongSignal, workflow
from wakeful.testing import NO_ANSWER, Held, Misuse, Refused, Rehearsal, rehearse


@workflow("listener", version=1)
async def listener(turn: Turn, desk: Desk, message: Message) -> Desk:
    """Waits for a payment, then looks at what was written meanwhile."""
    if message.trigger != "message":
        await turn.say(f"{message.trigger} ({message.reason}): {message.data}")
        return desk
    paid = await turn.signal("paid", int)
    told = [told.text for told in await turn.inbox()]
    await turn.say(f"{paid} {told}")
    return turn.again(Desk(refunded_cents=paid)) if paid < 10 else desk


@workflow("doubter", version=1)
async def doubter(turn: Turn, desk: Desk, message: Message) -> Desk:
    """Makes a call that is made at most once."""
    try:
        await turn.say(await turn.run(wire.call(5)))
    except ActivityError as error:
        await turn.say(f"{error.failure.kind}: {error.failure.message}")
    return desk


@workflow("booker", version=1)
async def booker(turn: Turn, desk: Desk, message: Message) -> Desk:
    """Makes a call that can be undone."""
    try:
        await turn.run(book.call(5))
    except ActivityError as error:
        await turn.say(error.failure.kind)
    return desk


def test_signals_and_messages_reach_a_turn_that_asks_for_them() -> None:
    session = rehearse(listener)
    session.send("go")
    assert [(wait.kind, wait.name) for wait in session.waits] == [("signal", "paid")]
    session.send("hurry")
    session.signal("paid", 3)
    session.signal("paid", 12)
    assert session.replies == ["3 ['hurry']", "12 []"]
    assert session.status == "Suspended"


class Paid(BaseModel):
    cents: int


@workflow("payee", version=1)
async def trusting(turn: Turn, desk: Desk, message: Message) -> Desk:
    """Reads what comes, and has no answer to what does not fit."""
    owed = Paid.model_validate(message.data)
    paid = await turn.signal("paid", Paid)
    await turn.say(f"{paid.cents} of {owed.cents}")
    return desk


@workflow("payee", version=1)
async def careful(turn: Turn, desk: Desk, message: Message) -> Desk:
    """The same, with an answer."""
    try:
        owed = Paid.model_validate(message.data)
    except ValidationError:
        await turn.say("what?")
        return desk
    while True:
        try:
            paid = await turn.signal("paid", Paid)
        except WrongSignal:
            await turn.say("how much?")
        else:
            await turn.say(f"{paid.cents} of {owed.cents}")
            return desk


def sends_no_cents(session: Rehearsal) -> None:
    """A message that is none of this workflow's."""
    session.send("hello")


def triggers_no_cents(session: Rehearsal) -> None:
    """An occasion that is none."""
    session.trigger("schedule", "nightly", {"cents": "many"})


def signals_no_cents(session: Rehearsal) -> None:
    """A signal to a turn that waits for another type."""
    session.send({"cents": 7})
    session.signal("paid", {"cents": "many"})


def signals_ahead(session: Rehearsal) -> None:
    """The same before the turn has asked."""
    session.signal("paid", ["no"])
    session.send({"cents": 7})


ODD = [
    (sends_no_cents, ["what?"]),
    (triggers_no_cents, ["what?"]),
    (signals_no_cents, ["how much?"]),
    (signals_ahead, ["how much?"]),
]


@pytest.mark.parametrize(("come", "said"), ODD)
def test_what_does_not_fit_and_is_not_caught_holds_at_each_release_and_a_cancel_ends_it(
    come: Callable[[Rehearsal], None], said: list[str]
) -> None:
    session = rehearse(trusting)
    reason = "wrong_signal" if said == ["how much?"] else "workflow_raised"
    with pytest.raises(Held) as held:
        come(session)
    assert held.value.reason == reason
    session.signal("paid", {"cents": 7})
    for _ in range(2):
        with pytest.raises(Held, match=reason):
            session.release()
    assert session.hold is not None
    assert session.hold.reason == reason
    assert session.replies == []
    session.cancel("nobody can read that")
    assert (session.status, session.hold) == ("Cancelled", None)


@pytest.mark.parametrize(("come", "said"), ODD)
def test_code_that_catches_it_goes_on_after_a_release_with_all_that_came_meanwhile(
    come: Callable[[Rehearsal], None], said: list[str]
) -> None:
    session = rehearse(trusting)
    with pytest.raises(Held):
        come(session)
    session.signal("paid", {"cents": 6})
    session.send({"cents": 8})
    session.redeploy(careful)
    session.release()
    session.signal("paid", {"cents": 5})
    assert session.replies[:1] == said
    answered = ["6 of 8"] if said == ["what?"] else ["6 of 7", "5 of 8"]
    assert session.replies[1:] == answered


def test_a_trigger_starts_a_turn_of_its_own() -> None:
    session = rehearse(listener)
    session.trigger("schedule", "nightly", {"n": 1})
    assert session.replies == ["schedule (nightly): {'n': 1}"]


def test_a_doubt_is_resolved_by_a_result_or_by_an_exception() -> None:
    session = rehearse(doubter, wire, activities={"wire": NO_ANSWER})
    session.send("go")
    session.skip("5m")
    assert [(wait.kind, wait.name) for wait in session.waits] == [("uncertain", "wire")]
    session.resolve("wire", "wired 5")
    session.send("go")
    session.skip("5m")
    session.resolve(None, LookupError("the bank knows nothing of it"))
    assert session.replies == ["wired 5", "not_done: the bank knows nothing of it"]


def test_what_cannot_be_resolved_says_what_is_open() -> None:
    session = rehearse(doubter, wire, find_order, activities={"wire": NO_ANSWER})
    session.send("go")
    with pytest.raises(Misuse, match=r"no activity of 'wire' is uncertain: .*activity wire"):
        session.resolve("wire", "x")
    session.skip("5m")
    with pytest.raises(Misuse, match="gives 7, which is not what it returns"):
        session.resolve("wire", 7)
    with pytest.raises(Refused, match="signal name ''"):
        session.signal("")


def test_a_worker_that_dies_with_a_call_that_is_made_once_leaves_a_doubt() -> None:
    session = rehearse(doubter, wire)
    session.crash_at(1)
    session.send("go")
    assert len(session.calls("wire")) == 1
    assert session.status == "Running"
    session.skip("5m")
    session.resolve("wire", "wired 5")
    assert session.replies == ["wired 5"]
    assert len(session.calls("wire")) == 1


def test_an_undo_is_rehearsed_like_any_other_call() -> None:
    session = rehearse(booker)
    session.fail_next("book", "timed_out")
    session.send("go")
    assert session.replies == ["undone"]
    (undone,) = session.calls("recall")
    assert undone.arguments == {"cents": 5, "done_key": "rehearsal/session-1/1/1"}


def test_a_crash_at_every_step_changes_nothing_of_what_is_received() -> None:
    session = rehearse(listener)
    session.crash_everywhere()
    session.send("go")
    session.send("hurry")
    session.signal("paid", 30)
    assert session.replies == ["30 ['hurry']"]
    assert [at.step for at in session.crashes] == [1, 2, 3]


@workflow("closer", version=1)
async def closer(turn: Turn, desk: Desk, message: Message) -> Desk:
    """Ends its session after an hour: with an outcome, or with whatever its activity raises."""
    await turn.sleep("1h")
    if message.text == "listen":
        await turn.say([told.text for told in await turn.inbox()])
    if message.text == "fail":
        await turn.run(find_order.call("x"))
    await turn.complete("done")
    return desk


@pytest.mark.parametrize(
    ("text", "status", "unread"),
    [("complete", "Completed", 2), ("fail", "Failed", 2), ("listen", "Completed", 1)],
)
def test_what_was_not_read_ends_with_the_session_and_is_counted(
    text: str, status: str, unread: int
) -> None:
    session = rehearse(closer, activities={"find_order": LookupError("no such order")})
    session.send(text)
    session.send("and this")
    session.trigger("schedule", "nightly")
    session.signal("paid", 5)
    session.skip("1h")
    assert session.status == status
    assert session.replies == ([["and this"]] if text == "listen" else [])
    assert session.events[-1].messages_unread == unread
    assert session.facts.count("TurnStarted") == 1
    assert {"MessageReceived", "TriggerReceived", "SignalReceived"} <= set(session.facts)
    with pytest.raises(Refused, match="open a new one"):
        session.send("too late")
