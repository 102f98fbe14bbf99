"""Signals, the inbox and triggers: what comes before its wait is kept, and what is taken is taken once."""

from typing import Annotated, Any

import pytest
from pydantic import BaseModel, Field
from tests.processors.workflow.hands import (
    Desk,
    Hand,
    Message,
    Turn,
    desk_of,
    find_order,
    hand_of,
    kinds,
    no_doubt_left,
    refund,
    says,
)

from wakeful import WrongSignal
from wakeful.commands.models import OpenSession
from wakeful.events import records as r
from wakeful.events.state import Status


class Paid(BaseModel):
    """What the bank tells."""

    cents: int


async def waits_for_money(turn: Turn, desk: Desk, message: Message) -> Desk:
    paid = await turn.signal("paid", Paid)
    await turn.say(f"paid {paid.cents} at {turn.now():%H:%M}")
    return desk


@pytest.mark.case("U9")
@pytest.mark.parametrize("replay", [False, True])
def test_a_signal_that_came_before_its_wait_is_delivered_at_once(replay: bool) -> None:
    hand = hand_of(waits_for_money, always_replay=replay)
    hand.give(OpenSession("desk"))
    assert kinds(hand.signal("paid", {"cents": 7})) == ["SignalReceived"]
    assert kinds(hand.signal("other")) == ["SignalReceived"]
    out = hand.say("go")
    assert kinds(out)[2:] == ["SignalAwaited", "SignalDelivered", "ReplySent", "TurnCompleted"]
    assert out[3].wait_id == "1.1"
    assert hand.replies == says("paid 7 at 08:00")
    assert [kept.name for kept in hand.session.state.signals] == ["other"]
    no_doubt_left(hand)


def test_a_signal_resumes_the_turn_that_waits_for_its_name_and_no_other() -> None:
    hand = hand_of(waits_for_money)
    assert kinds(hand.open())[-2:] == ["SignalAwaited", "SessionWaiting"]
    assert kinds(hand.signal("other")) == ["SignalReceived"]
    hand.now_ms += 60_000
    out = hand.signal("paid", {"cents": 9})
    assert kinds(out) == ["SignalReceived", "SignalDelivered", "ReplySent", "TurnCompleted"]
    assert hand.replies == says("paid 9 at 08:01")
    no_doubt_left(hand)


def test_kept_signals_of_a_name_are_taken_oldest_first_and_once_each() -> None:
    async def takes(turn: Turn, desk: Desk, message: Message) -> Desk:
        for _ in range(2):
            await turn.say(await turn.signal("n"))
        return desk

    hand = hand_of(takes, always_replay=True)
    hand.open()
    for number in ("a", "b", "c"):
        hand.signal("n", number)
    assert hand.replies == says("a", "b")
    hand.say("more")
    hand.signal("n", "d")
    assert hand.replies == says("a", "b", "c", "d")
    no_doubt_left(hand)


def test_two_waits_for_one_name_get_one_signal_each_in_the_order_asked() -> None:
    async def both(turn: Turn, desk: Desk, message: Message) -> Desk:
        await turn.say("-".join(await turn.gather(turn.signal("n"), turn.signal("n"))))
        return desk

    hand = hand_of(both, always_replay=True)
    hand.open()
    assert "ReplySent" not in kinds(hand.signal("n", "a"))
    hand.signal("n", "b")
    assert hand.replies == says("a-b")


def test_data_of_another_shape_raises_and_the_workflow_may_wait_for_another() -> None:
    async def patient(turn: Turn, desk: Desk, message: Message) -> Desk:
        while True:
            try:
                paid = await turn.signal("paid", Paid)
            except WrongSignal as error:
                await turn.say(error.name)
            else:
                await turn.say(str(paid.cents))
                return desk

    hand = hand_of(patient)
    hand.open()
    hand.signal("paid", {"cents": "many"})
    hand.signal("paid", {"cents": 3})
    assert hand.replies == says("paid", "3")

    hand = hand_of(waits_for_money)
    hand.open()
    out = hand.signal("paid", ["no"])
    assert kinds(out)[-1] == "SessionHeld"
    assert out[-1].reason == "wrong_signal"
    assert out[-1].detail.startswith("workflow desk: the data of signal 'paid' does not fit")
    assert "each release gives it to this turn again" in out[-1].detail


@pytest.mark.parametrize("held_before", [False, True])
def test_a_wrong_signal_that_nobody_catches_is_lost_by_no_release(held_before: bool) -> None:
    """Nor is what came after it: the code that can take it is given the same one, and then the next."""

    async def takes_either(turn: Turn, desk: Desk, message: Message) -> Desk:
        for _ in range(2):
            try:
                await turn.say(str((await turn.signal("paid", Paid)).cents))
            except WrongSignal as error:
                await turn.say(error.name)
        return desk

    async def raises(turn: Turn, desk: Desk, message: Message) -> Desk:
        raise ValueError("not yet")

    hand = hand_of(raises if held_before else waits_for_money)
    hand.open()
    hand.signal("paid", ["no"])
    hand.signal("paid", {"cents": 4})
    hand.redeploy(desk_of(waits_for_money), find_order, refund)
    for _ in range(2):
        out = hand.release()
        assert kinds(out)[-2:] == ["SessionHeld", "CommandParked"]
        assert out[-2].reason == "wrong_signal"
    assert len(hand.bodies(r.SignalDelivered)) == 1
    hand.redeploy(desk_of(takes_either), find_order, refund)
    hand.release()
    assert hand.replies == says("paid", "4")
    assert [s.signal_id for s in hand.bodies(r.SignalDelivered)] == [
        s.signal_id for s in hand.bodies(r.SignalReceived)
    ]


def test_the_signal_that_lost_is_withdrawn_and_kept_when_it_comes() -> None:
    async def hurried(turn: Turn, desk: Desk, message: Message) -> Desk:
        won = await turn.first(turn.signal("paid"), turn.sleep("1m"))
        await turn.say(f"winner {won.index}")
        return desk

    hand = hand_of(hurried, always_replay=True)
    hand.open()
    hand.now_ms += 60_000
    out = hand.wake()
    assert kinds(out) == ["TimerFired", "WaitWithdrawn", "ReplySent", "TurnCompleted"]
    assert (out[1].wait_id, out[1].reason) == ("1.1", "another wait was over first")
    assert kinds(hand.signal("paid")) == ["SignalReceived"]
    out = hand.say("again")
    assert kinds(out)[2:] == [
        "SignalAwaited",
        "TimerSet",
        "SignalDelivered",
        "TimerCancelled",
        "ReplySent",
        "TurnCompleted",
    ]
    no_doubt_left(hand)


async def steered(turn: Turn, desk: Desk, message: Message) -> Desk:
    await turn.run(find_order.call(message.text))
    for told in await turn.inbox():
        await turn.say(f"{told.actor}: {told.text}")
    return desk


@pytest.mark.parametrize("replay", [False, True])
def test_the_inbox_takes_what_queues_so_that_it_starts_no_turn(replay: bool) -> None:
    hand = hand_of(steered, always_replay=replay)
    hand.open("x")
    assert kinds(hand.say("faster")) == ["MessageReceived"]
    assert kinds(hand.tell({"n": 1})) == ["MessageReceived"]
    out = hand.result("1.1", 1)
    assert kinds(out) == [
        "ActivityCompleted",
        "InboxAwaited",
        "InboxTaken",
        "ReplySent",
        "ReplySent",
        "TurnCompleted",
    ]
    assert hand.replies == says("ann: faster", "ann: ")
    assert hand.session.state.status == Status.SUSPENDED
    no_doubt_left(hand)


def test_an_empty_inbox_is_an_answer_too() -> None:
    hand = hand_of(steered)
    hand.open("x")
    out = hand.result("1.1", 1)
    assert kinds(out)[1:] == ["InboxAwaited", "InboxTaken", "TurnCompleted"]
    assert out[2].messages == ()


def test_a_turn_may_wait_for_the_next_message_and_a_trigger_is_none() -> None:
    async def asks(turn: Turn, desk: Desk, message: Message) -> Desk:
        if message.trigger != "message":
            await turn.say(f"{message.trigger}: {message.reason}: {message.data['n']}")
            return desk
        await turn.say("which order?")
        (answer,) = await turn.inbox(wait=True)
        await turn.say(f"{answer.id}: {answer.text}")
        return desk

    hand = hand_of(asks, always_replay=True)
    assert kinds(hand.open())[-2:] == ["InboxAwaited", "SessionWaiting"]
    assert kinds(hand.trigger("schedule", "nightly", n=4)) == ["TriggerReceived"]
    out = hand.say("the blue one")
    assert kinds(out) == [
        "MessageReceived",
        "InboxTaken",
        "ReplySent",
        "TurnCompleted",
        "TurnStarted",
        "ReplySent",
        "TurnCompleted",
    ]
    started = hand.last(r.TurnStarted)
    assert (started.trigger, started.reason) == ("schedule", "nightly")
    assert hand.replies == says("which order?", "c4: the blue one", "schedule: nightly: 4")
    no_doubt_left(hand)


def test_a_turn_of_a_message_says_so() -> None:
    async def tells(turn: Turn, desk: Desk, message: Message) -> Desk:
        await turn.say(f"{message.trigger}/{message.reason}/{message.text}")
        return desk

    hand = hand_of(tells)
    hand.open("hi")
    hand.trigger("webhook", "push", text="main")
    assert hand.replies == says("message//hi", "webhook/push/main")


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("", "signal name '' is not allowed: use 1 to 200 printable characters"),
        ("x" * 201, "signal name 'xxx"),
        ("a\nb", r"signal name 'a\nb' is not allowed"),
        (7, "signal name 7 is not allowed"),
    ],
)
def test_a_signal_has_a_name_that_can_be_sent(name: Any, told: str) -> None:
    async def asks(turn: Turn, desk: Desk, message: Message) -> Desk:
        await turn.signal(name)
        return desk

    out = hand_of(asks).open()
    assert out[-1].reason == "workflow_misuse"
    assert told in out[-1].detail


class Unfinished(BaseModel):
    cents: "Nowhere"  # type: ignore[name-defined]  # noqa: F821 a mistake of a workflow's author


@pytest.mark.parametrize(
    ("kind", "shown"),
    [
        (Hand, "Hand"),
        (7, "the type 7,"),
        ([Paid], "the type [<class"),
        ({"cents": int}, "the type {'cents': <class 'int'>},"),
        ("Nowhere", "the type 'Nowhere',"),
        (Unfinished, "Unfinished"),
    ],
    ids=["class", "number", "list", "dict", "text", "unfinished"],
)
def test_a_signal_is_read_as_a_type_that_can_be_read(kind: Any, shown: str) -> None:
    async def asks(turn: Turn, desk: Desk, message: Message) -> Desk:
        await turn.signal("x", kind)
        return desk

    out = hand_of(asks).open()
    assert out[-1].reason == "workflow_misuse", "at once, and not when the signal is used up"
    assert shown in out[-1].detail
    assert "cannot be read from JSON: give it a class such as a pydantic BaseModel (" in (
        out[-1].detail
    )


def test_a_type_that_has_no_hash_is_a_type() -> None:
    kind = Annotated[int, Field(examples=[7]), []]
    with pytest.raises(TypeError):
        hash(kind)

    async def asks(turn: Turn, desk: Desk, message: Message) -> Desk:
        await turn.say(str(await turn.signal("x", kind)))
        return desk

    hand = hand_of(asks)
    hand.open()
    hand.signal("x", 7)
    assert hand.replies == says("7")
