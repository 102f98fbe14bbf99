"""What a history holds, read from a session's events alone, as they come back out of their bytes."""

from __future__ import annotations

from typing import TypeVar

import pytest

from tests.processors.desk import START_MS, Desk, Hand, find_order, refund
from wakeful import Message, Turn, Write, activity, workflow
from wakeful.events import records as r
from wakeful.events.codec import decode_event

T = TypeVar("T")
HOUR_MS = 3_600_000
VERSIONS = {"prompt": "7", "model": "m-2", "refund": "2026-11"}


@workflow("kept", version=3, versions=VERSIONS)
async def kept(turn: Turn, desk: Desk, message: Message) -> Desk:
    """Relies on a price list, asks, pays, and rests."""
    await turn.artifact("prices", "v9")
    action = refund.call(await turn.run(find_order.call(message.text)))
    if (await turn.approval(action)).granted:
        await turn.say(await turn.run(action))
    return desk


@pytest.fixture
def events() -> list[r.Event]:
    """All that was written of one session."""
    hand = Hand(kept, find_order, refund, workflow="kept")
    hand.open("broken")
    hand.result("1.2", 500)
    hand.decide(actor="sue")
    hand.result(hand.last(r.ActivityRequested).activity_id, "receipt")
    return [decode_event(one.encoded.value, ()) for one in hand.log]


def of(events: list[r.Event], kind: type[T]) -> list[T]:
    return [event.body for event in events if isinstance(event.body, kind)]


def test_events_are_in_one_order_and_each_names_the_one_before_it(events: list[r.Event]) -> None:
    assert [event.envelope.seq for event in events] == list(range(1, len(events) + 1))
    assert len({event.envelope.prev_hash for event in events}) == len(events)


def test_each_turn_says_on_which_versions_it_ran_and_each_attempt_by_which_policies(
    events: list[r.Event],
) -> None:
    (turn,) = of(events, r.TurnStarted)
    named = {one.name: one.version for one in turn.versions}
    assert named == {"workflow": "kept:3", **VERSIONS}
    (granted,) = of(events, r.ApprovalGranted)
    assert granted.policy_ids


def test_each_call_says_its_key_before_it_is_made_and_its_result_after_it(
    events: list[r.Event],
) -> None:
    asked = of(events, r.ActivityRequested)
    done = {one.activity_id: one.result.inline for one in of(events, r.ActivityCompleted)}
    assert [(one.name, one.idempotency_key) for one in asked] == [
        ("find_order", "acme/s1/1/2"),
        ("refund", f"acme/s1/{asked[1].activity_id.replace('.', '/')}"),
    ]
    assert done == {asked[0].activity_id: b"500", asked[1].activity_id: b'"receipt"'}


def test_each_event_says_who_for_whom_where_from_and_whose_and_which_artifact_was_relied_on(
    events: list[r.Event],
) -> None:
    said = {(e.envelope.tenant, e.envelope.session_id) for e in events}
    assert said == {("acme", "s1")}
    actors = {type(e.body).__name__: e.envelope.actor for e in events}
    assert actors["MessageReceived"] == "ann"
    assert actors["ApprovalGranted"] == "sue"
    assert {e.envelope.channel for e in events} == {"test"}
    (relied,) = of(events, r.ArtifactRecorded)
    assert (relied.artifact_id, relied.version) == ("prices", "v9")


def test_where_it_parks_it_says_what_is_open_until_when_and_what_may_come(
    events: list[r.Event],
) -> None:
    (parked,) = of(events, r.SessionWaiting)
    (owed,) = parked.obligations
    assert (owed.kind, owed.expiry) == ("approval", "expires")
    assert owed.expires_at_ms == START_MS + HOUR_MS
    (rests,) = of(events, r.TurnCompleted)
    for ended, decides in ((parked, True), (rests, False)):
        allowed = {one.command: one.allowed for one in ended.next_valid}
        assert allowed["SendMessage"]
        assert allowed["DecideApproval"] is decides
        assert all(one.reason for one in ended.next_valid if not one.allowed)


@activity(contract=Write(), schedule_to_close="10m")
async def wire(cents: int) -> str:
    """Must not run twice."""
    return f"wired {cents}"


@workflow("wires", version=1)
async def wires(turn: Turn, desk: Desk, message: Message) -> Desk:
    """Reads, and then pays without an end to it."""
    await turn.run(find_order.call("x"))
    await turn.gather(turn.run(wire.call(5)), turn.run(refund.call(5)), turn.sleep("1h"))
    return desk


def test_a_cancelled_session_says_at_its_end_what_was_done_and_what_may_have_been() -> None:
    hand = Hand(wires, find_order, refund, wire, workflow="wires")
    hand.open()
    hand.result("1.1", 3)
    out = hand.cancel()
    withdrawn = [one.activity_id for one in out if isinstance(one, r.ActivityCancelled)]
    assert withdrawn == ["1.2", "1.3"]
    assert out[-1] == r.SessionCancelled(("1.1",), (), ("1.2", "1.3"))
    assert hand.session.state.timers == ()
