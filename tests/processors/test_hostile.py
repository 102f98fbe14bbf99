"""Whatever a stranger writes to the commands topic, the processor says what became of it and goes on."""

from dataclasses import replace
from typing import Any

import pytest

from tests.processors.desk import KEY, Hand, desk, find_order, kinds, refund
from tests.processors.loops import Cluster
from wakeful.commands.models import (
    CancelSession,
    CompleteActivity,
    FailActivity,
    OpenSession,
    SendMessage,
)
from wakeful.events import records as r
from wakeful.events.codec import encode_state
from wakeful.events.limits import SNAPSHOT_MAX
from wakeful.events.log.memory_faults import Fate, NoFaults
from wakeful.events.log.memory_group import MemoryGroup
from wakeful.events.payloads import json_payload
from wakeful.events.state import DEDUPE_MAX, SessionState
from wakeful.processors.simulation.workload import Broken

HELLO = json_payload({"text": "hello"}, KEY)
LONG = "\x01" * 200_000
"""Four times as long once it is quoted."""


@pytest.mark.parametrize(
    ("body", "command_id", "actor"),
    [
        (SendMessage(HELLO), LONG, "ann"),
        (SendMessage(HELLO), None, LONG),
        (SendMessage(replace(HELLO, inline=None, ref=LONG)), None, "ann"),
        (SendMessage(replace(HELLO, digest=LONG.encode())), None, "ann"),
        (OpenSession(LONG), None, "ann"),
        (CompleteActivity(LONG, 1, HELLO, "w1"), None, "worker:w1"),
        (FailActivity("1.1", 1, r.Failure("raised", "E", LONG, ""), "w1"), None, "worker:w1"),
        (CancelSession(LONG), None, "ann"),
    ],
    ids=["id", "actor", "ref", "digest", "workflow", "activity", "failure", "reason"],
)
@pytest.mark.parametrize("session_id", ["s1", "nobody"], ids=["known-session", "unknown-session"])
def test_a_text_too_long_to_be_copied_is_a_dead_letter(
    body: Any, command_id: str | None, actor: str, session_id: str
) -> None:
    cluster = Cluster()
    cluster.start()
    cluster.open()
    cluster.run()
    before = cluster.facts()
    cluster.send(body, session_id, command_id, actor)
    cluster.run()
    assert [letter.reason for letter in cluster.dead()] == ["text_too_long"]
    assert cluster.facts() == before


@pytest.mark.parametrize(
    "payload",
    [
        replace(HELLO, inline=b"{", size=1),
        replace(HELLO, inline=b"\xff\xfe\xfd", size=3),
        replace(HELLO, inline=b"[" * 100_000, size=100_000),
        replace(HELLO, size=3),
        replace(HELLO, encoding="xml"),
        replace(HELLO, inline=None, ref="s3://elsewhere"),
    ],
    ids=["cut", "no-text", "nested", "wrong-size", "other-encoding", "reference"],
)
def test_a_message_that_no_workflow_could_read_is_refused_and_holds_nobody(payload: Any) -> None:
    hand = Hand()
    hand.give(OpenSession("desk"))
    out = hand.give(SendMessage(payload))
    assert [(body.check, body.reason) for body in out] == [("freshness", "invalid_payload")]
    assert hand.session.state.hold is None
    assert "ActivityRequested" in kinds(hand.say("hello"))


@pytest.mark.parametrize(
    "activity_id", ["9" * 5_000 + ".1", "1." + "9" * 5_000, "1", "", "\u0661.\u0661"]
)
def test_an_activity_id_that_cannot_be_one_is_refused_and_holds_nobody(activity_id: str) -> None:
    hand = Hand()
    hand.open()
    out, refusal = hand.attempt(CompleteActivity(activity_id, 1, HELLO, "w1"))
    assert (out, refusal.reason) == ([], "unknown_activity")
    assert hand.session.state.hold is None


def test_commands_from_the_future_do_not_crowd_the_others_out_of_dedupe() -> None:
    hand = Hand()
    hand.give(OpenSession("desk"))
    for number in range(DEDUPE_MAX + 5):
        hand.give(SendMessage(HELLO), command_id=f"f{number}", issued_ms=2**62)
    sent_ms = hand.now_ms
    hand.now_ms += 1
    assert "MessageReceived" in kinds(hand.give(SendMessage(HELLO), command_id="m1"))
    late = hand.give(SendMessage(HELLO), command_id="m2", issued_ms=sent_ms)
    assert kinds(late) == ["MessageReceived"]


def test_the_senders_of_a_running_turn_act_for_nobody_else_whatever_they_are_called() -> None:
    hand = Hand()
    hand.open()
    hand.result("1.1", 50)
    asked = [s.event for s in hand.log if isinstance(s.event.body, r.ActivityRequested)]
    assert [event.envelope.on_behalf_of for event in asked] == ["ann", "ann"]
    hand = Hand()
    hand.give(OpenSession("desk"))
    hand.give(SendMessage(HELLO), actor="workflow")
    assert hand.log[-1].event.envelope.on_behalf_of == "workflow"


def test_what_the_clock_owes_does_not_hide_a_strangers_refusal() -> None:
    hand = Hand(workflow="sleeper")
    hand.open()
    hand.now_ms += 600_000
    out, refusal = hand.attempt(CompleteActivity("7.7", 1, HELLO, "w1"))
    assert (out, refusal.reason) == ([], "unknown_activity")
    assert kinds(hand.wake())[0] == "TimerFired"


def test_results_have_room_beside_a_flood_but_not_without_bound() -> None:
    hand = Hand()
    hand.open()
    good = hand.app
    hand.app = Broken("broken", good.workflows, good.activities)
    hand.handler = hand._handler()
    hand.session.drop()
    large = json_payload({"text": "x" * 200_000}, KEY)
    assert kinds(hand.result("1.1", 5)) == ["SessionHeld", "CommandParked"]
    flood = [kinds(hand.give(SendMessage(large)))[0] for _ in range(40)]
    assert flood[-1] == "CommandRefused"
    results = [kinds(hand.give(CompleteActivity("1.1", 1, large, "w1")))[0] for _ in range(40)]
    assert (results[0], results[-1]) == ("CommandParked", "CommandRefused")
    assert len(encode_state(SessionState(hand.session.head, hand.session.state))) < SNAPSHOT_MAX


def test_a_fault_before_a_session_is_open_is_a_refusal() -> None:
    hand = Hand()
    hand.app.workflows = None  # type: ignore[assignment]
    out, refusal = hand.attempt(OpenSession("desk"))
    assert (out, refusal.reason) == ([], "engine_fault")


def test_a_cancelled_session_that_did_not_fold_is_at_rest() -> None:
    hand = Hand(desk, find_order, refund)
    hand.open()
    hand.session.broken = "planted"
    assert kinds(hand.cancel())[-1] == "SessionCancelled"
    assert hand.session.at_rest


@pytest.mark.case("L4")
def test_a_batch_that_outlives_its_transaction_is_tried_again_in_smaller_parts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sizes: list[int] = []
    poll = MemoryGroup.poll

    def taken(self: MemoryGroup, records_max: int, timeout_ms: int) -> Any:
        records = poll(self, records_max, timeout_ms)
        sizes.append(len(records))
        return records

    class TooMuch(NoFaults):
        def on_commit(self, transactional_id: str) -> Fate:
            return Fate.FAILED if sizes[-1] > 10 else Fate.OK

    monkeypatch.setattr(MemoryGroup, "poll", taken)
    cluster = Cluster(faults=TooMuch())
    for number in range(30):
        cluster.send(OpenSession("desk"), f"s{number}")
    cluster.start(batch_records=64)
    cluster.run(200)
    assert [size for size in sizes if size][:4] == [30, 16, 4, 8]
    assert len(cluster.events()) == 30
