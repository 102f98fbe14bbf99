"""Retries in a rehearsal: each attempt is one call, and time passes by `skip` alone."""

import pytest

from tests.processors.desk import Desk
from wakeful import ActivityError, Message, Read, Retry, RetryLater, Turn, activity, workflow
from wakeful.testing import rehearse


@activity(contract=Read(), retry=Retry(attempts=3, initial="10s", never=("KeyError",)))
async def ask(text: str) -> int:
    """Never runs here."""
    raise NotImplementedError


@workflow("asker", version=1)
async def asker(turn: Turn, desk: Desk, message: Message) -> Desk:
    """One call, and what came of it."""
    try:
        await turn.say(f"{await turn.run(ask.call(message.text))}")
    except ActivityError as error:
        await turn.say(error.failure.type)
    return desk


@pytest.mark.parametrize("crashes", [False, True], ids=["calm", "crashes everywhere"])
def test_a_failed_call_is_made_again_when_time_has_passed(crashes: bool) -> None:
    session = rehearse(asker, activities={"ask": [OSError("down"), OSError("down"), 7]})
    if crashes:
        session.crash_everywhere()
    session.send("a")
    assert session.waits[0].expiry == "runs as attempt 2 of 3"
    session.skip("10s")
    assert session.waits[0].expiry == "runs as attempt 3 of 3"
    session.skip("20s")
    assert session.replies == ["7"]
    assert len({call.key for call in session.calls("ask")}) == 1
    assert session.facts.count("ActivityRetried") == 2


def test_the_last_failure_is_what_the_workflow_sees() -> None:
    session = rehearse(asker, activities={"ask": OSError("down")})
    session.send("a")
    session.skip("1h")
    assert session.replies == ["OSError"]
    assert len(session.calls("ask")) == 3


def test_what_is_never_retried_is_seen_at_once() -> None:
    session = rehearse(asker, activities={"ask": KeyError})
    session.send("a")
    assert session.replies == ["KeyError"]


def test_the_time_that_a_tool_asks_for_is_waited_for() -> None:
    session = rehearse(asker, activities={"ask": [RetryLater("5m"), 7]})
    session.send("a")
    session.skip("299s")
    assert session.replies == []
    session.skip("5s")
    assert session.replies == ["7"]
