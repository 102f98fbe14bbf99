"""What loses in `first` is let go at once: its `finally` blocks may say and note, they may not wait, and nothing is lost."""

import gc
from collections.abc import Awaitable, Callable
from contextlib import suppress
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
    no_doubt_left,
    refund,
    says,
)

from wakeful.events import records as r

REPLAY = pytest.mark.parametrize("replay", [False, True])
DEPTH = pytest.mark.parametrize("depth", [0, 1, 2])
Cleanup = Callable[[Turn], Awaitable[Any]]


def race(cleanup: Cleanup, depth: int = 0) -> Any:
    """A branch that cleans up, so deep in `gather` and `first`, against a signal."""

    async def code(turn: Turn, desk: Desk, message: Message) -> Desk:
        async def tidy() -> None:
            try:
                await turn.sleep("1h")
            finally:
                await cleanup(turn)

        async def nested(level: int) -> None:
            if level == 0:
                await tidy()
            elif level % 2:
                await turn.gather(turn.sleep("2h"), nested(level - 1))
            else:
                await turn.first(turn.sleep("2h"), nested(level - 1))

        await turn.first(nested(depth), turn.signal("go"))
        await turn.say("on")
        await turn.sleep("1h")
        return desk

    return code


def lost(function: Any, *, replay: bool = False) -> tuple[Hand, list[r.EventBody]]:
    """A session of it in which the signal wins."""
    hand = hand_of(function, always_replay=replay)
    hand.open()
    return hand, hand.signal("go")


async def tells(turn: Turn) -> None:
    await turn.say("tidied")
    await turn.artifact("prices", f"{turn.random()}")


@DEPTH
@REPLAY
def test_what_it_says_and_notes_at_its_end_is_recorded(replay: bool, depth: int) -> None:
    hand, out = lost(race(tells, depth), replay=replay)
    assert kinds(out)[-5:-1] == ["ReplySent", "ArtifactRecorded", "ReplySent", "TimerSet"]
    assert hand.replies == says("tidied", "on")
    hand.now_ms += 3_600_000
    assert kinds(hand.wake())[-1] == "TurnCompleted"
    no_doubt_left(hand)


WAITING: dict[str, Cleanup] = {
    "run": lambda turn: turn.run(find_order.call("x")),
    "ungranted": lambda turn: turn.run(refund.call(500)),
    "approval": lambda turn: turn.approval(refund.call(500)),
    "sleep": lambda turn: turn.sleep(1),
    "signal": lambda turn: turn.signal("other"),
    "inbox": lambda turn: turn.inbox(),
    "complete": lambda turn: turn.complete("x", verify=adds_up.call(1)),
    "gather": lambda turn: turn.gather(turn.say("a"), turn.sleep(1)),
    "first": lambda turn: turn.first(turn.signal("a"), turn.sleep(1)),
}


@pytest.mark.parametrize("step", WAITING)
@DEPTH
def test_what_waits_there_is_held_and_explained_and_not_asked_for(step: str, depth: int) -> None:
    hand, out = lost(race(WAITING[step], depth))
    assert kinds(out)[-1] == "SessionHeld"
    assert out[-1].reason == "workflow_misuse"
    assert "a branch that lost in turn.first may not wait in its finally" in out[-1].detail
    asked = [s.event.body for s in hand.log if isinstance(s.event.body, r.ActivityRequested)]
    assert asked == []


class Foreign:
    """Somebody else's awaitable."""

    def __await__(self) -> Any:
        yield self


async def awaits_a_stranger(turn: Turn) -> None:
    del turn
    await Foreign()


@DEPTH
def test_a_foreign_wait_there_is_named(depth: int) -> None:
    _, out = lost(race(awaits_a_stranger, depth))
    assert (kinds(out)[-1], out[-1].reason) == ("SessionHeld", "workflow_misuse")
    assert "it awaited <tests." in out[-1].detail


async def breaks(turn: Turn) -> None:
    del turn
    raise ValueError("cannot tidy")


@DEPTH
def test_what_is_raised_there_comes_out_of_first(depth: int) -> None:
    _, out = lost(race(breaks, depth))
    assert (kinds(out)[-1], out[-1].reason) == ("SessionHeld", "workflow_raised")
    assert "cannot tidy" in out[-1].detail


@REPLAY
def test_all_losers_are_let_go_though_one_raises_and_none_of_the_errors_is_lost(
    replay: bool,
) -> None:
    async def code(turn: Turn, desk: Desk, message: Message) -> Desk:
        async def tidy(name: str) -> None:
            try:
                await turn.sleep("1h")
            finally:
                await turn.say(name)
                raise ValueError(name)

        try:
            await turn.first(tidy("a"), turn.gather(tidy("b"), tidy("c")), turn.signal("go"))
        except* ValueError as errors:
            told = [str(error.args[0]) for error in leaves(errors)]
            await turn.say(f"raised {' '.join(told)}")
        return desk

    hand, out = lost(code, replay=replay)
    assert kinds(out).count("TimerCancelled") == 3
    assert hand.replies == says("a", "b", "c", "raised a b c")
    assert hand.session.state.timers == ()
    no_doubt_left(hand)


def leaves(errors: BaseExceptionGroup[Any]) -> list[BaseException]:
    """The errors in it, in order."""
    found: list[BaseException] = []
    for error in errors.exceptions:
        found += leaves(error) if isinstance(error, BaseExceptionGroup) else [error]
    return found


def test_the_error_of_the_winner_is_told_together_with_that_of_a_loser() -> None:
    async def code(turn: Turn, desk: Desk, message: Message) -> Desk:
        async def tidy() -> None:
            try:
                await turn.sleep("1h")
            finally:
                raise ValueError("cannot tidy")

        async def wins() -> None:
            await turn.signal("go")
            raise KeyError("won")

        await turn.first(tidy(), wins())
        return desk

    _, out = lost(code)
    assert "cannot tidy" in out[-1].detail
    assert "won" in out[-1].detail


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_loser_that_catches_its_end_and_goes_on_is_held_at_its_next_wait() -> None:
    async def code(turn: Turn, desk: Desk, message: Message) -> Desk:
        async def clings() -> None:
            while True:
                with suppress(BaseException):
                    await turn.sleep("1h")

        await turn.first(turn.gather(clings(), turn.sleep("2h")), turn.signal("go"))
        return desk

    _, out = lost(code)
    assert (kinds(out)[-1], out[-1].reason) == ("SessionHeld", "workflow_misuse")
    gc.collect()  # Python tells of a coroutine that does not end: here, not in another test


def test_a_history_in_which_a_nested_loser_asked_in_vain_replays_as_it_was() -> None:
    code = race(WAITING["run"], depth=1)
    hand = hand_of(code)
    with pytest.MonkeyPatch.context() as patch:
        as_it_was(patch)
        hand.open()
        out = hand.signal("go")
    assert "ActivityRequested" in kinds(out)
    assert hand.replies == says("on")
    hand.redeploy(desk_of(code), *ACTIVITIES)
    hand.result(hand.last(r.ActivityRequested).activity_id, 7)
    hand.now_ms += 3_600_000
    assert kinds(hand.wake())[-1] == "TurnCompleted"
    no_doubt_left(hand)


def as_it_was(patch: pytest.MonkeyPatch) -> None:
    """Nobody looks whether a loser waits; its cleanup ends there, and what it asked for stays."""
    patch.setattr("wakeful.processors.workflow.ahead.Ahead.holds_wait", lambda *_: True)
