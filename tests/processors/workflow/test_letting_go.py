"""A function that is let go may catch that, again and again: it is left where it stands, and the session goes on."""

from __future__ import annotations

import gc
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from tests.processors.workflow.hands import (
    Desk,
    Message,
    Turn,
    adds_up,
    find_order,
    hand_of,
    kinds,
)

from wakeful.events import records as r
from wakeful.processors.workflow.turn import REFUSALS_MAX

LEFT_AFTER = 10 * REFUSALS_MAX
"""Far more than a function is asked to go; without a bound a test would never end."""

ASKS: dict[str, Callable[[Turn], Coroutine[Any, Any, object]]] = {
    "sleep": lambda turn: turn.sleep("1m"),
    "run": lambda turn: turn.run(find_order.call("x")),
    "signal": lambda turn: turn.signal("go"),
    "inbox": lambda turn: turn.inbox(),
    "say": lambda turn: turn.say("still here"),
    "artifact": lambda turn: turn.artifact("prices", "1"),
    "complete": lambda turn: turn.complete("done"),
    "verified": lambda turn: turn.complete("done", verify=adds_up.call(1)),
    "gather": lambda turn: turn.gather(turn.sleep("1m"), turn.signal("go")),
    "first": lambda turn: turn.first(turn.signal("go"), turn.sleep("1m")),
}


QUIET = pytest.mark.filterwarnings(
    "ignore:coroutine .* was never awaited:RuntimeWarning",
    "ignore::pytest.PytestUnraisableExceptionWarning",  # it ignores its end to the end
)


@QUIET
@pytest.mark.parametrize("ask", ASKS)
def test_a_function_that_catches_its_end_for_ever_is_left_where_it_stands(ask: str) -> None:
    ends: list[str] = []

    async def clings(turn: Turn, desk: Desk, message: Message) -> Desk:
        try:
            await turn.sleep("1m")
        except BaseException as first:
            ends.append(type(first).__name__)
            while len(ends) < LEFT_AFTER:
                try:
                    await ASKS[ask](turn)
                except BaseException as end:
                    ends.append(type(end).__name__)
        return desk

    hand = hand_of(clings)
    assert kinds(hand.open())[-1] == "SessionWaiting"
    hand.session.drop()
    gc.collect()
    assert REFUSALS_MAX <= len(ends) < LEFT_AFTER
    hand.now_ms += 60_000
    assert kinds(hand.wake()) == ["TimerFired", "TurnCompleted"]
    assert not hand.bodies(r.SessionHeld)


def test_a_function_that_cleans_up_once_is_not_kept_from_it() -> None:
    cleaned: list[str] = []

    async def tidy(turn: Turn, desk: Desk, message: Message) -> Desk:
        try:
            await turn.sleep("1m")
        finally:
            cleaned.append("yes")
            await turn.say("bye")
            cleaned.append("no: it was let go")
        return desk

    hand = hand_of(tidy)
    hand.open()
    hand.session.drop()
    assert cleaned == ["yes"]
    hand.now_ms += 60_000
    assert kinds(hand.wake()) == ["TimerFired", "ReplySent", "TurnCompleted"]


@QUIET
def test_a_misuse_is_held_by_its_name_though_the_function_clings() -> None:
    async def clings(turn: Turn, desk: Desk, message: Message) -> Desk:
        for _ in range(LEFT_AFTER):
            try:
                await turn.sleep("1m")
                await Foreign()
            except BaseException:
                continue
        raise AssertionError("it was asked to go for ever")

    class Foreign:
        def __await__(self) -> Any:
            yield self

    hand = hand_of(clings)
    hand.open()
    hand.now_ms += 60_000
    out = hand.wake()
    assert kinds(out) == ["TimerFired", "SessionHeld"]
    assert out[-1].reason == "workflow_misuse"
    assert "which is not of this turn" in out[-1].detail
    gc.collect()
