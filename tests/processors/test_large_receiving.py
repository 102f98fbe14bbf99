"""Signals, messages of the inbox, triggers, the next stretch's state and a verified outcome may be large, too."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel

from tests.processors.desk import KEY, kinds
from tests.processors.large import MB, Desk
from wakeful import Message, Read, Turn, activity, workflow
from wakeful.commands.models import OpenSession, SendMessage, SendSignal, StartTurn
from wakeful.events import records as r
from wakeful.events.blobs import put_payload, ref_of
from wakeful.events.payloads import keyed_digest


class Box(BaseModel):
    """What was received so far."""

    parts: list[str] = []


@activity(contract=Read())
async def holds(page: str) -> bool:
    """Whether it is as it should be."""
    return page.startswith("s")


@workflow("receiver", version=1)
async def receiver(turn: Turn, box: Box, message: Message) -> Box:
    """Takes a signal, then the inbox; goes again; ends with a verified outcome."""
    if not box.parts:
        part = await turn.signal("part", str)
        inbox = await turn.inbox()
        return turn.again(Box(parts=[part, *(m.text for m in inbox), message.text]))
    await turn.complete({"all": box.parts}, verify=holds.call(box.parts[0]))
    return box


def large(hand: Desk, value: Any) -> r.Payload:
    return put_payload(value, "acme", KEY, hand.blobs)


@pytest.mark.parametrize("always_replay", [False, True])
def test_a_signal_the_inbox_a_trigger_and_a_verified_outcome_go_by_reference(
    *, always_replay: bool
) -> None:
    hand = Desk(receiver, holds, workflow="receiver", always_replay=always_replay)
    hand.give(OpenSession("receiver"))
    hand.give(StartTurn("webhook", "", large(hand, {"text": "t" * MB})))
    hand.say("m" * MB)
    out = hand.give(SendSignal("part", large(hand, "s" * MB)))
    assert kinds(out)[1:] == [
        "SignalDelivered", "InboxAwaited", "InboxTaken", "TurnContinued", "ActivityRequested",
    ]  # fmt: skip
    hand.evict()
    assert kinds(hand.work())[-1] == "SessionCompleted"
    ended = hand.last(r.SessionCompleted)
    assert ended.verified_by == "holds"
    assert hand.value(ended.outcome) == {"all": ["s" * MB, "m" * MB, "t" * MB]}
    assert all(len(stamped.encoded.value) < 20_000 for stamped in hand.log)


def test_a_signal_whose_blob_is_gone_holds_the_session_until_it_is_back() -> None:
    hand = Desk(receiver, holds, workflow="receiver")
    hand.give(OpenSession("receiver"))
    hand.say("x")
    payload = large(hand, "s" * MB)
    data = hand.lose(payload)
    held = hand.give(SendSignal("part", payload))[-1]
    assert (held.reason, payload.ref in held.detail) == ("payload_missing", True)
    hand.blobs.held[payload.ref] = data
    assert kinds(hand.release())[1:4] == ["InboxAwaited", "InboxTaken", "TurnContinued"]


def test_a_message_of_the_inbox_that_is_no_json_holds_the_session() -> None:
    hand = Desk(receiver, holds, workflow="receiver")
    hand.give(OpenSession("receiver"))
    hand.say("x")
    data = b"[" + b"x" * MB
    digest = keyed_digest(data, KEY)
    payload = r.Payload("json", None, ref_of("acme", digest), digest, len(data), None)
    hand.blobs.put(payload.ref, data)
    hand.give(SendMessage(payload))
    held = hand.give(SendSignal("part", large(hand, "s")))[-1]
    assert (held.reason, "is not json" in held.detail) == ("payload_damaged", True)
