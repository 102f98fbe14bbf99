"""On which version a turn begins: a share of sessions by hash, recorded with the turn, and never asked again."""

from dataclasses import replace
from typing import Any

import pytest
from tests.processors.workflow.hands import (
    ACTIVITIES,
    Desk,
    Hand,
    Message,
    Turn,
    desk_of,
    kinds,
    says,
)

from wakeful.commands.policy import EVERYBODY
from wakeful.commands.rollouts import Rollout, place_of, why_unusable
from wakeful.events import records as r


def said(
    version: int | None = 2, percent: int = 100, rest: int | None = None, number: int = 1
) -> r.RolloutSet:
    return r.RolloutSet(number, 0, "root", "", "desk", version, percent, rest)


def code(version: int) -> Any:
    async def told(turn: Turn, desk: Desk, message: Message) -> Desk:
        await turn.say(f"version {version}")
        if message.text == "wait":
            await turn.sleep("1h")
            await turn.say("still there")
        return desk

    return desk_of(told, version)


def goes_by(hand: Hand, rollout: r.RolloutSet | None, offset: int = 5) -> None:
    found = {} if rollout is None else {"desk": Rollout(rollout, offset)}
    hand.handler.go_by(EVERYBODY, offset + 1, found)


def begun(hand: Hand) -> list[tuple[int, int | None]]:
    return [(t.workflow_version, t.rollout_offset) for t in hand.bodies(r.TurnStarted)]


def test_without_a_rollout_a_turn_begins_on_the_highest_version_that_is_loaded() -> None:
    hand = Hand(code(1), code(3), code(2), *ACTIVITIES)
    hand.open("a")
    goes_by(hand, said(None))
    hand.say("b")
    assert begun(hand) == [(3, None), (3, 5)]


def test_a_turn_begins_where_the_rollout_says_and_names_it() -> None:
    hand = Hand(code(1), code(2), code(3), *ACTIVITIES)
    goes_by(hand, said(2))
    hand.open("a")
    goes_by(hand, said(2, 0, 1), offset=9)
    hand.say("b")
    assert begun(hand) == [(2, 5), (1, 9)]
    assert hand.log[-1].event.envelope.control_offset == 10


def test_an_open_turn_is_replayed_on_its_own_version_whatever_the_rollout_says_by_then() -> None:
    hand = Hand(code(1), code(2), *ACTIVITIES)
    goes_by(hand, said(1))
    hand.open("wait")
    goes_by(hand, said(2), offset=9)
    hand.session.drop()
    hand.now_ms += 3_600_000
    hand.wake()
    hand.say("next")
    assert hand.replies == says("version 1", "still there", "version 2")


def test_a_version_that_is_not_loaded_holds_the_session_and_a_release_asks_the_rollout_anew() -> (
    None
):
    hand = Hand(code(1), code(2), *ACTIVITIES)
    goes_by(hand, said(4), offset=7)
    held = hand.open("a")[-1]
    assert (held.reason, hand.bodies(r.TurnStarted)) == ("workflow_missing", [])
    assert "the rollout at control offset 7 gives it version 4 of workflow 'desk'" in held.detail
    assert (
        "(loaded: 1, 2): deploy it, or set another with 'wakeful rollout set desk'" in held.detail
    )
    assert kinds(hand.release()) == ["SessionReleased", "SessionHeld"]
    goes_by(hand, said(2), offset=8)
    assert kinds(hand.release())[:2] == ["SessionReleased", "TurnStarted"]
    assert begun(hand) == [(2, 8)]


def test_a_higher_percentage_only_adds_sessions() -> None:
    ids = [f"s{number}" for number in range(2_000)]
    before: set[str] = set()
    for percent in (0, 1, 10, 50, 99, 100):
        rollout = Rollout(said(2, percent, 1), 0)
        now = {one for one in ids if rollout.version_for("acme", one) == 2}
        assert before <= now
        assert abs(len(now) - 20 * percent) < 120
        before = now
    assert before == set(ids)


def test_a_session_lies_in_the_same_place_for_ever_and_elsewhere_for_another_workflow() -> None:
    assert [place_of("desk", "acme", f"s{n}") for n in range(4)] == [53, 80, 76, 47]
    others = [place_of("other", "acme", f"s{n}") for n in range(50)]
    assert others != [place_of("desk", "acme", f"s{n}") for n in range(50)]


@pytest.mark.parametrize(
    ("one", "told"),
    [
        (said(2, 101), "from 0 to 100"),
        (said(2, -1), "from 0 to 100"),
        (said(2, 10), "names no version for the rest"),
        (said(0), "count from 1"),
        (said(2, 10, -1), "count from 1"),
        (replace(said(), workflow=""), "names no workflow"),
    ],
)
def test_what_nobody_can_go_by_says_why(one: r.RolloutSet, told: str) -> None:
    assert told in why_unusable(one)
    assert not why_unusable(said(2, 10, 1))
