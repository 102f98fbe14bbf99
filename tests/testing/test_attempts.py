"""Activities that tell of their progress are called by tests, and run in rehearsals."""

import asyncio

import pytest
from pydantic import BaseModel

from wakeful import (
    AttemptCancelled,
    Message,
    Read,
    Turn,
    activity,
    cancelled,
    heartbeat,
    progress,
    workflow,
)
from wakeful.processors.app import gather
from wakeful.testing import attempt, rehearse


@activity(contract=Read())
def count(to: int) -> int:
    for n in range(progress(int) or 0, to):
        heartbeat(n + 1)
    return to


@activity(contract=Read())
async def count_slowly(to: int) -> int:
    for n in range(to):
        await asyncio.sleep(0)
        heartbeat({"n": n})
    return 0 if cancelled() else to


def test_a_test_sees_what_an_activity_tells():
    with attempt() as one:
        assert count.function(3) == 3
    assert one.told == [1, 2, 3]


def test_a_test_says_what_an_earlier_attempt_left():
    with attempt(progress=2) as one:
        assert count.function(4) == 4
    assert one.told == [3, 4]


def test_an_attempt_that_a_test_cancels_stops_at_its_next_heartbeat():
    with attempt() as one:
        one.cancel()
        with pytest.raises(AttemptCancelled):
            count.function(1)
    assert one.told == []


class Sum(BaseModel):
    total: int = 0


@workflow("counting", version=1)
async def counting(turn: Turn, state: Sum, message: Message) -> Sum:
    return Sum(total=await turn.run(count.call(2)) + await turn.run(count_slowly.call(3)))


def test_a_rehearsal_runs_both_kinds():
    session = rehearse(gather([counting, count, count_slowly]))
    session.send("go")
    assert session.state.total == 5


async def rehearse_in_a_loop():
    session = rehearse(gather([counting, count, count_slowly]))
    session.send("go")
    return session.state.total


def test_a_rehearsal_inside_an_event_loop_runs_them_too():
    assert asyncio.run(rehearse_in_a_loop()) == 5
