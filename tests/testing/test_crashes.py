"""Crashes, replay and deploys: what a rehearsal finds that one run would not."""

import itertools
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.processors.desk import Desk, desk, find_order, refund, sleeper
from wakeful import ActivityError, Message, Turn, workflow
from wakeful.events.errors import Corrupt
from wakeful.testing import NO_ANSWER, Diverged, Held, Misuse, Refused, StepAt, rehearse

FAKES = {"find_order": 500, "refund": "receipt"}
COUNTER = itertools.count()


@workflow("forgetful", version=1)
async def forgetful(turn: Turn, desk: Desk, message: Message) -> Desk:
    """Its second step depends on a global, so no replay comes to it again."""
    await turn.run(find_order.call("x"))
    await turn.run(find_order.call(f"{next(COUNTER)}"))
    return desk


@workflow("busy", version=1)
async def busy(turn: Turn, desk: Desk, message: Message) -> Desk:
    """Waits of all kinds, one after another and at once."""
    for number in range(3):
        try:
            cents = await turn.run(find_order.call(f"{number}"))
        except ActivityError as error:
            await turn.say(error.failure.kind)
            continue
        action = refund.call(cents)
        won = await turn.first(turn.approval(action), turn.sleep("20m"))
        if won.index == 0 and won.value.granted:
            await turn.gather(turn.run(action), turn.sleep("5m"))
        await turn.say({"at": f"{turn.now():%H:%M}", "id": str(turn.uuid()), "by": turn.random()})
    return desk


@workflow("raises", version=1)
async def raises(turn: Turn, desk: Desk, message: Message) -> Desk:
    """Has a fault."""
    raise ZeroDivisionError("a fault in here")


@workflow("desk", version=1)
async def other_desk(turn: Turn, desk: Desk, message: Message) -> Desk:
    """The same name and version, another path."""
    await turn.sleep("1h")
    return desk


def told(session) -> list:
    return [session.events, session.replies, session.state]


def play(session):
    session.send("go")
    session.approve()
    session.send("again")
    session.expire()
    return session


@pytest.mark.parametrize("always_replay", [True, False])
def test_crashes_everywhere_change_nothing(always_replay) -> None:
    calm = play(rehearse(desk, activities=FAKES))
    shaken = rehearse(desk, activities=FAKES, always_replay=always_replay)
    shaken.crash_everywhere()
    play(shaken)
    assert told(shaken) == told(calm)
    assert len(shaken.crashes) == 7
    assert len(shaken.calls("refund")) == 2 * len(calm.calls("refund"))
    assert len({call.key for call in shaken.calls("refund")}) == 1


def test_a_crash_at_a_step_makes_its_call_again_with_the_same_key() -> None:
    session = rehearse(desk, activities=FAKES)
    session.crash_at(3)
    session.send("go")
    assert session.crashes == []
    session.approve()
    assert session.crashes == [StepAt(turn=1, step=3)]
    first, second = session.calls("refund")
    assert first == second
    assert len(session.calls("find_order")) == 1


def test_a_crash_can_wait_for_a_later_turn() -> None:
    session = rehearse(desk, activities={**FAKES, "find_order": 50})
    session.crash_at(2, turn=2)
    session.send("go")
    assert session.crashes == []
    session.send("go")
    assert session.crashes == [StepAt(turn=2, step=2)]


def test_a_call_that_is_made_again_gets_the_same_of_a_list() -> None:
    session = rehearse(desk, activities={"find_order": [40, 50], "refund": ["a", "b"]})
    session.crash_everywhere()
    session.send("go")
    session.send("go")
    assert session.replies == ["refunded 40 as a", "refunded 50 as b"]


def test_a_planned_failure_outlives_the_crash() -> None:
    session = rehearse(desk, activities=FAKES)
    session.crash_everywhere()
    session.fail_next("find_order")
    session.send("go")
    assert session.status == "Failed"


def test_a_crash_that_never_came_is_said() -> None:
    session = rehearse(desk, activities={**FAKES, "find_order": 50})
    session.crash_at(9)
    with pytest.raises(Misuse, match="turn 1 ended before it came to step 9"):
        session.send("go")
    assert session.replies == ["refunded 50 as receipt"]


def test_a_crash_in_the_past_is_refused() -> None:
    session = rehearse(desk, activities=FAKES)
    session.send("go")
    with pytest.raises(Misuse, match="step 2 of turn 1 is in the past"):
        session.crash_at(2)
    with pytest.raises(Misuse, match="count from 1"):
        session.crash_at(0)


def test_a_workflow_that_depends_on_more_than_its_history_is_held() -> None:
    session = rehearse(forgetful, activities={"find_order": 5})
    with pytest.raises(
        Held, match=r"nondeterminism.*step 2: history holds step 2: activity"
    ) as held:
        session.send("go")
    assert held.value.reason == "nondeterminism"


def test_without_replay_a_crash_finds_it_too() -> None:
    session = rehearse(forgetful, activities={"find_order": 5}, always_replay=False)
    session.crash_at(2)
    with pytest.raises(Diverged, match="after a crash the same command led to other facts"):
        session.send("go")


def test_a_workflow_that_raises_is_held_with_its_traceback() -> None:
    session = rehearse(raises)
    with pytest.raises(Held, match=r"workflow_raised.*\n(.*\n)*.*a fault in here"):
        session.send("go")
    assert session.hold is not None
    assert session.status == "Recovering"
    session.send("kept")  # said once: from here on, commands are kept
    assert session.facts[-1] == "CommandParked"


def test_a_mended_session_goes_on_and_takes_what_was_kept() -> None:
    @workflow("raises", version=1)
    async def mended(turn: Turn, desk: Desk, message: Message) -> Desk:
        await turn.say(message.text)
        return desk

    session = rehearse(raises)
    with pytest.raises(Held):
        session.send("one")
    session.send("two")
    session.redeploy(mended)
    session.release()
    assert session.replies == ["one", "two"]


@pytest.mark.parametrize("always_replay", [True, False])
def test_other_code_holds_an_open_turn_and_the_right_code_goes_on(always_replay) -> None:
    session = rehearse(desk, activities=FAKES, always_replay=always_replay)
    session.send("go")
    session.redeploy(other_desk, find_order, refund)
    with pytest.raises(Held, match="history holds step 1: activity find_order"):
        session.approve()
    session.redeploy(desk)
    session.release()
    assert session.replies == ["refunded 500 as receipt"]


def test_a_version_that_is_gone_holds_the_session() -> None:
    session = rehearse(desk, activities=FAKES)
    session.send("go")
    session.redeploy(sleeper)
    with pytest.raises(Held, match=r"workflow_missing.*'desk' version 1 is not loaded"):
        session.approve()


def test_a_session_that_is_not_its_history_is_a_fault_of_ours() -> None:
    session = rehearse(desk, activities=FAKES)
    session._engine.session.head = session._engine.session.head.__class__(seq=7)
    with pytest.raises(Corrupt, match="the head of the session is not what its history folds to"):
        session.send("go")


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_any_course_of_events_is_the_same_with_a_crash_at_every_step(seed: int) -> None:
    chance = random.Random(seed)
    answers = [chance.choice([10, 500, NO_ANSWER, ValueError("no")]) for _ in range(60)]
    calm, shaken = (
        rehearse(
            busy, activities={"find_order": list(answers), "refund": "r"}, always_replay=replay
        )
        for replay in (True, False)
    )
    shaken.crash_everywhere()
    for _ in range(chance.randint(3, 15)):
        move, pause = chance.randrange(6), chance.choice(["1s", "4m", "2h"])
        outcomes = {_move(session, move, pause) for session in (calm, shaken)}
        assert len(outcomes) == 1
    assert told(shaken) == told(calm)


def _move(session, move: int, pause: str) -> str:
    """One thing that may happen; what may not be is refused to both in the same words."""
    try:
        match move:
            case 0:
                session.send("go")
            case 1:
                session.approve()
            case 2:
                session.reject()
            case 3:
                session.answer("find_order", 500)
            case _:
                session.skip(pause)
    except (Misuse, Refused) as refused:
        return str(refused)
    return ""
