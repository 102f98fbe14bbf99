"""What a session did is taken back when it fails or is cancelled: the last effect first, each once, and visibly."""

import pytest

from tests.processors.desk import Desk, find_order
from wakeful import Message, Needs, Retry, Turn, Write, activity, workflow
from wakeful.commands.models import FailActivity
from wakeful.events import records as r
from wakeful.events.undoing import COMPENSATIONS_MAX
from wakeful.testing import NO_ANSWER, Held, Refused, rehearse

IDEMPOTENT = Write(idempotent=True)
NO_RETRY = Retry(attempts=1)


@activity(contract=IDEMPOTENT, schedule_to_close="5m")
async def flight(trip: str, *, key: str) -> str:
    """Books a flight."""
    return f"{trip} under {key}"


@activity(contract=Write(), schedule_to_close="5m")
async def hotel(trip: str) -> str:
    """Books a room, once at most."""
    return trip


@activity(contract=IDEMPOTENT)
async def leave_flight(trip: str, done_key: str) -> str:
    """Takes the flight of this key back."""
    return done_key


@activity(contract=IDEMPOTENT, retry=Retry(attempts=3))
async def leave_hotel(trip: str) -> None:
    """Takes the room back."""


@activity(contract=IDEMPOTENT, approval=Needs("manager", expires="1h"))
async def leave_dearly(trip: str) -> None:
    """Takes it back at a price, which a manager has to allow."""


@activity(contract=IDEMPOTENT, retry=NO_RETRY)
async def pay(trip: str) -> None:
    """Pays, or does not."""


@activity(contract=Write())
async def leave_once(trip: str) -> None:
    """Takes it back, once at most."""


@workflow("traveller", version=1)
async def traveller(turn: Turn, desk: Desk, message: Message) -> Desk:
    """Books a flight and a hotel, then pays; `wait` sleeps before that, `stay` ends the turn instead."""
    await turn.run(flight.call("rome"), compensate=leave_flight)
    await turn.run(hotel.call("rome"), compensate=leave_hotel.call("rome"))
    if message.text == "stay":
        return desk
    if message.text == "commit":
        await turn.committed()
    if message.text == "wait":
        await turn.sleep("1h")
    await turn.run(pay.call("rome"))
    await turn.complete("travels")
    return desk


@workflow("dear", version=1)
async def dear(turn: Turn, desk: Desk, message: Message) -> Desk:
    """What it did is taken back only once somebody approves."""
    await turn.run(hotel.call("rome"), compensate=leave_dearly.call("rome"))
    await turn.run(pay.call("rome"))
    return desk


TRAVEL = (traveller, flight, hotel, leave_flight, leave_hotel, leave_dearly, pay)
UNPAID = {"pay": ValueError("no cover")}


def called(session, *names):
    """The calls that were made of these, in order."""
    wanted = names or ("leave_flight", "leave_hotel", "leave_dearly")
    return [call.name for call in session._stage.calls if call.name in wanted]


def last(session):
    return session.events[-1]


def test_a_failure_takes_back_what_was_done_last_first():
    session = rehearse(*TRAVEL, activities=UNPAID)
    session.send("go")
    assert called(session) == ["leave_hotel", "leave_flight"]
    assert session.status == "Failed"
    ended = last(session)
    assert isinstance(ended, r.SessionFailed)
    assert ended.failure.message == "no cover"
    assert (ended.done, ended.compensated, ended.uncertain, ended.not_compensated) == (
        (),
        ("1.2", "1.1"),
        (),
        (),
    )


def test_a_compensation_is_an_activity_of_its_own_that_says_what_it_takes_back():
    session = rehearse(*TRAVEL, activities=UNPAID)
    session.send("go")
    undos = [e for e in session.events if isinstance(e, r.ActivityRequested) and e.compensates]
    assert [(u.name, u.activity_id, u.compensates, u.idempotency_key) for u in undos] == [
        ("leave_hotel", "1.4", "1.2", "rehearsal/session-1/1/4"),
        ("leave_flight", "1.5", "1.1", "rehearsal/session-1/1/5"),
    ]


def test_an_activity_as_compensation_gets_the_same_arguments_and_the_key():
    session = rehearse(*TRAVEL, activities=UNPAID)
    session.send("go")
    (undo,) = session.calls("leave_flight")
    assert undo.arguments == {"trip": "rome", "done_key": "rehearsal/session-1/1/1"}


def test_every_crash_comes_to_the_same_end():
    session = rehearse(*TRAVEL, activities=UNPAID)
    session.crash_everywhere()
    session.send("wait")
    session.cancel()
    assert session.status == "Cancelled"
    assert last(session).compensated == ("1.2", "1.1")


def test_a_session_that_completes_keeps_what_it_did():
    session = rehearse(*TRAVEL)
    session.send("go")
    assert (session.status, called(session)) == ("Completed", [])


def test_what_is_committed_is_not_taken_back():
    session = rehearse(*TRAVEL, activities=UNPAID)
    session.crash_everywhere()
    session.send("commit")
    assert (session.status, called(session)) == ("Failed", [])


def test_a_cancellation_takes_back_and_withdraws_the_timer():
    session = rehearse(*TRAVEL)
    session.send("wait")
    session.cancel()
    assert called(session) == ["leave_hotel", "leave_flight"]
    assert session.status == "Cancelled"
    assert last(session) == r.SessionCancelled((), (), (), ("1.2", "1.1"), ())
    assert "TimerCancelled" in session.facts
    session.skip("2h")
    assert called(session, "pay") == []


def test_a_cancellation_between_turns_takes_back_what_an_earlier_turn_did():
    session = rehearse(*TRAVEL)
    session.send("stay")
    assert session.status == "Suspended"
    session.cancel()
    assert called(session) == ["leave_hotel", "leave_flight"]
    assert session.status == "Cancelled"


def test_it_goes_on_where_the_workflow_is_gone():
    session = rehearse(*TRAVEL)
    session.send("wait")
    session.redeploy(flight, hotel, leave_flight, leave_hotel, pay)
    session.cancel()
    assert (session.status, called(session)) == ("Cancelled", ["leave_hotel", "leave_flight"])


def test_a_session_that_is_held_is_cancelled_and_takes_back():
    session = rehearse(*TRAVEL, activities={"pay": NO_ANSWER})
    session.send("go")
    session.redeploy(flight, hotel, leave_flight, leave_hotel, pay)
    with pytest.raises(Held):
        session.answer("pay", None)
    session.cancel()
    assert (session.status, called(session)) == ("Cancelled", ["leave_hotel", "leave_flight"])


def test_an_effect_that_never_happened_is_not_taken_back():
    session = rehearse(*TRAVEL)
    session.fail_next("hotel", "nothing_done")
    session.send("go")
    assert (session.status, called(session)) == ("Failed", ["leave_flight"])
    assert last(session).compensated == ("1.1",)


def test_an_effect_that_may_have_happened_is_taken_back():
    session = rehearse(*TRAVEL, activities={"flight": ValueError("lost")})
    session.send("go")
    session.skip("10m")
    assert (session.status, called(session)) == ("Failed", ["leave_flight"])


def test_an_effect_in_doubt_is_taken_back_by_a_cancellation():
    session = rehearse(*TRAVEL)
    session.fail_next("hotel", "cut_off")
    session.send("go")
    assert [wait.kind for wait in session.waits] == ["uncertain"]
    session.cancel()
    assert called(session) == ["leave_hotel", "leave_flight"]


def test_a_call_in_flight_is_awaited_before_it_is_taken_back():
    session = rehearse(*TRAVEL, activities={"hotel": NO_ANSWER})
    session.send("go")
    session.cancel()
    assert (session.status, called(session)) == ("Compensating", [])
    session.answer("hotel", "rome")  # it happened after the cancellation
    assert called(session) == ["leave_hotel", "leave_flight"]
    assert session.status == "Cancelled"


def test_a_call_in_flight_that_did_nothing_is_not_taken_back():
    session = rehearse(*TRAVEL)
    session.fake("hotel", NO_ANSWER)
    session.send("go")
    session.cancel()
    task = session._unanswered[0]
    failure = r.Failure("nothing_done", "", "no", "")
    session._report(task, FailActivity(task.activity_id, task.attempt, failure, "w"))
    session._settle(len(session._engine.log))
    assert (session.status, called(session)) == ("Cancelled", ["leave_flight"])


def test_a_call_of_which_nothing_is_heard_is_taken_back_after_its_deadline():
    session = rehearse(*TRAVEL, activities={"hotel": NO_ANSWER})
    session.send("go")
    session.cancel()
    session.skip("4m")
    assert session.status == "Compensating"
    session.skip("1m")
    assert (session.status, called(session)) == ("Cancelled", ["leave_hotel", "leave_flight"])


def test_a_compensation_that_fails_holds_the_session_and_a_release_tries_it_again():
    session = rehearse(*TRAVEL, activities={**UNPAID, "leave_hotel": ValueError("closed")})
    session.fake("leave_hotel", [ValueError("closed")] * 9)
    session.send("go")
    with pytest.raises(Held, match=r"compensation_failed.*leave_hotel did not take back hotel"):
        session.skip("1d")
    assert session.status == "Recovering"
    attempts = len(session.calls("leave_hotel"))
    session.fake("leave_hotel", None)
    session.release()
    again = session.calls("leave_hotel")
    assert len(again) == attempts + 1
    assert len({call.key for call in again}) == 1  # the same key, so a tool can tell
    assert called(session)[-1] == "leave_flight"
    assert (session.status, last(session).compensated) == ("Failed", ("1.2", "1.1"))


def test_a_session_held_for_a_compensation_can_be_given_up_and_says_what_stands():
    session = rehearse(*TRAVEL, activities=UNPAID)
    session.fail_next("leave_hotel", "wrong_arguments")
    with pytest.raises(Held):
        session.send("go")
    session.cancel()
    assert session.status == "Cancelled"
    assert last(session) == r.SessionCancelled((), (), (), (), ("1.2", "1.1"))
    assert called(session, "leave_flight") == []


@pytest.mark.parametrize("late", ["cancel", "send"])
def test_a_session_that_takes_back_refuses_what_comes_too_late(late):
    session = rehearse(*TRAVEL, activities={"leave_hotel": NO_ANSWER})
    session.send("wait")
    session.cancel()
    act = session.cancel if late == "cancel" else lambda: session.send("more")
    with pytest.raises(Refused, match=r"session_ending.*takes back what it did"):
        act()
    session.answer("leave_hotel", None)
    assert (session.status, called(session)) == ("Cancelled", ["leave_hotel", "leave_flight"])


def test_a_compensation_whose_rule_asks_waits_for_its_approver():
    session = rehearse(dear, *TRAVEL[1:], activities=UNPAID)
    session.send("go")
    assert [(w.kind, w.name) for w in session.waits if w.kind == "approval"] == [
        ("approval", "leave_dearly")
    ]
    assert (session.status, called(session)) == ("Compensating", [])
    session.approve(by="mary")
    assert (session.status, called(session)) == ("Failed", ["leave_dearly"])


def test_a_compensation_that_nobody_approves_holds_the_session():
    session = rehearse(dear, *TRAVEL[1:], activities=UNPAID)
    session.send("go")
    with pytest.raises(Held, match="compensation_failed"):
        session.expire()
    session.release()
    session.approve(by="mary")
    assert (session.status, called(session)) == ("Failed", ["leave_dearly"])


def test_a_compensation_in_doubt_waits_for_a_person():
    @workflow("once", version=1)
    async def once(turn: Turn, desk: Desk, message: Message) -> Desk:
        await turn.run(hotel.call("rome"), compensate=leave_once.call("rome"))
        await turn.sleep("1h")
        return desk

    session = rehearse(once, hotel, leave_once)
    session.send("go")
    session.fail_next("leave_once", "cut_off")
    session.cancel()
    assert (session.status, [w.kind for w in session.waits]) == ("Compensating", ["uncertain"])
    session.resolve("leave_once", None)
    assert (session.status, last(session).compensated) == ("Cancelled", ("1.1",))


@workflow("hoarder", version=1)
async def hoarder(turn: Turn, desk: Desk, message: Message) -> Desk:
    """As many effects as a session can take back, and then a pause."""
    for _ in range(COMPENSATIONS_MAX):
        await turn.run(hotel.call("x"), compensate=leave_hotel.call("x"))
    await turn.sleep("1h")
    return desk


def test_a_cancellation_leads_to_few_facts_at_once_however_much_was_done():
    session = rehearse(hoarder, hotel, leave_hotel)
    session.send("go")
    session.fake("leave_hotel", NO_ANSWER)
    before = len(session.events)
    session.cancel()
    assert session.facts[before:] == [
        "CancellationRequested",
        "TimerCancelled",
        "CompensationStarted",
        "ActivityRequested",
    ]
    assert len(session.events[before + 2].compensating) == COMPENSATIONS_MAX


@workflow("misuser", version=1)
async def misuser(turn: Turn, desk: Desk, message: Message) -> Desk:
    """What compensate= does not take."""
    match message.text:
        case "read":
            await turn.run(find_order.call("x"), compensate=leave_hotel.call("x"))
        case "nothing":
            await turn.run(hotel.call("x"), compensate=find_order.call("x"))
        case "text":
            await turn.run(hotel.call("x"), compensate="leave_hotel")
        case _:
            for _ in range(101):
                await turn.run(hotel.call("x"), compensate=leave_hotel.call("x"))
    return desk


@pytest.mark.parametrize(
    ("case", "told"),
    [
        ("read", "find_order, which changes nothing: leave it out"),
        ("nothing", "is a Read.. and so takes nothing back"),
        ("text", "compensate='leave_hotel': give it an action"),
        ("many", "101 compensations .* call turn.committed"),
    ],
)
def test_a_compensation_that_cannot_be_kept_holds_with_a_reason(case, told):
    session = rehearse(misuser, find_order, hotel, leave_hotel)
    with pytest.raises(Held, match=told):
        session.send(case)
    assert session.hold.reason == "workflow_misuse"
