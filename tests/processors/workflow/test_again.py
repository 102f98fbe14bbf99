"""`turn.again`: a turn in stretches, each from the top with its own journal, ids that never repeat."""

from typing import Any

import pytest
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

from wakeful.events import records as r
from wakeful.events.state import Status

STRETCHES = 4


async def counts(turn: Turn, desk: Desk, message: Message) -> Desk:
    """Adds the text's amount, stretch after stretch."""
    cents = await turn.run(find_order.call(message.text))
    total = desk.refunded_cents + cents
    await turn.say(f"{total} {turn.uuid()} {turn.random():.12f}")
    desk = Desk(refunded_cents=total)
    return turn.again(desk) if total < STRETCHES * cents else desk


def driven(hand: Hand) -> Hand:
    """The whole turn."""
    hand.open("abc")
    for number in range(STRETCHES):
        hand.result(f"1.{2 * number + 1}", 10)
    return hand


@pytest.mark.parametrize("replay", [False, True])
def test_again_runs_the_function_from_its_top_with_the_new_state_and_the_same_message(
    replay: bool,
) -> None:
    hand = driven(hand_of(counts, always_replay=replay))
    assert kinds(hand.bodies(r.TurnContinued)) == ["TurnContinued"] * 3
    assert [(c.turn, c.stretch, c.steps) for c in hand.bodies(r.TurnContinued)] == [
        (1, 1, 2),
        (1, 2, 4),
        (1, 3, 6),
    ]
    asked = hand.bodies(r.ActivityRequested)
    assert [a.activity_id for a in asked] == ["1.1", "1.3", "1.5", "1.7"]
    assert len({a.idempotency_key for a in asked}) == 4
    assert {a.arguments.inline for a in asked} == {b'{"text":"abc"}'}
    assert len(hand.bodies(r.TurnStarted)) == len(hand.bodies(r.TurnCompleted)) == 1
    assert hand.last(r.TurnCompleted).steps == 8
    assert hand.last(r.TurnCompleted).state.inline == b'{"refunded_cents":40}'
    drawn = [reply.split() for reply in hand.replies]
    assert len({d[1] for d in drawn}) == len({d[2] for d in drawn}) == 4
    no_doubt_left(hand)


def test_dropping_the_coroutine_in_any_stretch_changes_no_fact() -> None:
    expected = [str(s.event) for s in driven(hand_of(counts)).log]
    for drop_before in range(STRETCHES):
        hand = hand_of(counts)
        hand.open("abc")
        for number in range(STRETCHES):
            if number == drop_before:
                hand.session.drop()
                hand.session = hand.refold()
            hand.result(f"1.{2 * number + 1}", 10)
        assert [str(s.event) for s in hand.log] == expected


async def rounds_without_a_wait(turn: Turn, desk: Desk, message: Message) -> Desk:
    await turn.say("again")
    return turn.again(desk.model_copy())


async def peeks_without_end(turn: Turn, desk: Desk, message: Message) -> Desk:
    while True:
        await turn.inbox()


@pytest.mark.parametrize("code", [rounds_without_a_wait, peeks_without_end])
def test_going_round_without_ever_waiting_is_held_by_its_own_word(code: Any) -> None:
    """And nothing else is left of it; with mended code the turn goes on from where the command came."""
    hand = hand_of(code)
    out = hand.open("abc")
    assert kinds(out) == ["SessionHeld", "CommandParked"]
    assert out[0].reason == "workflow_spins"
    assert out[0].detail.startswith("workflow 'desk' came to 5000 facts after one command")
    assert "mend it, deploy, then release" in out[0].detail
    hand.redeploy(desk_of(counts), find_order, refund)
    assert kinds(hand.release())[-3:] == ["MessageReceived", "TurnStarted", "ActivityRequested"]


def test_ids_and_numbers_of_the_first_stretch_are_what_they_always_were() -> None:
    hand = driven(hand_of(counts))
    _, drawn_id, number = hand.replies[0].removesuffix('"}').split()
    assert (drawn_id, number) == ("7774ed48-6edc-5435-a39d-c5d75f7253b3", "0.505947363028")


def test_the_journal_is_that_of_the_stretch() -> None:
    hand = hand_of(counts)
    hand.open("abc")
    for number in range(STRETCHES - 1):
        hand.result(f"1.{2 * number + 1}", 10)
        assert kinds([e.body for e in hand.session.journal]) == [
            "TurnContinued",
            "ActivityRequested",
        ]


def test_a_session_held_in_a_later_stretch_goes_on_in_it() -> None:
    async def breaks(turn: Turn, desk: Desk, message: Message) -> Desk:
        if desk.refunded_cents:
            raise ValueError("not twice")
        return await counts(turn, desk, message)

    hand = hand_of(breaks)
    hand.open("abc")
    out = hand.result("1.1", 10)
    assert kinds(out)[2:] == ["TurnContinued", "SessionHeld"]
    hand.redeploy(*hand_of(counts).app.workflows["desk"].values(), find_order)
    assert kinds(hand.release()) == ["SessionReleased", "ActivityRequested"]
    hand.result("1.3", 3)
    assert hand.session.state.status == Status.SUSPENDED
    assert hand.refold().state == hand.session.state


async def does_nothing(turn: Turn, desk: Desk, message: Message) -> Desk:
    return turn.again(desk)


async def returns_another(turn: Turn, desk: Desk, message: Message) -> Desk:
    await turn.say("x")
    turn.again(desk)
    return desk.model_copy()


async def asks_after(turn: Turn, desk: Desk, message: Message) -> Desk:
    await turn.say("x")
    state = turn.again(desk)
    await turn.say("y")
    return state


async def twice(turn: Turn, desk: Desk, message: Message) -> Desk:
    await turn.say("x")
    return turn.again(turn.again(desk))


async def completes_first(turn: Turn, desk: Desk, message: Message) -> Desk:
    await turn.say("x")
    await turn.complete("done")
    return turn.again(desk)


async def completes_after(turn: Turn, desk: Desk, message: Message) -> Desk:
    await turn.say("x")
    state = turn.again(desk)
    await turn.complete("done")
    return state


async def leaves_one_running(turn: Turn, desk: Desk, message: Message) -> Desk:
    await turn.first(turn.run(find_order.call("slow")), turn.signal("go"))
    return turn.again(desk)


@pytest.mark.parametrize(
    ("function", "told"),
    [
        (does_nothing, "without a step before: it would go round for ever"),
        (returns_another, "returned another object"),
        (asks_after, "a step was asked for after turn.again"),
        (twice, "turn.again was called after turn.again"),
        (completes_first, "turn.again was called after turn.complete"),
        (completes_after, "turn.complete was called after turn.again"),
    ],
)
def test_again_is_refused_where_it_cannot_be(function: Any, told: str) -> None:
    hand = hand_of(function)
    out = hand.open()
    assert out[-1].reason == "workflow_misuse"
    assert told in out[-1].detail
    assert not hand.bodies(r.TurnContinued)


def test_what_lost_in_first_and_runs_on_ends_with_its_stretch() -> None:
    hand = hand_of(leaves_one_running)
    hand.open()
    out = hand.signal("go")
    cancelled = [body for body in out if isinstance(body, r.ActivityCancelled)]
    assert [(body.activity_id, body.reason) for body in cancelled] == [("1.1", "the stretch ended")]
    assert hand.bodies(r.TurnContinued)
    assert hand.session.state.hold is None


def test_an_action_approved_twice_may_run_twice() -> None:
    async def pays_twice(turn: Turn, desk: Desk, message: Message) -> Desk:
        action = refund.call(500)
        await turn.gather(turn.approval(action), turn.approval(action))
        await turn.run(action)
        await turn.run(action)
        return desk

    hand = hand_of(pays_twice)
    hand.open()
    for asked in hand.bodies(r.ApprovalRequested):
        hand.decide(proposal=asked)
    hand.result("1.3", "first")
    hand.result("1.4", "second")
    assert hand.session.state.status == "Suspended"


def test_a_stretch_that_only_looks_is_not_for_ever() -> None:
    async def spins(turn: Turn, desk: Desk, message: Message) -> Desk:
        await turn.inbox()
        return turn.again(desk)

    hand = hand_of(spins)
    out = hand.open()
    assert kinds(out)[-1] == "CommandParked"
    held = hand.last(r.SessionHeld)
    assert held.reason == "workflow_spins"
    assert "each round of its loop, or of turn.again, has to await what comes later" in held.detail


def test_an_approval_that_was_not_used_is_gone_with_its_stretch() -> None:
    async def hoards(turn: Turn, desk: Desk, message: Message) -> Desk:
        action = refund.call(500)
        if not desk.refunded_cents:
            await turn.approval(action)
            return turn.again(Desk(refunded_cents=1))
        await turn.run(action)
        return desk

    hand = hand_of(hoards, always_replay=True)
    hand.open()
    out = hand.decide()
    assert kinds(out) == ["ApprovalGranted", "TurnContinued", "SessionFailed"]
    assert out[-1].failure.kind == "unapproved_action"
    assert hand.session.state.grants == ()


def test_what_was_said_before_again_is_said_once() -> None:
    async def talks(turn: Turn, desk: Desk, message: Message) -> Desk:
        await turn.say(f"round {desk.refunded_cents}")
        await turn.sleep("1m")
        if desk.refunded_cents == 2:
            return desk
        return turn.again(Desk(refunded_cents=desk.refunded_cents + 1))

    hand = hand_of(talks, always_replay=True)
    hand.open()
    for _ in range(3):
        hand.now_ms += 60_000
        hand.wake()
    assert hand.replies == says("round 0", "round 1", "round 2")
    no_doubt_left(hand)
