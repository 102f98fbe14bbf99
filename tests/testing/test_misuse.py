"""Tests that ask for what cannot be are told what is there and what may come next."""

import math
import threading
from datetime import UTC, datetime

import pytest
from pydantic import BaseModel

from tests.processors import desk as played
from tests.processors.desk import Desk, desk, find_order, refund, sleeper
from wakeful import Message, Read, Turn, activity, workflow
from wakeful.testing import NO_ANSWER, Held, Misuse, rehearse


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
        "SendSignal (kept until a turn asks for it), StartTurn (queues behind the running turn), "
        "ResetSession (to the end of turn 0), PinSession (turns begin on that version from then on)"
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
        (
            (desk, 7),
            "takes workflows, activities, mcp servers, an app, a module or its name, got 7",
        ),
        ((desk.function,), "takes workflows, activities, mcp servers, an app"),
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


def test_a_start_before_the_logs_time_is_refused() -> None:
    with pytest.raises(Misuse, match=r"1960.* is before the log's time begins: give one from 1970"):
        rehearse(desk, starts_at=datetime(1960, 1, 1, tzinfo=UTC))


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"activities": [1]}, r"activities= is a mapping of names to fakes, .*, got \[1\]"),
        ({"activities": {5: 1}}, "an activity is named by a text, got 5: give its name"),
        ({"starts_at": "x"}, "starts_at is a datetime with a time zone, got 'x'"),
        ({"session_id": 5}, "session_id is a text, got 5"),
        ({"session_id": ""}, "session id '' is not allowed: use 1 to 128 of A-Z"),
        ({"session_id": "a/b"}, "session id 'a/b' is not allowed: use 1 to 128 of A-Z"),
        ({"session_id": "s" * 5_000}, "session id 5000 characters is not allowed"),
        ({"always_replay": "no"}, "always_replay is True or False, got 'no'"),
        ({"workflow": []}, r"no workflow \[\] is declared here"),
    ],
)
def test_what_a_rehearsal_cannot_begin_with_is_named(given, told) -> None:
    with pytest.raises(Misuse, match=told):
        rehearse(desk, **given)


@pytest.mark.parametrize("message", [b"x", float("nan"), {1, 2}, {1: 2}, Desk(), [{1}]], ids=repr)
@pytest.mark.parametrize(
    ("what", "ask"),
    [
        ("a message", lambda session, value: session.send(value)),
        ("a signal's data", lambda session, value: session.signal("paid", value)),
        ("a trigger's data", lambda session, value: session.trigger("schedule", "", value)),
    ],
    ids=["send", "signal", "trigger"],
)
def test_what_is_not_json_cannot_be_sent(what, ask, message) -> None:
    session = rehearse(desk)
    with pytest.raises(Misuse) as error:
        ask(session, message)
    assert str(error.value).startswith(
        f"{what} is a text, or anything that is JSON, got {message!r}"
    )
    assert session.facts == ["SessionOpened"]


@pytest.mark.parametrize("message", [None, 5, [1, "x"], {"cents": 7}], ids=repr)
def test_whatever_is_json_comes_as_it_was_sent_as_from_a_client(message) -> None:
    @workflow("echo", version=1)
    async def echo(turn: Turn, desk: Desk, message: Message) -> Desk:
        await turn.say(message.data)
        return desk

    session = rehearse(echo)
    session.send(message)
    assert session.replies == [message]


@pytest.mark.parametrize("name", [None, 5, [], b"refund"], ids=repr)
@pytest.mark.parametrize(
    "ask",
    [
        lambda session, name: session.fake(name, 1),
        lambda session, name: session.fail_next(name),
        lambda session, name: session.answer(name, 1),
        lambda session, name: session.calls(name),
    ],
    ids=["fake", "fail_next", "answer", "calls"],
)
def test_an_activity_is_named_by_its_name(ask, name) -> None:
    with pytest.raises(Misuse, match=r"an activity is named by a text, got .*: give its name"):
        ask(rehearse(desk), name)


def test_an_activity_given_for_its_name_is_told_it() -> None:
    with pytest.raises(Misuse, match=r"got .*refund.*: give 'refund'"):
        rehearse(desk).calls(refund)


@pytest.mark.parametrize(
    ("ask", "told"),
    [
        (lambda session: session.signal(None), "the name of a signal is a text, got None"),
        (lambda session: session.trigger(None), "the kind of a trigger is a text, got None"),
        (lambda session: session.trigger("schedule", 5), "reason is a text, got 5"),
        (lambda session: session.cancel(5), "reason is a text, got 5"),
        (lambda session: session.release(None), "reason is a text, got None"),
        (lambda session: session.approve(comment=5), "comment is a text, got 5"),
        (lambda session: session.resolve(None, 1, comment=5), "comment is a text, got 5"),
        (lambda session: session.fail_next("refund", message=5), "message is a text, got 5"),
        (lambda session: session.fail_next("refund", error_type=5), "error_type is a text, got 5"),
        (lambda session: session.send("x", by=5), "by is a text, got 5"),
        (lambda session: session.send("x", by=""), "by '' is not allowed: use 1 to 200"),
        (lambda session: session.send("x", by="b" * 5_000), "by of 5000 characters is not all"),
        (lambda session: session.cancel("r" * 20_000), "reason has 20000 characters and the limit"),
        (lambda session: session.crash_at(None), "step is a whole number from 1, got None"),
        (lambda session: session.crash_at(""), "step is a whole number from 1, got ''"),
        (lambda session: session.crash_at(1.5), "step is a whole number from 1, got 1.5"),
        (lambda session: session.crash_at(True), "step is a whole number from 1, got True"),
        (lambda session: session.crash_at(0), "there is no step 0: steps count from 1"),
        (lambda session: session.crash_at(1, turn=""), "turn is a whole number from 1, got ''"),
        (lambda session: session.crash_at(1, turn=0), "there is no turn 0: turns count from 1"),
        (lambda session: session.redeploy(desk, activities=[1]), r"activities= is a mapping .*\[1"),
    ],
)
def test_what_no_client_would_take_is_named_and_changes_nothing(ask, told) -> None:
    session = rehearse(desk)
    with pytest.raises(Misuse, match=told):
        ask(session)
    assert session.facts == ["SessionOpened"]


def test_nobody_approves_for_nobody() -> None:
    session = rehearse(desk, activities={"find_order": 500})
    session.send("go")
    with pytest.raises(Misuse, match="by '' is not allowed"):
        session.approve(by="")
    assert [wait.kind for wait in session.waits] == ["approval"]


def test_a_value_whose_repr_raises_is_named_all_the_same() -> None:
    class Shy:
        def __repr__(self) -> str:
            raise LookupError("not now")

    with pytest.raises(Misuse, match="got a Shy whose repr raises LookupError"):
        rehearse(desk).send(Shy())


class Counts(BaseModel):
    """A state that cannot be read back: JSON knows no NaN."""

    cents: float = 0


def test_a_release_that_is_held_again_for_the_same_reason_says_so_each_time() -> None:
    @workflow("counts", version=1)
    async def counts(turn: Turn, state: Counts, message: Message) -> Counts:
        return Counts(cents=math.nan)

    session = rehearse(counts)
    with pytest.raises(Held, match="state_unserialisable"):
        session.send("one")
    session.send("two")  # kept: it holds nothing anew
    for _ in range(2):
        with pytest.raises(Held, match="state_unserialisable"):
            session.release()
        assert session.status == "Recovering"


@pytest.mark.parametrize("duration", ["3 days", "soon", -1])
def test_a_duration_is_written_as_everywhere(duration) -> None:
    with pytest.raises(Misuse, match="duration"):
        rehearse(desk).skip(duration)


def test_a_workflow_without_an_end_is_stopped(monkeypatch) -> None:
    monkeypatch.setattr("wakeful.processors.testing.rehearsal.CALLS_MAX", 20)
    session = rehearse(endless, activities={"find_order": 1})
    with pytest.raises(Misuse, match="20 activities were called at one moment"):
        session.send("go")


@workflow("spinner", version=1)
async def spinner(turn: Turn, desk: Desk, message: Message) -> Desk:
    """Goes round without a wait where it is told to, and wants to hear of nothing."""
    while message.text == "spin":
        try:
            while True:
                pass
        except BaseException:
            continue
    return desk


def test_a_workflow_that_spins_is_held_as_it_would_be_by_a_processor(monkeypatch) -> None:
    monkeypatch.setattr("wakeful.processors.testing.engine.LIMIT_S", 0.1)
    session = rehearse(spinner)
    with pytest.raises(Held, match=r"workflow_stuck.*without a wait: only turn\.… may wait"):
        session.send("spin")
    assert session.status == "Recovering"


def test_a_coroutine_that_spins_when_it_is_dropped_is_left(monkeypatch) -> None:
    @workflow("clings", version=1)
    async def clings(turn: Turn, desk: Desk, message: Message) -> Desk:
        try:
            await turn.sleep("1h")
        except GeneratorExit:
            while True:
                pass
        return desk

    monkeypatch.setattr("wakeful.processors.testing.engine.LIMIT_S", 0.1)
    session = rehearse(clings, always_replay=False)
    session.send("go")
    session.redeploy(clings)
    session.skip("1h")
    assert session.status == "Suspended"


def test_a_rehearsal_in_a_thread_goes_without_a_limit() -> None:
    told = []

    def play() -> None:
        session = rehearse(sleeper)
        session.send("go")
        session.skip("10m")
        told.append(session.status)

    thread = threading.Thread(target=play)
    thread.start()
    thread.join()
    assert told == ["Suspended"]
