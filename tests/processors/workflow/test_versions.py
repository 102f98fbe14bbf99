"""`turn.version`: old histories take the old side, new ones the new side, for ever; random programs, cut anywhere."""

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.processors.workflow.hands import (
    ACTIVITIES,
    Desk,
    Hand,
    Message,
    Turn,
    desk_of,
    find_order,
    hand_of,
    is_rebuilt,
    kinds,
    no_doubt_left,
    replayed,
    says,
)
from tests.processors.workflow.programs import code_of, drawn, hand_for, move

from wakeful.events import records as r
from wakeful.processors.workflow.facts import RESOLVES, STARTS

ENDS = (r.SessionHeld, r.NondeterminismFound)


async def before(turn: Turn, desk: Desk, message: Message) -> Desk:
    for _ in range(2):
        await turn.run(find_order.call(message.text))
    await turn.say("done")
    return desk


async def after(turn: Turn, desk: Desk, message: Message) -> Desk:
    for _ in range(2):
        if turn.version("greets"):
            await turn.say("hello")
        await turn.run(find_order.call(message.text))
    await turn.say("done")
    return desk


async def after_late(turn: Turn, desk: Desk, message: Message) -> Desk:
    for number in range(2):
        await turn.run(find_order.call(message.text))
        if number == 1 and turn.version("greets"):
            await turn.say("hello")
    await turn.say("done")
    return desk


async def guard_removed(turn: Turn, desk: Desk, message: Message) -> Desk:
    for _ in range(2):
        await turn.say("hello")
        await turn.run(find_order.call(message.text))
    await turn.say("done")
    return desk


@pytest.mark.parametrize("replay", [False, True])
def test_new_code_marks_the_change_once_and_takes_the_new_side(replay: bool) -> None:
    hand = hand_of(after, always_replay=replay)
    assert kinds(hand.open())[-3:] == ["VersionMarked", "ReplySent", "ActivityRequested"]
    hand.result("1.3", 1)
    hand.result("1.5", 1)
    assert hand.replies == says("hello", "hello", "done")
    assert [(m.step, m.change) for m in hand.bodies(r.VersionMarked)] == [(1, "greets")]
    no_doubt_left(hand)


def test_a_turn_that_passed_the_place_before_the_deploy_stays_on_the_old_side() -> None:
    hand = hand_of(before)
    hand.open()
    hand.redeploy(desk_of(after), *ACTIVITIES)
    hand.result("1.1", 1)
    hand.result("1.2", 1)
    assert hand.replies == says("done")
    assert hand.bodies(r.VersionMarked) == []
    hand.say("next")
    hand.result("2.3", 1)
    hand.result("2.5", 1)
    assert hand.replies == says("done", "hello", "hello", "done")
    no_doubt_left(hand)


def test_a_turn_that_had_not_come_to_the_place_takes_the_new_side() -> None:
    hand = hand_of(before)
    hand.open()
    hand.result("1.1", 1)
    hand.redeploy(desk_of(after_late), *ACTIVITIES)
    hand.result("1.2", 1)
    assert hand.replies == says("hello", "done")
    no_doubt_left(hand)


def test_a_guard_that_is_removed_while_its_mark_is_in_an_open_journal_holds_the_session() -> None:
    hand = hand_of(after)
    hand.open()
    hand.redeploy(desk_of(guard_removed), *ACTIVITIES)
    out = hand.result("1.3", 1)
    assert kinds(out)[-1] == "NondeterminismFound"
    assert out[-1].expected == "step 1: version mark 'greets'"
    hand.redeploy(desk_of(after), *ACTIVITIES)
    hand.release()
    hand.result("1.5", 1)
    assert hand.replies == says("hello", "hello", "done")


def test_what_a_held_activation_left_behind_is_nothing_so_the_new_code_decides() -> None:
    async def breaks(turn: Turn, desk: Desk, message: Message) -> Desk:
        await turn.run(find_order.call(message.text))
        raise ValueError("a bug")

    hand = hand_of(breaks)
    hand.open()
    assert kinds(hand.result("1.1", 1))[-1] == "SessionHeld"
    hand.redeploy(desk_of(after_late), *ACTIVITIES)
    assert kinds(hand.release()) == ["SessionReleased", "ActivityRequested"]
    hand.session.drop()
    hand.result("1.2", 1)
    assert hand.replies == says("hello", "done")

    hand = hand_of(breaks)
    hand.open()
    hand.result("1.1", 1)

    async def at_once(turn: Turn, desk: Desk, message: Message) -> Desk:
        await turn.run(find_order.call(message.text))
        await turn.say("new" if turn.version("x") else "old")
        await turn.sleep("1m")
        return desk

    hand.redeploy(desk_of(at_once), *ACTIVITIES)
    assert kinds(hand.release())[:4] == [
        "SessionReleased",
        "VersionMarked",
        "ReplySent",
        "TimerSet",
    ]
    hand.session = hand.refold()
    hand.now_ms += 60_000
    assert kinds(hand.wake()) == ["TimerFired", "TurnCompleted"]
    assert hand.replies == says("new")


def test_an_activation_that_asked_for_nothing_is_recorded_by_what_came_after_it() -> None:
    def code(*, guarded: bool) -> Any:
        async def two(turn: Turn, desk: Desk, message: Message) -> Desk:
            async def look() -> bool:
                await turn.run(find_order.call("a"))
                return guarded and turn.version("x")

            new, _ = await turn.gather(look(), turn.sleep("1m"))
            await turn.say("new" if new else "old")
            await turn.sleep("1m")
            return desk

        return desk_of(two)

    hand = Hand(code(guarded=False), *ACTIVITIES)
    hand.open()
    assert kinds(hand.result("1.1", 1)) == ["ActivityCompleted", "SessionWaiting"]
    hand.redeploy(code(guarded=True), *ACTIVITIES)
    hand.now_ms += 60_000
    assert kinds(hand.wake()) == ["TimerFired", "ReplySent", "TimerSet", "SessionWaiting"]
    assert hand.replies == says("old")
    hand.session.drop()
    hand.now_ms += 60_000
    assert kinds(hand.wake()) == ["TimerFired", "TurnCompleted"]


def test_an_activation_is_recorded_whole_so_a_guard_at_its_end_was_not_there() -> None:
    def code(*, guarded: bool) -> Any:
        async def two(turn: Turn, desk: Desk, message: Message) -> Desk:
            async def more() -> None:
                if guarded and turn.version("x"):
                    await turn.say("new")

            await turn.gather(turn.run(find_order.call("a")), more())
            return desk

        return desk_of(two)

    hand = Hand(code(guarded=False), *ACTIVITIES)
    hand.open()
    rebuilt = replayed(hand, code(guarded=True), hand.session.journal)
    assert rebuilt.leftover == []


def test_a_guard_before_another_is_not_taken_for_it() -> None:
    def code(*changes: str) -> Any:
        async def guards(turn: Turn, desk: Desk, message: Message) -> Desk:
            sides = [turn.version(change) for change in changes]
            await turn.sleep("1m")
            await turn.say(str(sides))
            return desk

        return desk_of(guards)

    hand = Hand(code("b"), *ACTIVITIES)
    hand.open()
    hand.redeploy(code("a", "b", "c"), *ACTIVITIES)
    hand.now_ms += 60_000
    hand.wake()
    assert hand.replies == says("[False, True, False]")


def test_the_next_stretch_asks_anew() -> None:
    def code(*, guarded: bool) -> Any:
        async def rounds(turn: Turn, desk: Desk, message: Message) -> Desk:
            new = guarded and turn.version("x")
            await turn.say("new" if new else "old")
            await turn.sleep("1m")
            return desk if desk.refunded_cents else turn.again(Desk(refunded_cents=1))

        return desk_of(rounds)

    hand = Hand(code(guarded=False), *ACTIVITIES)
    hand.open()
    hand.redeploy(code(guarded=True), *ACTIVITIES)
    for _ in range(2):
        hand.now_ms += 60_000
        hand.wake()
    assert hand.replies == says("old", "new")
    no_doubt_left(hand)


@pytest.mark.parametrize("change", ["", "x" * 201, None])
def test_a_change_has_a_name(change: Any) -> None:
    async def unnamed(turn: Turn, desk: Desk, message: Message) -> Desk:
        turn.version(change)
        return desk

    out = hand_of(unnamed).open()
    assert out[-1].reason == "workflow_misuse"
    assert "name of a change" in out[-1].detail


def stretches(hand: Hand) -> list[list[r.Event]]:
    """The journals of the session's stretches, as they were at their ends."""
    found: list[list[r.Event]] = []
    for stamped in hand.log:
        if isinstance(stamped.event.body, STARTS):
            found.append([])
        if found:
            found[-1].append(stamped.event)
    return found


@settings(max_examples=120, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_code_with_a_guard_takes_over_old_histories_of_any_length(seed: int) -> None:
    chance = random.Random(seed)
    program = drawn(chance, guards=True)
    old, new = code_of(program), code_of(program, guarded=True)
    hand = hand_for(old)
    for _ in range(chance.randint(0, 12)):
        move([hand], chance)
    journal = hand.session.journal
    for end in range(1, len(journal) + 1):
        assert is_rebuilt(replayed(hand, new, journal[:end])), (program, end)
    hand.redeploy(new, *ACTIVITIES)
    for _ in range(chance.randint(1, 12)):
        if chance.random() < 0.3:
            hand.session.drop()
        move([hand], chance)
    assert not hand.bodies(r.NondeterminismFound) + hand.bodies(r.SessionHeld), program
    journal = hand.session.journal
    for end in range(1, len(journal) + 1):
        if end == len(journal) or isinstance(journal[end].body, RESOLVES):
            assert is_rebuilt(replayed(hand, new, journal[:end])), (program, end)


@settings(max_examples=120, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_code_with_a_guard_takes_over_sessions_that_broken_code_held(seed: int) -> None:
    chance = random.Random(seed)
    program = drawn(chance, guards=True)
    old, new = code_of(program), code_of(program, guarded=True)
    hand = hand_for(old)
    for code in (code_of(program, fuse=chance.randint(0, 4)), new):
        for _ in range(chance.randint(0, 6)):
            move([hand], chance)
        hand.redeploy(code, *ACTIVITIES)
        if hand.session.state.hold is not None:
            hand.release()
    assert hand.session.state.hold is None, program
    held = len(hand.bodies(r.NondeterminismFound) + hand.bodies(r.SessionHeld))
    for _ in range(chance.randint(1, 12)):
        if chance.random() < 0.3:
            hand.session.drop()
        move([hand], chance)
    assert len(hand.bodies(r.NondeterminismFound) + hand.bodies(r.SessionHeld)) == held, program
