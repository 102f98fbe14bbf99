"""An undo that has begun goes on to its end, whatever becomes of the branch or the turn that it is of."""

from typing import Any

import pytest
from tests.processors.workflow.hands import (
    ACTIVITIES,
    Desk,
    Hand,
    Message,
    Turn,
    adds_up,
    book,
    desk_of,
    find_order,
    hand_of,
    kinds,
    no_doubt_left,
    says,
)

from wakeful import ActivityError
from wakeful.events import records as r
from wakeful.events.state import Status

REPLAY = pytest.mark.parametrize("replay", [False, True])
CANCEL = pytest.mark.parametrize("cancel", [False, True])


def hurried(*, cancel: bool, then: str = "returns") -> Any:
    """A booking against a signal, alone or nested, and then an end."""

    async def code(turn: Turn, desk: Desk, message: Message) -> Desk:
        booking = turn.run(book.call(5))
        if message.data.get("nested"):
            booking = turn.gather(turn.sleep("1h"), booking)  # type: ignore[assignment]
        await turn.first(booking, turn.signal("go"), cancel=cancel)
        await turn.say("on")
        if then == "again" and not desk.refunded_cents:
            return turn.again(Desk(refunded_cents=1))
        if then == "completes":
            await turn.complete({"ok": True}, verify=adds_up.call(1))
        if then == "fails":
            await turn.run(find_order.call("x"))
        return desk

    return code


def outrun(function: Any, *, replay: bool = False, **data: Any) -> tuple[Hand, str]:
    """A session whose booking is being undone when its branch loses; and the undo's id."""
    hand = hand_of(function, always_replay=replay)
    hand.open(**data)
    hand.lose(hand.last(r.ActivityRequested).activity_id)
    undo = hand.last(r.ActivityRequested)
    assert undo.name == "recall"
    hand.signal("go")
    return hand, undo.activity_id


@pytest.mark.parametrize("nested", [False, True])
@CANCEL
@REPLAY
def test_it_runs_on_when_its_branch_loses_and_the_turn_ends_after_it(
    replay: bool, cancel: bool, nested: bool
) -> None:
    hand, undo = outrun(hurried(cancel=cancel), replay=replay, nested=nested)
    assert hand.replies == says("on")
    assert not hand.bodies(r.ActivityCancelled) + hand.bodies(r.TurnCompleted)
    assert [a.activity_id for a in hand.session.state.activities] == [undo]
    assert kinds(hand.result(undo, "recalled")) == ["ActivityCompleted", "TurnCompleted"]
    assert hand.session.state.status == Status.SUSPENDED
    no_doubt_left(hand)


@pytest.mark.parametrize("then", ["again", "completes", "fails"])
@CANCEL
@REPLAY
def test_no_end_of_its_stretch_cuts_it_off(replay: bool, cancel: bool, then: str) -> None:
    hand, undo = outrun(hurried(cancel=cancel, then=then), replay=replay)
    if then == "completes":
        hand.result("1.5", True)
    if then == "fails":
        hand.failure("1.5")
    ends = (r.TurnContinued, r.SessionCompleted, r.SessionFailed)
    assert not any(hand.bodies(end) for end in ends)
    out = hand.failure(undo, "timed_out")
    assert kinds(out)[0] == "ActivityFailed"
    assert sum(len(hand.bodies(end)) for end in ends) == 1
    assert undo not in [c.activity_id for c in hand.bodies(r.ActivityCancelled)]
    no_doubt_left(hand)


@REPLAY
def test_the_turn_waits_for_the_undo_alone_and_what_else_lost_ends_with_it(replay: bool) -> None:
    async def code(turn: Turn, desk: Desk, message: Message) -> Desk:
        await turn.first(
            turn.run(find_order.call("slow")), turn.run(book.call(5)), turn.signal("go")
        )
        return turn.again(Desk(refunded_cents=1)) if not desk.refunded_cents else desk

    hand, undo = outrun(code, replay=replay)
    out = hand.result(undo, "recalled")
    assert kinds(out)[:3] == ["ActivityCompleted", "ActivityCancelled", "TurnContinued"]
    assert out[1].activity_id == "1.1"
    no_doubt_left(hand)


def test_a_restart_between_the_end_of_the_function_and_that_of_the_undo_changes_nothing() -> None:
    hand, undo = outrun(hurried(cancel=True))
    hand.session.drop()
    hand.session = hand.refold()
    hand.say("more")
    assert kinds(hand.result(undo, "recalled"))[:3] == [
        "ActivityCompleted",
        "TurnCompleted",
        "TurnStarted",
    ]
    no_doubt_left(hand)


@REPLAY
def test_whoever_still_waits_for_the_undo_is_told_what_came_of_it(replay: bool) -> None:
    async def code(turn: Turn, desk: Desk, message: Message) -> Desk:
        try:
            won = await turn.first(turn.run(book.call(5)), turn.sleep("1h"), cancel=True)
            await turn.say(f"{won.index}")
        except ActivityError as error:
            await turn.say(error.failure.kind)
        return desk

    hand = hand_of(code, always_replay=replay)
    hand.open()
    hand.lose("1.1")
    out = hand.result("1.3", "recalled")
    assert kinds(out) == ["ActivityCompleted", "TimerCancelled", "ReplySent", "TurnCompleted"]
    assert hand.replies == says("undone")


def test_a_history_in_which_the_undo_was_cancelled_with_its_branch_replays_as_it_was() -> None:
    async def code(turn: Turn, desk: Desk, message: Message) -> Desk:
        await turn.first(turn.run(book.call(5)), turn.signal("go"), cancel=True)
        await turn.say("on")
        await turn.sleep("1h")
        await turn.say("awake")
        return desk

    hand = hand_of(code)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("wakeful.processors.workflow.asking.Asking.is_undo", lambda *_: False)
        hand, undo = outrun(code)
    assert [c.activity_id for c in hand.bodies(r.ActivityCancelled)] == [undo]
    hand.redeploy(desk_of(code), *ACTIVITIES)
    hand.now_ms += 3_600_000
    assert kinds(hand.wake()) == ["TimerFired", "ReplySent", "TurnCompleted"]
    no_doubt_left(hand)


def test_a_cancelled_session_cancels_its_undo_and_counts_it_as_uncertain() -> None:
    hand, undo = outrun(hurried(cancel=True))
    hand.cancel()
    assert hand.last(r.SessionCancelled).uncertain == (undo,)
