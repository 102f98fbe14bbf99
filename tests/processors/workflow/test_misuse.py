"""What no workflow may do is held, and the hold names what was done and what to do instead."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from tests.processors.workflow.hands import (
    Desk,
    Message,
    Turn,
    find_order,
    hand_of,
    kinds,
)

from wakeful import workflow
from wakeful.events import records as r


class Foreign:
    """Somebody else's awaitable."""

    def __await__(self) -> Any:
        yield self


async def awaits_a_stranger(turn: Turn, desk: Desk, message: Message) -> Desk:
    await Foreign()
    return desk


async def gathers_a_stranger(turn: Turn, desk: Desk, message: Message) -> Desk:
    await turn.gather(turn.sleep(1), Foreign())
    return desk


async def sleeps_outside(turn: Turn, desk: Desk, message: Message) -> Desk:
    await asyncio.sleep(1)
    return desk


async def opens_a_socket(turn: Turn, desk: Desk, message: Message) -> Desk:
    await asyncio.open_connection("localhost", 1)
    return desk


async def runs_no_action(turn: Turn, desk: Desk, message: Message) -> Desk:
    await turn.run(find_order)  # type: ignore[arg-type]
    return desk


async def approves_no_action(turn: Turn, desk: Desk, message: Message) -> Desk:
    await turn.approval("refund")  # type: ignore[arg-type]
    return desk


async def gives_an_unknown_parameter(turn: Turn, desk: Desk, message: Message) -> Desk:
    await turn.run(find_order.call("x"), retries=3)  # type: ignore[call-arg]
    return desk


async def names_no_artifact(turn: Turn, desk: Desk, message: Message) -> Desk:
    await turn.artifact("prices", "")
    return desk


async def sleeps_for_words(turn: Turn, desk: Desk, message: Message) -> Desk:
    await turn.sleep("a while")
    return desk


@pytest.mark.parametrize(
    ("function", "reason", "told"),
    [
        (awaits_a_stranger, "workflow_misuse", "which is not of this turn: use turn.sleep"),
        (gathers_a_stranger, "workflow_misuse", "which is not of this turn: use turn.sleep"),
        (sleeps_outside, "workflow_misuse", "it used asyncio (no running event loop)"),
        (opens_a_socket, "workflow_misuse", "use turn.sleep, or an activity for I/O"),
        (runs_no_action, "workflow_misuse", "write turn.run(activity.call(…))"),
        (approves_no_action, "workflow_misuse", "got 'refund': write turn.approval(activity"),
        (gives_an_unknown_parameter, "workflow_raised", "unexpected keyword argument 'retries'"),
        (names_no_artifact, "workflow_misuse", "artifact version '' is not allowed"),
        (sleeps_for_words, "workflow_misuse", "'a while' is not a duration: write it like"),
    ],
)
def test_it_is_held_and_explained(function: Any, reason: str, told: str) -> None:
    out = hand_of(function).open()
    assert kinds(out)[-1] == "SessionHeld"
    assert out[-1].reason == reason
    assert told in out[-1].detail
    assert not any(isinstance(body, r.ActivityRequested) for body in out)


SWALLOWED: dict[str, tuple[Callable[[Turn], Any], str]] = {
    "run": (lambda turn: turn.run(5), "turn.run takes an action, got 5"),
    "on_uncertain": (
        lambda turn: turn.run(find_order.call("x"), on_uncertain="retry"),
        "turn.run was given on_uncertain='retry'",
    ),
    "approval": (lambda turn: turn.approval("refund"), "turn.approval takes an action"),
    "signal": (lambda turn: turn.signal(""), "signal name '' is not allowed"),
    "type": (lambda turn: turn.signal("paid", 7), "was given the type 7, which cannot be read"),
    "artifact": (lambda turn: turn.artifact("prices", ""), "artifact version '' is not allowed"),
    "first": (lambda turn: turn.first(), "turn.first was given nothing to wait for"),
    "stranger": (
        lambda turn: turn.gather(turn.say("x"), Foreign()),
        "which is not of this turn: use turn.sleep",
    ),
    "branch": (lambda turn: turn.first(turn.sleep(1), turn.run(5)), "turn.run takes an action"),
    "verify": (lambda turn: turn.complete("x", verify=5), "was given verify=5: give it an action"),
    "version": (lambda turn: turn.version(""), "name of a change '' is not allowed"),
}


@pytest.mark.parametrize("call", SWALLOWED)
@pytest.mark.parametrize("caught", [Exception, BaseException])
def test_it_is_held_and_explained_though_the_function_catches_it(
    call: str, caught: type[BaseException]
) -> None:
    misuse, told = SWALLOWED[call]

    async def swallows(turn: Turn, desk: Desk, message: Message) -> Desk:
        try:
            answer = misuse(turn)
            if isinstance(answer, Awaitable):
                await answer
        except caught:
            pass
        return desk

    hand = hand_of(swallows)
    out = hand.open()
    assert (kinds(out)[-1], out[-1].reason) == ("SessionHeld", "workflow_misuse")
    assert told in out[-1].detail
    assert not any(isinstance(body, r.ReplySent | r.TimerSet | r.TurnCompleted) for body in out)


@pytest.mark.parametrize("replay", [False, True])
def test_it_asks_for_nothing_more_once_it_has_caught_one(replay: bool) -> None:
    async def goes_on(turn: Turn, desk: Desk, message: Message) -> Desk:
        while True:
            try:
                await turn.run(5)  # type: ignore[arg-type]
            except Exception:
                await turn.say("and on")

    async def mended(turn: Turn, desk: Desk, message: Message) -> Desk:
        await turn.say("once")
        return desk

    hand = hand_of(goes_on, always_replay=replay)
    assert hand.open()[-1].reason == "workflow_misuse"
    hand.redeploy(workflow("desk", version=1)(mended))
    assert kinds(hand.release()) == ["SessionReleased", "ReplySent", "TurnCompleted"]


def test_a_second_end_is_held_though_the_function_catches_it() -> None:
    async def ends_twice(turn: Turn, desk: Desk, message: Message) -> Desk:
        await turn.complete("done")
        try:
            turn.again(desk)
        except Exception:
            return desk
        return desk

    out = hand_of(ends_twice).open()
    assert (kinds(out)[-1], out[-1].reason) == ("SessionHeld", "workflow_misuse")
    assert "turn.again was called after turn.complete" in out[-1].detail


def test_a_turn_that_was_kept_is_not_the_one_that_runs() -> None:
    kept: list[Turn] = []

    async def hoards(turn: Turn, desk: Desk, message: Message) -> Desk:
        kept.append(turn)
        if len(kept) == 2:
            await kept[0].say("from the turn before")
        await turn.sleep("1m")
        return desk

    hand = hand_of(hoards)
    hand.open()
    hand.now_ms += 60_000
    hand.wake()
    out = hand.say("more")
    assert out[-1].reason == "workflow_misuse"
    assert "turn 1 of session 's1' was used while its function does not run" in out[-1].detail


def test_a_turn_of_another_session_cannot_be_used_either() -> None:
    kept: list[Turn] = []

    async def hoards(turn: Turn, desk: Desk, message: Message) -> Desk:
        kept.append(turn)
        await kept[0].sleep("1m")
        return desk

    first, second = hand_of(hoards), hand_of(hoards)
    assert kinds(first.open())[-1] == "SessionWaiting"
    out = second.open()
    assert "do not keep it" in out[-1].detail
    assert len(first.log) == 5
    first.now_ms += 60_000
    assert kinds(first.wake()) == ["TimerFired", "TurnCompleted"]


def test_what_cannot_be_seen_at_once_is_seen_by_the_replay() -> None:
    async def reads_a_clock(turn: Turn, desk: Desk, message: Message) -> Desk:
        await turn.say(str(time.perf_counter_ns()))
        await turn.sleep("1m")
        return desk

    hand = hand_of(reads_a_clock, always_replay=True)
    hand.open()
    hand.now_ms += 60_000
    assert kinds(hand.wake()) == ["TimerFired", "NondeterminismFound"]


def test_an_artifact_is_a_step_that_waits_for_nothing() -> None:
    async def relies(turn: Turn, desk: Desk, message: Message) -> Desk:
        await turn.artifact("prices.csv", "etag 7")
        await turn.run(find_order.call("x"))
        return desk

    hand = hand_of(relies, always_replay=True)
    assert kinds(hand.open())[-2:] == ["ArtifactRecorded", "ActivityRequested"]
    assert kinds(hand.result("1.2", 1)) == ["ActivityCompleted", "TurnCompleted"]
    recorded = hand.last(r.ArtifactRecorded)
    assert (recorded.step, recorded.artifact_id, recorded.version) == (1, "prices.csv", "etag 7")
    assert [a.artifact_id for a in hand.session.state.artifacts] == ["prices.csv"]
