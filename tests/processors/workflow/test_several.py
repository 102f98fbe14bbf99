"""Several waits at once: each fact moves its own strand, in the log's order, live and in replay alike."""

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.processors.desk import Desk, Hand, find_order, kinds, refund

from wakeful import ActivityError, Message, Turn, workflow
from wakeful.events import records as r
from wakeful.events.state import Status


@workflow("desk", version=1)
async def both(turn: Turn, desk: Desk, message: Message) -> Desk:
    """Two look-ups and a nap at once."""
    a, b, _ = await turn.gather(
        turn.run(find_order.call("a")), turn.run(find_order.call("bb")), turn.sleep("5m")
    )
    await turn.say(f"{a} and {b}")
    return desk


@workflow("desk", version=1)
async def hurried(turn: Turn, desk: Desk, message: Message) -> Desk:
    """Whatever is first: the person, or the clock."""
    won = await turn.first(turn.approval(refund.call(500)), turn.sleep("10m"))
    await turn.say("approved" if won.index == 0 and won.value and won.value.granted else "too late")
    return desk


@workflow("desk", version=1)
async def raced(turn: Turn, desk: Desk, message: Message) -> Desk:
    """A look-up against the clock; `cancel` in the message says what becomes of the slow one."""
    won = await turn.first(
        turn.run(find_order.call("slow")), turn.sleep("1m"), cancel=message.data["cancel"]
    )
    await turn.say(f"winner {won.index}")
    await turn.sleep("1h")
    return desk


def test_what_is_gathered_is_asked_for_at_once_and_returned_in_the_order_given() -> None:
    hand = Hand(both, find_order)
    out = hand.open()
    assert kinds(out)[-3:] == ["ActivityRequested", "ActivityRequested", "TimerSet"]
    assert hand.result("1.2", 22)
    assert "ReplySent" not in kinds(hand.result("1.1", 11))
    assert hand.session.state is not None
    assert hand.session.state.status == Status.WAITING
    hand.now_ms += 300_000
    out = hand.wake()
    assert kinds(out) == ["TimerFired", "ReplySent", "TurnCompleted"]
    assert out[1].message.inline == b'{"text":"11 and 22"}'


def test_a_failure_in_a_gathering_is_raised_once_all_are_done() -> None:
    hand = Hand(both, find_order)
    hand.open()
    assert kinds(hand.failure("1.1")) == ["ActivityFailed"]
    assert kinds(hand.result("1.2", 22)) == ["ActivityCompleted", "SessionWaiting"]
    hand.now_ms += 300_000
    assert kinds(hand.wake()) == ["TimerFired", "SessionFailed"]


def test_the_timer_that_lost_is_withdrawn_in_the_same_moment() -> None:
    hand = Hand(hurried, refund)
    hand.open()
    out = hand.decide()
    assert kinds(out) == ["ApprovalGranted", "TimerCancelled", "ReplySent", "TurnCompleted"]
    assert out[2].message.inline == b'{"text":"approved"}'


def test_the_approval_that_lost_is_withdrawn_and_a_late_decision_is_refused() -> None:
    hand = Hand(hurried, refund)
    hand.open()
    hand.now_ms += 600_000
    out = hand.decide()
    assert kinds(out) == [
        "TimerFired",
        "ApprovalWithdrawn",
        "ReplySent",
        "TurnCompleted",
        "CommandRefused",
    ]
    assert "withdrawn" in out[-1].detail


@pytest.mark.parametrize("cancel", [False, True])
def test_an_activity_that_lost_runs_on_unless_it_is_cancelled(cancel: bool) -> None:
    hand = Hand(raced, find_order)
    hand.open(cancel=cancel)
    hand.now_ms += 60_000
    out = hand.wake()
    if cancel:
        assert kinds(out)[1:] == ["ActivityCancelled", "ReplySent", "TimerSet", "SessionWaiting"]
    else:
        assert kinds(out)[1:] == ["ReplySent", "TimerSet"]
    after = kinds(hand.result("1.1", 7))
    assert after == (["LateResultRecorded"] if cancel else ["ActivityCompleted", "SessionWaiting"])


def test_a_strand_may_be_a_function_of_its_own_and_may_fail_by_itself() -> None:
    @workflow("desk", version=1)
    async def careful(turn: Turn, desk: Desk, message: Message) -> Desk:
        async def look(text: str) -> int:
            try:
                return await turn.run(find_order.call(text))
            except ActivityError:
                return -1

        await turn.say(str(await turn.gather(look("a"), look("b"))))
        return desk

    hand = Hand(careful, find_order)
    hand.open()
    hand.failure("1.2")
    assert hand.result("1.1", 5)[1].message.inline == b'{"text":"(5, -1)"}'


def test_misuse_of_gather_is_held_and_explained() -> None:
    @workflow("desk", version=1)
    async def empty(turn: Turn, desk: Desk, message: Message) -> Desk:
        await turn.first()
        return desk

    @workflow("desk", version=1)
    async def numbers(turn: Turn, desk: Desk, message: Message) -> Desk:
        await turn.first(1, 2)  # type: ignore[arg-type]
        return desk

    for function, told in (
        (empty, "turn.first was given nothing to wait for"),
        (numbers, "awaitables such as turn.run"),
    ):
        out = Hand(function).open()
        assert out[-1].reason == "workflow_misuse"
        assert told in out[-1].detail


def test_random_numbers_are_the_same_in_every_replay_and_differ_by_call() -> None:
    @workflow("desk", version=1)
    async def lucky(turn: Turn, desk: Desk, message: Message) -> Desk:
        drawn = [turn.random(), turn.random()]
        await turn.sleep("1m")
        await turn.say({"drawn": [*drawn, turn.random()]})
        return desk

    said = []
    for always_replay in (False, True):
        hand = Hand(lucky, always_replay=always_replay)
        hand.open()
        hand.now_ms += 60_000
        said.append(hand.wake()[1].message.inline)
    assert said[0] == said[1]
    drawn = eval(said[0])["drawn"]
    assert len(set(drawn)) == 3
    assert all(0 <= number < 1 for number in drawn)


@workflow("busy", version=1)
async def busy(turn: Turn, desk: Desk, message: Message) -> Desk:
    """Nested waits of all kinds."""

    async def ask(cents: int) -> str:
        won = await turn.first(turn.approval(refund.call(cents)), turn.sleep("7m"))
        if won.index == 0 and won.value and won.value.granted:
            return await turn.run(refund.call(cents))
        return "nothing"

    for number in range(3):
        found = await turn.gather(turn.run(find_order.call(f"{number}")), ask(500), ask(600))
        await turn.say(str(found))
    return desk


@pytest.mark.case("U7")
@settings(max_examples=80, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_any_order_of_results_decisions_and_timers_gives_one_history(seed: int) -> None:
    chance = random.Random(seed)
    hands = [
        Hand(busy, find_order, refund, workflow="busy", always_replay=replay)
        for replay in (False, True)
    ]
    for hand in hands:
        hand.open("go")
    for _ in range(chance.randint(5, 30)):
        move, pause = chance.randrange(4), chance.choice([0, 60_000, 430_000])
        pick, decision = chance.random(), chance.choice(["approve", "reject"])
        for hand in hands:
            hand.now_ms += pause
            _move(hand, move, pick, decision)
    assert [s.event.body for s in hands[0].log] == [s.event.body for s in hands[1].log]
    assert hands[0].refold().state == hands[0].session.state
    assert not any(
        isinstance(s.event.body, r.NondeterminismFound | r.SessionHeld) for s in hands[0].log
    )


def _move(hand: Hand, move: int, pick: float, decision: str) -> None:
    state: Any = hand.session.state
    if move == 0 and state.activities:
        running = state.activities[int(pick * len(state.activities))]
        hand.result(running.activity_id, 7 if running.name == "find_order" else "k")
    elif move == 1 and state.approvals:
        asked = state.approvals[int(pick * len(state.approvals))].proposal_id
        proposals = [
            s.event.body for s in hand.log if isinstance(s.event.body, r.ApprovalRequested)
        ]
        hand.decide(decision, proposal=next(p for p in proposals if p.proposal_id == asked))
    elif move == 2:
        hand.say("more")
    else:
        hand.wake()
