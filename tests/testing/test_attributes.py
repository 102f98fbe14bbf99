"""Attributes in a rehearsal: what a session is found by, told once, and the same after every replay."""

from datetime import UTC, datetime
from typing import Any

import pytest

from tests.processors.desk import Desk
from wakeful import Message, Turn, workflow
from wakeful.events import records as r
from wakeful.testing import Held, Misuse, rehearse


@workflow("found", version=1)
async def found(turn: Turn, desk: Desk, message: Message) -> Desk:
    """Sets what the message says, waits, and sets it again."""
    await turn.attributes(message.data)
    await turn.sleep("1h")
    await turn.attributes(message.data)
    return desk


def sets(session: Any) -> list[tuple[str, ...]]:
    return [body.changed for body in session.events if isinstance(body, r.AttributesSet)]


def test_given_an_open_session_when_its_turn_sets_attributes_then_it_is_found_by_them() -> None:
    session = rehearse(found, attributes={"customer": "ivo"})
    session.send({"order": 1009})
    assert session.attributes == {"customer": "ivo", "order": 1009}
    assert sets(session) == [("order",)]


def test_to_set_the_same_again_is_no_fact_in_this_turn_and_in_the_next() -> None:
    session = rehearse(found)
    for _ in range(2):
        session.send({"order": 1009, "open": True})
        session.skip("1h")
    assert sets(session) == [("open", "order")]
    assert session.status == "Suspended"


def test_a_replay_is_told_what_the_stretch_began_with() -> None:
    @workflow("changing", version=1)
    async def changing(turn: Turn, desk: Desk, message: Message) -> Desk:
        await turn.attributes({"state": "new"})
        await turn.sleep("1h")
        await turn.attributes({"state": "old", "since": datetime(2026, 12, 1, tzinfo=UTC)})
        await turn.sleep("1h")
        if message.text == "again" and desk.refunded_cents == 0:
            return turn.again(Desk(refunded_cents=1))
        await turn.attributes({"state": None})
        return desk

    session = rehearse(changing, always_replay=True)
    session.crash_everywhere()
    session.send("again")
    session.skip("4h")
    assert session.attributes == {"since": "2026-12-01T00:00:00Z"}
    assert sets(session) == [("state",), ("since", "state"), ("state",), ("state",), ("state",)]


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"customer": "x" * 129}, "turn.attributes: attribute 'customer' is 'xxx"),
        ({"the customer": "ivo"}, "turn.attributes: attribute name 'the customer' is not allowed"),
        ({"order": [1]}, "turn.attributes: attribute 'order' is [1]: use a text"),
        ({f"a{n}": n for n in range(9)}, "turn.attributes: 9 attributes"),
        ([("customer", "ivo")], "turn.attributes was given [['customer', 'ivo']]: give names"),
    ],
)
def test_what_cannot_be_holds_the_session_and_names_it(given: Any, told: str) -> None:
    session = rehearse(found)
    with pytest.raises(Held) as held:
        session.send(given)
    assert held.value.reason == "workflow_misuse"
    assert told in held.value.detail


def test_a_rehearsal_says_what_no_session_can_be_opened_with() -> None:
    with pytest.raises(Misuse, match="attribute 'order' is None"):
        rehearse(found, attributes={"order": None})


def test_attributes_outlive_the_session_that_ends() -> None:
    session = rehearse(found, attributes={"customer": "ivo"})
    session.cancel()
    assert session.attributes == {"customer": "ivo"}
