"""A turn that is over, or was let go, says so at once whatever is asked of it, and cannot be asked for ever."""

import gc
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from typing import Any

import pytest
from tests.processors.workflow.hands import (
    Desk,
    Message,
    Turn,
    adds_up,
    desk_of,
    find_order,
    hand_of,
    kinds,
    refund,
)

from wakeful.processors.workflow.errors import TurnDropped, WorkflowMisuse

pytestmark = pytest.mark.usefixtures("few_objects")

AT_ONCE: dict[str, Callable[[Turn], Any]] = {
    "now": lambda turn: turn.now(),
    "uuid": lambda turn: turn.uuid(),
    "random": lambda turn: turn.random(),
    "version": lambda turn: turn.version("x"),
    "again": lambda turn: turn.again(Desk()),
}
AWAITED: dict[str, Callable[[Turn], Awaitable[Any]]] = {
    "run": lambda turn: turn.run(find_order.call("x")),
    "run nothing": lambda turn: turn.run("x"),  # type: ignore[arg-type]
    "approval": lambda turn: turn.approval(refund.call(500)),
    "approval of what needs none": lambda turn: turn.approval(refund.call(5)),
    "sleep": lambda turn: turn.sleep("1m"),
    "sleep for words": lambda turn: turn.sleep("a while"),
    "signal": lambda turn: turn.signal("s"),
    "signal of no type": lambda turn: turn.signal("s", 7),  # type: ignore[call-overload]
    "inbox": lambda turn: turn.inbox(),
    "say": lambda turn: turn.say("x"),
    "artifact": lambda turn: turn.artifact("a", "1"),
    "complete": lambda turn: turn.complete("x"),
    "verified": lambda turn: turn.complete("x", verify=adds_up.call(1)),
    "gather": lambda turn: turn.gather(turn.say("x")),
    "first": lambda turn: turn.first(turn.say("x")),
    "gather of nothing": lambda turn: turn.gather(),
}
CALLS = AT_ONCE | AWAITED


async def made(turn: Turn, call: str) -> None:
    answer = CALLS[call](turn)
    if call in AWAITED:
        await answer


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.filterwarnings("ignore:coroutine 'Turn.say' was never awaited:RuntimeWarning")
def test_one_whose_turn_has_ended_says_what_to_use_instead(call: str) -> None:
    kept: list[Turn] = []

    async def hoards(turn: Turn, desk: Desk, message: Message) -> Desk:
        kept.append(turn)
        if len(kept) > 1:
            await made(kept[0], call)
        return desk

    hand = hand_of(hoards)
    assert kinds(hand.open())[-1] == "TurnCompleted"
    out = hand.say("more")
    assert (kinds(out)[-1], out[-1].reason) == ("SessionHeld", "workflow_misuse")
    assert "turn 1 of session 's1' was used while its function does not run" in out[-1].detail
    with pytest.raises(WorkflowMisuse, match="do not keep it"):
        made(kept[0], call).send(None)  # type: ignore[attr-defined]
    gc.collect()


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.filterwarnings("ignore:coroutine 'Turn.say' was never awaited:RuntimeWarning")
def test_one_that_is_dropped_gets_out_of_its_function(call: str) -> None:
    heard: list[BaseException] = []

    async def cleans(turn: Turn, desk: Desk, message: Message) -> Desk:
        try:
            await turn.sleep("1m")
        finally:
            try:
                await made(turn, call)
            except BaseException as error:
                heard.append(error)
                raise
        return desk

    hand = hand_of(cleans)
    hand.open()
    facts = len(hand.log)
    hand.session.drop()
    assert [type(error) for error in heard] == [TurnDropped]
    assert "turn 1 of session 's1' was let go in this process" in str(heard[0])
    assert len(hand.log) == facts
    gc.collect()


@pytest.mark.parametrize("call", AWAITED)
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.filterwarnings("ignore:coroutine 'Turn.say' was never awaited:RuntimeWarning")
def test_code_that_catches_it_for_ever_is_left_where_it_stands(call: str) -> None:
    async def clings(turn: Turn, desk: Desk, message: Message) -> Desk:
        with suppress(BaseException):
            await turn.sleep("1m")
        while True:
            with suppress(BaseException):
                await made(turn, call)

    hand = hand_of(clings)
    hand.open()
    hand.session.drop()
    gc.collect()


@pytest.mark.parametrize("call", AWAITED)
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.filterwarnings("ignore:coroutine 'Turn.say' was never awaited:RuntimeWarning")
def test_code_that_clings_to_a_turn_before_its_own_is_held(call: str) -> None:
    kept: list[Turn] = []

    async def clings(turn: Turn, desk: Desk, message: Message) -> Desk:
        kept.append(turn)
        while len(kept) > 1:
            with suppress(BaseException):
                await made(kept[0], call)
        return desk

    hand = hand_of(clings)
    hand.open()
    out = hand.say("more")
    assert (kinds(out)[-1], out[-1].reason) == ("SessionHeld", "workflow_misuse")
    assert "do not keep it" in out[-1].detail
    gc.collect()


def test_a_turn_that_was_asked_from_outside_too_often_still_works_inside() -> None:
    kept: list[Turn] = []

    async def naps(turn: Turn, desk: Desk, message: Message) -> Desk:
        kept.append(turn)
        await turn.sleep("1m")
        await turn.say("on")
        return desk

    hand = hand_of(desk_of(naps).function)
    hand.open()
    for _ in range(200):
        with pytest.raises(WorkflowMisuse):
            kept[0].now()
    hand.now_ms += 60_000
    assert kinds(hand.wake()) == ["TimerFired", "ReplySent", "TurnCompleted"]


def test_what_a_dropped_generator_asks_for_is_no_error_on_the_screen_and_its_own_errors_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda one: told.append(one.exc_type))
    gc.collect()  # what other tests dropped
    told.clear()

    async def listens(turn: Turn, *, breaks: bool) -> AsyncIterator[int]:
        try:
            yield 1
            await turn.sleep("1m")
            yield 2
        finally:
            if breaks:
                raise LookupError("its own")
            await turn.say("over")

    async def reads(turn: Turn, desk: Desk, message: Message) -> Desk:
        async for _ in listens(turn, breaks=bool(message.data["breaks"])):
            await turn.sleep("1m")
        return desk

    for breaks, wanted in enumerate(([], [LookupError])):
        hand = hand_of(reads)
        hand.open(breaks=breaks)
        hand.session.drop()
        gc.collect()
        assert told == wanted
