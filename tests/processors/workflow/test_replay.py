"""Coroutines are a cache: dropped, rebuilt, redeployed; what cannot be replayed is held and nothing else happens."""

import asyncio
from typing import Any

import pytest
from tests.processors.desk import Desk, Hand, desk, find_order, kinds, refund

from wakeful import Message, Turn, UnapprovedAction, workflow
from wakeful.events import records as r
from wakeful.events.limits import TEXT_MAX
from wakeful.events.state import Status
from wakeful.processors.handler import FACTS_PER_COMMAND_MAX


def variant(function: Any, version: int = 1) -> Any:
    """Other code under the name of the desk."""
    return workflow("desk", version=version)(function)


async def renamed_reply(turn: Turn, desk: Desk, message: Message) -> Desk:
    cents = await turn.run(find_order.call(message.text + "!"))
    await turn.approval(refund.call(cents))
    return desk


async def raises(turn: Turn, desk: Desk, message: Message) -> Desk:
    await turn.run(find_order.call(message.text))
    await turn.say("about to fail")
    raise KeyError("no such customer")


async def raises_at_once(turn: Turn, desk: Desk, message: Message) -> Desk:
    """Fails before its first step."""
    raise ValueError("no such customer")


def test_dropping_the_coroutine_at_any_point_changes_no_fact() -> None:
    def story(hand: Hand, drop_before: int) -> list[str]:
        steps = [
            lambda: hand.open(),
            lambda: hand.result("1.1", 500),
            lambda: hand.decide(),
            lambda: hand.result("1.3", "k"),
            lambda: hand.say("more"),
            lambda: hand.result("2.1", 7),
            lambda: hand.result("2.2", "k2"),
        ]
        for number, step in enumerate(steps):
            if number == drop_before:
                hand.session.drop()
                hand.session = hand.refold()
            step()
        return [str(s.event) for s in hand.log]

    expected = story(Hand(), -1)
    for drop_before in range(7):
        assert story(Hand(), drop_before) == expected


def test_changed_code_is_found_and_held_and_the_old_code_goes_on_after_release() -> None:
    hand = Hand()
    hand.open()
    before = len(hand.log)
    hand.redeploy(variant(renamed_reply), find_order, refund)
    out = hand.result("1.1", 500)
    assert kinds(out) == ["ActivityCompleted", "NondeterminismFound"]
    assert "activity find_order" in out[1].expected
    assert "activity find_order" in out[1].actual
    assert hand.session.state.status == Status.RECOVERING
    assert len(hand.log) == before + 2

    assert kinds(hand.say("anybody there?")) == ["CommandParked"]
    hand.redeploy(desk, find_order, refund)
    out = hand.release()
    assert kinds(out)[:2] == ["SessionReleased", "ApprovalRequested"]
    assert "MessageReceived" in kinds(out)
    assert kinds(hand.decide()) == ["ApprovalGranted", "ActivityRequested"]


def test_a_workflow_that_raises_is_held_and_goes_on_once_fixed() -> None:
    hand = Hand(variant(raises), find_order, refund)
    hand.open()
    out = hand.result("1.1", 50)
    assert kinds(out) == ["ActivityCompleted", "SessionHeld"]
    assert out[1].reason == "workflow_raised"
    assert "no such customer" in out[1].detail
    assert kinds(hand.release()) == ["SessionReleased", "SessionHeld"]
    hand.redeploy(desk, find_order, refund)
    assert kinds(hand.release()) == ["SessionReleased", "ActivityRequested"]
    assert kinds(hand.result("1.2", "k"))[-1] == "TurnCompleted"
    assert hand.refold().state == hand.session.state


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit, GeneratorExit])
def test_what_would_end_a_process_holds_its_session_and_no_more(kind: type[BaseException]) -> None:
    async def leaves(turn: Turn, desk: Desk, message: Message) -> Desk:
        raise kind

    class Leaving(Desk):
        def model_post_init(self, context: Any) -> None:
            raise kind

    async def begins(turn: Turn, desk: Leaving, message: Message) -> Leaving:
        return desk

    hand = Hand(variant(leaves))
    assert kinds(hand.open())[-1] == "SessionHeld"
    hand = Hand()
    hand.open()
    begins.__annotations__["desk"] = Leaving
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            "wakeful.processors.workflow.definitions.Workflow._check_initial", lambda _: 0
        )
        hand.redeploy(variant(begins), find_order, refund)
    assert "SessionHeld" in kinds(hand.result("1.1", 500))


def test_asyncio_in_a_workflow_is_held_with_a_word_on_what_to_use() -> None:
    async def sleeps(turn: Turn, desk: Desk, message: Message) -> Desk:
        await asyncio.sleep(1)
        return desk

    async def yields(turn: Turn, desk: Desk, message: Message) -> Desk:
        await asyncio.sleep(0)
        return desk

    for function in (sleeps, yields):
        hand = Hand(variant(function))
        out = hand.open()
        assert out[-1].reason == "workflow_misuse"
        assert "turn.sleep" in out[-1].detail


def test_a_wrong_return_value_is_held_and_named() -> None:
    async def forgets(turn: Turn, desk: Desk, message: Message) -> Any:
        return None

    out = Hand(variant(forgets)).open()
    assert out[-1].reason == "workflow_misuse"
    assert "Desk" in out[-1].detail


def test_a_loop_that_never_waits_is_held() -> None:
    async def talks(turn: Turn, desk: Desk, message: Message) -> Desk:
        while True:
            await turn.say("still here")

    out = Hand(variant(talks)).open()
    assert kinds(out)[-1] == "SessionHeld"
    assert "without a wait" in out[-1].detail


def test_a_missing_version_is_held_and_says_which() -> None:
    hand = Hand()
    hand.open()
    hand.redeploy(variant(renamed_reply, version=2), find_order, refund)
    out = hand.result("1.1", 500)
    assert (out[1].reason, "version 1" in out[1].detail) == ("workflow_missing", True)
    hand.redeploy(desk, find_order, refund)
    assert kinds(hand.release())[:2] == ["SessionReleased", "ApprovalRequested"]


def test_a_turn_ends_on_the_version_it_started_with_and_the_next_takes_the_newest() -> None:
    hand = Hand()
    hand.open()
    hand.redeploy(desk, variant(renamed_reply, version=2), find_order, refund)
    hand.result("1.1", 10)
    hand.result("1.2", "k")
    hand.say("next")
    assert hand.last(r.TurnStarted).workflow_version == 2


def test_results_that_came_while_held_beat_timers_that_passed_meanwhile() -> None:
    hand = Hand()
    hand.open()
    hand.result("1.1", 500)
    hand.redeploy(variant(raises), find_order, refund)
    hand.session.drop()
    asked = hand.last(r.ApprovalRequested)
    hand.redeploy(variant(renamed_reply), find_order, refund)
    assert kinds(hand.decide(proposal=asked)) == ["ApprovalGranted", "NondeterminismFound"]
    hand.redeploy(desk, find_order, refund)
    hand.now_ms += 30 * 24 * 3_600_000
    assert kinds(hand.release()) == ["SessionReleased", "ActivityRequested"]


def test_a_long_hold_costs_no_deadline_of_what_the_release_lets_through() -> None:
    async def works(turn: Turn, desk: Desk, message: Message) -> Desk:
        await turn.sleep("1s")
        await turn.run(find_order.call("x"))
        await turn.approval(refund.call(500))
        return desk

    hand = Hand(variant(raises), find_order, refund)
    hand.open()
    hand.result("1.1", 50)
    week_ms = 7 * 24 * 3_600_000
    hand.now_ms += week_ms
    hand.redeploy(desk, find_order, refund)
    assert kinds(hand.release()) == ["SessionReleased", "ActivityRequested"]
    assert hand.last(r.ActivityRequested).deadline_ms == hand.now_ms + 24 * 3_600_000

    hand = Hand(variant(raises_at_once), find_order, refund)
    hand.open()
    for _ in range(2):
        hand.now_ms += week_ms
        assert kinds(hand.release())[-1] == "SessionHeld"
    hand.redeploy(variant(works), find_order, refund)
    hand.now_ms += week_ms
    assert kinds(hand.release()) == ["SessionReleased", "TimerSet", "SessionWaiting"]
    assert hand.last(r.TimerSet).due_ms == hand.now_ms + 1_000
    hand.now_ms += 1_000
    hand.session.drop()  # a replay gets the same times
    assert kinds(hand.wake()) == ["TimerFired", "ActivityRequested"]
    assert kinds(hand.result("1.2", 5))[1:] == ["ApprovalRequested", "SessionWaiting"]
    assert hand.last(r.ApprovalRequested).expires_at_ms == hand.now_ms + 3_600_000


def test_more_messages_than_one_command_may_lead_to_are_let_go_by_one_release() -> None:
    async def chatty(turn: Turn, desk: Desk, message: Message) -> Desk:
        for _ in range(30):
            await turn.say("still here")
        return desk

    hand = Hand(variant(raises_at_once))
    hand.open()
    for _ in range(200):
        assert kinds(hand.say("hello?")) == ["CommandParked"]
    hand.redeploy(variant(chatty))
    out = hand.release()
    assert len(out) > FACTS_PER_COMMAND_MAX
    assert kinds(out).count("TurnCompleted") == 201
    assert hand.session.state.hold is None


def test_a_gated_action_cannot_be_run_around_its_approval() -> None:
    async def sneaks(turn: Turn, desk: Desk, message: Message) -> Desk:
        await turn.run(refund.call(500))
        return desk

    async def swaps(turn: Turn, desk: Desk, message: Message) -> Desk:
        await turn.approval(refund.call(500))
        try:
            await turn.run(refund.call(600))
        except UnapprovedAction as error:
            await turn.say(error.failure.kind)
        await turn.run(refund.call(500))
        await turn.run(refund.call(500))
        return desk

    out = Hand(variant(sneaks), refund).open()
    assert kinds(out)[-1] == "SessionFailed"
    assert out[-1].failure.kind == "unapproved_action"

    hand = Hand(variant(swaps), refund)
    hand.open()
    out = hand.decide()
    assert kinds(out) == ["ApprovalGranted", "ReplySent", "ActivityRequested"]
    assert kinds(hand.result("1.3", "k")) == ["ActivityCompleted", "SessionFailed"]


def test_a_coroutine_that_dies_badly_stops_nobody() -> None:
    async def clings(turn: Turn, desk: Desk, message: Message) -> Desk:
        try:
            await turn.run(find_order.call("x"))
        except BaseException as error:
            raise asyncio.CancelledError from error
        return desk

    hand = Hand(variant(clings), find_order)
    hand.open()
    hand.session.drop()
    assert kinds(hand.result("1.1", 1)) == ["ActivityCompleted", "TurnCompleted"]


def test_what_a_workflow_raises_is_told_whatever_its_text_holds() -> None:
    async def raises_a_customers_words(turn: Turn, desk: Desk, message: Message) -> Desk:
        raise ValueError("no order \ud83d")

    async def returns_much(turn: Turn, desk: Desk, message: Message) -> Any:
        return "x" * 2_000_000

    told = Hand(variant(raises_a_customers_words)).open()[-1]
    assert (told.reason, "no order" in told.detail) == ("workflow_raised", True)
    told = Hand(variant(returns_much)).open()[-1]
    assert (told.reason, len(told.detail) <= TEXT_MAX) == ("workflow_misuse", True)


def test_what_finally_blocks_ask_for_after_a_drop_is_discarded() -> None:
    heard: list[str] = []

    async def tidy(turn: Turn, desk: Desk, message: Message) -> Desk:
        try:
            await turn.run(find_order.call("x"))
        finally:
            heard.append("finally")
            await turn.say("tidied")
        return desk

    hand = Hand(variant(tidy), find_order)
    hand.open()
    facts = len(hand.log)
    hand.session.drop()
    assert heard == ["finally"]
    assert len(hand.log) == facts
    assert kinds(hand.result("1.1", 1)) == ["ActivityCompleted", "ReplySent", "TurnCompleted"]


def test_a_cancelled_held_session_ends() -> None:
    hand = Hand(variant(raises), find_order, refund)
    hand.open()
    hand.result("1.1", 50)
    assert kinds(hand.cancel()) == ["CancellationRequested", "SessionCancelled"]


def test_a_history_that_does_not_fold_keeps_commands_and_still_takes_a_cancellation() -> None:
    hand = Hand()
    hand.open()
    hand.session.broken = "planted"
    assert kinds(hand.say("hello?")) == ["SessionHeld", "CommandParked"]
    assert kinds(hand.say("hello??")) == ["CommandParked"]
    assert hand.release()[0].reason == "does_not_fold"
    assert kinds(hand.cancel()) == ["CancellationRequested", "SessionCancelled"]
    assert hand.session.state.status == Status.CANCELLED


async def forgets_its_state(turn: Turn, desk: Desk, message: Message) -> Any:
    """Held at once."""


@pytest.mark.parametrize("ended", [False, True], ids=["held-before", "ended-before"])
def test_a_hold_said_by_a_version_that_could_not_fold_does_not_break_one_that_can(
    ended: bool,
) -> None:
    hand = Hand(variant(forgets_its_state))
    hand.open()
    if ended:
        hand.cancel()
    status = hand.session.state.status
    hand.session.broken = "an event of a newer version"
    assert kinds(hand.say("hello?"))[0] == "SessionHeld"
    again = hand.refold()
    assert (again.broken, again.state.status) == (None, status)
    assert (again.state.hold is None) == ended
