"""A rehearsal drives a session as people, workers and time would."""

import asyncio
from datetime import UTC, datetime, timedelta
from types import ModuleType

import pytest

from tests.processors import desk as played
from tests.processors.desk import Desk, desk, find_order, refund, sleeper
from wakeful import Message, Turn, workflow
from wakeful.processors.app import gather
from wakeful.testing import NO_ANSWER, Refused, rehearse

DEAR = {"find_order": 500}


@workflow("racer", version=1)
async def racer(turn: Turn, desk: Desk, message: Message) -> Desk:
    """A sleep of two minutes against an order that may not come, and three things at once."""
    won = await turn.first(turn.run(find_order.call("x")), turn.sleep("2m"))
    await turn.say(f"{won.index} at {turn.now():%H:%M}")
    await turn.gather(turn.sleep("3h"), turn.sleep("1h"), turn.approval(refund.call(500)))
    await turn.say(f"{turn.now():%H:%M}")
    return desk


async def helped(turn: Turn) -> int:
    return await turn.run(find_order.call("x"))


@workflow("canceller", version=1)
async def canceller(turn: Turn, desk: Desk, message: Message) -> Desk:
    """Two calls, of which the first that is done ends the other; asked for by a helper of its module."""
    won = await turn.first(helped(turn), helped(turn), cancel=True)
    await turn.say(f"{won.index}: {won.value}")
    return desk


def test_a_turn_without_waits_is_over_when_send_returns() -> None:
    session = rehearse(desk, activities={"find_order": 50, "refund": "receipt"})
    session.send("please")
    assert session.replies == ["refunded 50 as receipt"]
    assert session.state == Desk(refunded_cents=50)
    assert (session.status, session.waits, session.outcome) == ("Suspended", (), None)


def test_state_goes_from_turn_to_turn() -> None:
    session = rehearse(desk, activities={"find_order": [50, 60], "refund": "receipt"})
    assert session.state == Desk()
    session.send("one")
    session.send({"text": "two", "last": True})
    assert session.state == Desk(refunded_cents=110)
    assert session.outcome == {"refunded": 60}


def test_the_real_function_runs_where_there_is_no_fake() -> None:
    session = rehearse(desk)
    session.send("x" * 50)
    assert session.replies == ["refunded 50 as rehearsal/session-1/1/2"]


def test_the_real_function_runs_in_a_test_that_has_a_loop() -> None:
    async def inside() -> list[str]:
        session = rehearse(desk)
        session.send("x" * 50)
        return session.replies

    assert asyncio.run(inside()) == ["refunded 50 as rehearsal/session-1/1/2"]


@pytest.mark.parametrize(
    ("decide", "reply"),
    [
        (lambda session: session.approve(by="sue"), "refunded 500 as receipt"),
        (lambda session: session.reject(by="sue"), "rejected by sue"),
        (lambda session: session.reject(), "rejected by supervisor"),
        (lambda session: session.expire(), "expired by nobody"),
    ],
)
def test_a_proposal_is_decided_or_expires(decide, reply) -> None:
    session = rehearse(desk, activities={**DEAR, "refund": "receipt"})
    session.send("please")
    assert [(w.kind, w.name, w.expiry) for w in session.waits] == [
        ("approval", "refund", "expires")
    ]
    decide(session)
    assert session.replies == [reply]


def test_time_moves_when_the_test_says_so() -> None:
    start = datetime(2030, 1, 1, 12, tzinfo=UTC)
    session = rehearse(sleeper, starts_at=start)
    session.send("sleep")
    session.skip(timedelta(minutes=9))
    assert session.replies == []
    session.skip("1m")
    assert session.replies[0]["slept"] == 600
    assert session.now == start + timedelta(minutes=10)


def test_what_is_due_comes_in_order_at_its_own_moment() -> None:
    session = rehearse(racer, activities={"find_order": NO_ANSWER})
    session.send("go")
    session.skip("1d")
    assert session.replies == ["1 at 08:02", "11:02"]
    assert session.facts.count("TimerFired") == 3
    at = [one.event.envelope.at_ms for one in session._engine.log]
    assert at == sorted(at)
    assert {"ActivityFailed", "ApprovalExpired"} < set(session.facts)  # their deadlines, too


def test_skipping_to_the_next_stops_there() -> None:
    session = rehearse(racer, activities={"find_order": NO_ANSWER})
    session.send("go")
    session.skip_to_next()
    assert session.replies == ["1 at 08:02"]


def test_an_answer_can_come_when_the_test_wants_it() -> None:
    session = rehearse(racer, activities={"find_order": NO_ANSWER})
    session.send("go")
    session.skip("1m")
    session.answer("find_order", 7)
    assert session.replies == ["0 at 08:01"]


def test_an_answer_after_the_deadline_is_late_and_changes_nothing() -> None:
    session = rehearse(
        desk, find_order, refund, workflow="desk", activities={"find_order": NO_ANSWER}
    )
    session.send("go")
    session.skip("5m")
    assert session.failure is not None
    assert session.failure.kind == "timed_out"
    session.answer("find_order", 7)
    assert session.facts[-2:] == ["SessionFailed", "LateResultRecorded"]


def test_activities_of_the_module_are_found_and_a_cancelled_call_is_not_made() -> None:
    session = rehearse(canceller, activities={"find_order": [1, 2]})
    session.send("go")
    assert session.replies == ["0: 1"]
    assert len(session.calls("find_order")) == 1
    assert "ActivityCancelled" in session.facts


def test_messages_queue_behind_a_turn() -> None:
    session = rehearse(desk, activities={"find_order": NO_ANSWER, "refund": "r"})
    session.send("one")
    session.send("two")
    session.answer("find_order", 50)
    assert session.replies == ["refunded 50 as r"]
    session.answer("find_order", 60)
    assert session.replies[1:] == ["refunded 60 as r"]


def test_a_cancelled_session_refuses_more() -> None:
    session = rehearse(desk, activities=DEAR)
    session.send("go")
    session.cancel()
    assert (session.status, session.waits) == ("Cancelled", ())
    with pytest.raises(Refused, match="the session is cancelled: open a new one") as refused:
        session.send("more")
    assert refused.value.reason == "session_ended"


def test_calls_are_recorded_with_their_arguments_and_key() -> None:
    session = rehearse(desk, activities={"find_order": 50, "refund": "r"}, session_id="s9")
    session.send("go")
    (call,) = session.calls("refund")
    assert (call.arguments, call.key) == ({"cents": 50}, "rehearsal/s9/1/2")


@pytest.mark.parametrize("source", ["module", "file", "app", "parts"])
def test_it_takes_what_there_is(source, tmp_path) -> None:
    parts = [desk, find_order, refund]
    module = ModuleType("some")
    vars(module).update({part.name: part for part in parts})
    path = tmp_path / "rehearsed_desk.py"
    path.write_text("from tests.processors.desk import desk, find_order, refund", encoding="utf-8")
    declared = {"module": [module], "file": [str(path)], "app": [gather(parts)], "parts": parts}
    session = rehearse(*declared[source])
    session.send("x" * 50)
    assert len(session.replies) == 1


def test_of_several_workflows_one_is_named() -> None:
    session = rehearse(played, workflow="sleeper")
    session.send("go")
    assert [wait.kind for wait in session.waits] == ["timer"]


def test_both_ways_of_driving_give_the_same_history() -> None:
    histories = []
    for always_replay in (True, False):
        session = rehearse(racer, activities={"find_order": [3, 4, 5]}, always_replay=always_replay)
        session.send("go")
        session.send("again")
        session.approve()
        session.skip("2h")
        session.skip("9d")
        histories.append(session.events)
    assert histories[0] == histories[1]
