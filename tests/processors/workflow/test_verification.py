"""`complete(verify=…)`: an outcome that did not pass completes nothing, and a release asks again."""

from typing import Any

import pytest
from tests.processors.workflow.hands import (
    ACTIVITIES,
    Desk,
    Hand,
    Message,
    Turn,
    adds_up,
    desk_of,
    find_order,
    hand_of,
    kinds,
    refund,
    says,
)

from wakeful import Read, VerificationFailed, activity
from wakeful.events import records as r
from wakeful.events.state import Status


@activity(contract=Read())
async def counted(cents: int) -> int:
    """Says no yes or no."""
    return cents


async def settles(turn: Turn, desk: Desk, message: Message) -> Desk:
    await turn.run(find_order.call("x"))
    await turn.complete({"ok": True}, verify=adds_up.call(7))
    return Desk(refunded_cents=7)


def verifying(function: Any = settles, *, replay: bool = False) -> Hand:
    """A session that waits for its verdict, at step 2."""
    hand = hand_of(function, always_replay=replay)
    hand.open()
    hand.result("1.1", 1)
    return hand


@pytest.mark.parametrize("replay", [False, True])
def test_a_verified_outcome_completes_and_says_by_what(replay: bool) -> None:
    hand = verifying(replay=replay)
    assert hand.last(r.ActivityRequested).name == "adds_up"
    assert hand.session.state.status == Status.RUNNING
    out = hand.result("1.2", True)
    assert kinds(out) == ["ActivityCompleted", "SessionCompleted"]
    assert (out[1].verified_by, out[1].outcome.inline) == ("adds_up", b'{"ok":true}')
    assert hand.refold().state == hand.session.state


def test_an_outcome_that_nobody_verified_says_so() -> None:
    async def trusts(turn: Turn, desk: Desk, message: Message) -> Desk:
        await turn.complete("done")
        return desk

    assert hand_of(trusts).open()[-1].verified_by is None


@pytest.mark.parametrize("replay", [False, True])
@pytest.mark.parametrize("failing", [False, True])
def test_a_release_verifies_again_until_it_holds(replay: bool, failing: bool) -> None:
    hand = verifying(replay=replay)
    for step in (2, 3):
        no = hand.failure(f"1.{step}") if failing else hand.result(f"1.{step}", False)
        assert kinds(no)[1:] == ["SessionHeld"]
        assert no[1].reason == "verification_failed"
        assert "release: it is verified again" in no[1].detail
        assert hand.session.state.status == Status.RECOVERING
        hand.now_ms += 3_600_000
        out = hand.release()
        assert kinds(out) == ["SessionReleased", "ActivityRequested"]
        assert (out[1].name, out[1].step) == ("adds_up", step + 1)
        assert out[1].deadline_ms == hand.now_ms + 300_000
    out = hand.result("1.4", True)
    assert kinds(out) == ["ActivityCompleted", "SessionCompleted"]
    assert (out[1].verified_by, out[1].steps) == ("adds_up", 4)
    assert not hand.bodies(r.NondeterminismFound)
    assert hand.refold().state == hand.session.state


def test_other_code_that_came_during_the_hold_may_catch_what_is_said_next() -> None:
    async def copes(turn: Turn, desk: Desk, message: Message) -> Desk:
        try:
            return await settles(turn, desk, message)
        except VerificationFailed as error:
            await turn.say(f"{error.name} said no")
            return desk

    hand = verifying()
    hand.result("1.2", False)
    hand.redeploy(desk_of(copes), *ACTIVITIES)
    assert kinds(hand.release()) == ["SessionReleased", "ActivityRequested"]
    hand.session = hand.refold()
    assert kinds(hand.result("1.3", False))[1:] == ["ReplySent", "TurnCompleted"]


def test_a_hold_for_another_reason_before_the_verdict_was_seen_changes_nothing() -> None:
    hand = verifying()
    hand.redeploy(desk_of(settles, version=2), *ACTIVITIES)
    assert hand.result("1.2", False)[1].reason == "workflow_missing"
    hand.redeploy(desk_of(settles), *ACTIVITIES)
    assert hand.release()[1].reason == "verification_failed"
    assert kinds(hand.release()) == ["SessionReleased", "ActivityRequested"]
    assert kinds(hand.result("1.3", True))[1:] == ["SessionCompleted"]


@pytest.mark.parametrize("replay", [False, True])
def test_a_workflow_may_go_on_after_it_was_refused_and_complete_later(replay: bool) -> None:
    async def mends(turn: Turn, desk: Desk, message: Message) -> Desk:
        try:
            await turn.complete("early", verify=adds_up.call(0))
        except VerificationFailed as error:
            await turn.say("no" if error.failure is None else error.failure.kind)
        await turn.sleep("1m")
        await turn.complete("late", verify=adds_up.call(1))
        return desk

    hand = hand_of(mends, always_replay=replay)
    hand.open()
    assert kinds(hand.result("1.1", False))[1:] == ["ReplySent", "TimerSet", "SessionWaiting"]
    hand.now_ms += 60_000
    hand.wake()
    out = hand.result("1.4", True)
    assert out[1].outcome.inline == b'"late"'
    assert hand.replies == says("no")


def test_a_refusal_that_is_kept_and_raised_later_is_an_error_of_the_workflow() -> None:
    async def keeps(turn: Turn, desk: Desk, message: Message) -> Desk:
        try:
            await turn.complete("early", verify=adds_up.call(0))
        except VerificationFailed as error:
            await turn.sleep("1m")
            raise error
        return desk

    hand = hand_of(keeps, always_replay=True)
    hand.open()
    hand.result("1.1", False)
    hand.now_ms += 60_000
    assert hand.wake()[-1].reason == "workflow_raised"
    assert hand.release()[-1].reason == "workflow_raised"
    assert not hand.bodies(r.NondeterminismFound)


async def given_a_write(turn: Turn, desk: Desk, message: Message) -> Desk:
    await turn.complete("x", verify=refund.call(5))
    return desk


async def given_a_number(turn: Turn, desk: Desk, message: Message) -> Desk:
    await turn.complete("x", verify=counted.call(5))
    return desk


async def given_no_action(turn: Turn, desk: Desk, message: Message) -> Desk:
    await turn.complete("x", verify=True)
    return desk


async def gathered(turn: Turn, desk: Desk, message: Message) -> Desk:
    await turn.gather(turn.complete("x", verify=adds_up.call(5)), turn.sleep("1m"))
    return desk


async def twice(turn: Turn, desk: Desk, message: Message) -> Desk:
    await turn.complete("x")
    await turn.complete("y", verify=adds_up.call(5))
    return desk


async def goes_on(turn: Turn, desk: Desk, message: Message) -> Desk:
    await turn.complete("x")
    await turn.say("and another thing")
    return desk


@pytest.mark.parametrize(
    ("function", "told"),
    [
        (given_a_write, "verify=refund, which changes something"),
        (given_a_number, "verify=counted, which does not return bool"),
        (given_no_action, "verify=True: give it an action, verify=check.call(…)"),
        (gathered, "given to gather or first: await it by itself"),
        (twice, "turn.complete was called after turn.complete"),
        (goes_on, "a step was asked for after turn.complete"),
    ],
)
def test_a_wrong_completion_is_held_and_explained(function: Any, told: str) -> None:
    hand = hand_of(function)
    out = hand.open()
    assert out[-1].reason == "workflow_misuse"
    assert told in out[-1].detail
