"""What is over 256 KiB goes by reference and is a real value to every workflow; what cannot be had holds its session."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.processors.desk import KEY, kinds
from tests.processors.large import MB, Desk, Kept, same
from wakeful import Message, Turn, workflow
from wakeful.commands.check import Facts
from wakeful.commands.models import (
    Command,
    CommandHeader,
    CompleteActivity,
    OpenSession,
    ResolveActivity,
    SendMessage,
)
from wakeful.events import blobs as rules
from wakeful.events import records as r
from wakeful.events.blobs import MemoryBlobs, payloads_in, put_payload, ref_of
from wakeful.events.errors import BlobUnavailable
from wakeful.events.limits import EVENT_MAX, PAYLOAD_MAX
from wakeful.events.payloads import json_payload, keyed_digest
from wakeful.events.state import State, Uncertain
from wakeful.processors.fitting import fitting
from wakeful.processors.handler import CommandHandler


@pytest.fixture(params=[False, True], ids=["live", "always-replay"])
def hand(request: pytest.FixtureRequest) -> Desk:
    return Desk(always_replay=request.param)


@pytest.mark.case("U12")
def test_everything_large_goes_by_reference_and_the_workflow_sees_values(hand: Desk) -> None:
    hand.open("m" * 5 * MB)
    assert kinds(hand.work()) == ["ActivityCompleted", "ReplySent", "TurnCompleted"]
    hand.evict()
    hand.say("again", last=True)
    hand.work()
    first, second = (s.event.body for s in hand.log if isinstance(s.event.body, r.ReplySent))
    assert hand.value(first.message) == {"seen": 5 * MB, "had": 0, "page": "r" * MB}
    assert hand.value(second.message) == {"seen": 5, "had": MB, "page": "r" * MB}
    ended = hand.last(r.SessionCompleted)
    assert hand.value(ended.outcome) == {"all": "r" * 2 * MB}
    assert hand.value(ended.state) == {"text": "r" * 2 * MB}
    large = [p for s in hand.log for p in payloads_in(s.event.body) if p.size > PAYLOAD_MAX]
    assert len(large) >= 7
    assert all(p.inline is None and p.ref in hand.blobs.held for p in large)
    assert all(len(s.encoded.value) < 20_000 < EVENT_MAX for s in hand.log)


def test_large_arguments_are_approved_by_the_digest_of_their_bytes(hand: Desk) -> None:
    hand.open("x", publish=True)
    hand.work()
    asked = hand.last(r.ApprovalRequested)
    assert asked.arguments.ref in hand.blobs.held
    hand.decide()
    requested = hand.last(r.ActivityRequested)
    assert (requested.name, requested.digest, requested.approval) == (
        "publish", asked.digest, "granted",
    )  # fmt: skip
    assert kinds(hand.work())[-1] == "TurnCompleted"
    said = [s.event.body for s in hand.log if isinstance(s.event.body, r.ReplySent)]
    assert hand.value(said[-1].message) == {"text": f"published {MB}"}


@workflow("echo", version=1)
async def echo(turn: Turn, state: Kept, message: Message) -> Kept:
    """Says what it sees."""
    result = await turn.run(same.call(message.data))
    await turn.say({"message": message.data, "result": result, "state": state.value})
    return Kept(value=[message.data, result])


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


def echoed(value: Any, limit: int) -> list[Any]:
    """What two turns see of the value, as message, result and state, and the digests that are recorded."""
    hand = Desk(echo, same, workflow="echo", always_replay=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rules, "INLINE_MAX", limit)
        hand.give(OpenSession("echo"))
        for _ in range(2):
            hand.give(SendMessage(put_payload(value, "acme", KEY, hand.blobs)))
            hand.work()
    digests = [p.digest for s in hand.log for p in payloads_in(s.event.body)]
    said = [s.event.body.message for s in hand.log if isinstance(s.event.body, r.ReplySent)]
    assert len(said) == 2
    return [digests, *(hand.value(message) for message in said)]


@settings(max_examples=40, deadline=None)
@given(value=JSON, limit=st.integers(2, 60))
def test_a_workflow_sees_the_same_of_any_value_whether_inline_or_by_reference(
    value: Any, limit: int
) -> None:
    assert echoed(value, limit) == echoed(value, PAYLOAD_MAX)


def test_a_replay_puts_nothing_that_its_history_holds() -> None:
    hand = Desk()
    hand.open("x", publish=True)
    hand.work()
    puts = len(hand.blobs.puts)
    hand.evict()
    hand.decide()
    assert hand.blobs.puts[puts:] == []  # the arguments are those that were proposed
    hand.evict()
    hand.work()
    assert len(hand.blobs.puts) == puts + 1  # the state at the end


@pytest.mark.parametrize("what", ["message", "result", "state"])
def test_a_blob_that_is_gone_holds_its_session_and_a_release_goes_on_once_it_is_back(
    hand: Desk, what: str
) -> None:
    hand.open("m" * MB)
    hand.work()
    if what == "state":
        payload = hand.last(r.TurnCompleted).state
        data = hand.lose(payload)
        hand.evict()
        out = hand.say("second")
    elif what == "message":
        payload = put_payload({"text": "n" * MB}, "acme", KEY, hand.blobs)
        data = hand.lose(payload)
        out = hand.give(SendMessage(payload))
    else:
        hand.say("second", size=MB + 1)
        payload = put_payload("r" * (MB + 1), "acme", KEY, hand.blobs)
        data = hand.lose(payload)
        out = hand.give(CompleteActivity("2.1", 1, payload, "w1"))
    held = out[-1]
    assert isinstance(held, r.SessionHeld)
    assert held.reason == "payload_missing"
    assert held.detail == f"blob {payload.ref} is not in the store: put it back, then release"
    again = hand.release()
    assert kinds(again) == ["SessionReleased", "SessionHeld"]
    hand.evict()
    hand.blobs.held[payload.ref] = data
    assert "SessionHeld" not in kinds(hand.release())
    if what != "result":
        hand.work()
    assert hand.session.state.turn == 2
    assert hand.session.state.status == "Suspended"


def test_a_blob_that_is_gone_in_the_middle_of_a_history_is_no_divergence() -> None:
    hand = Desk()
    hand.open("x", publish=True)
    hand.work()
    data = hand.lose(hand.last(r.ActivityCompleted).result)
    hand.evict()
    ref = hand.last(r.ActivityCompleted).result.ref
    hand.blobs.held.pop(ref, None)
    out = hand.decide()
    assert kinds(out) == ["ApprovalGranted", "SessionHeld"]
    assert out[-1].reason == "payload_missing"
    hand.blobs.held[ref] = data
    assert kinds(hand.release()) == ["SessionReleased", "ActivityRequested"]
    assert kinds(hand.work())[-1] == "TurnCompleted"


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        (lambda data: data[:-1] + b"!", "does not have the bytes that its digest was made of"),
        (lambda data: data[:-1], "the record says"),
    ],
    ids=["bytes", "size"],
)
def test_damaged_bytes_hold_the_session_before_the_workflow_sees_them(
    hand: Desk, damage: Any, told: str
) -> None:
    hand.open("m" * MB)
    hand.work()
    payload = hand.last(r.TurnCompleted).state
    good = hand.blobs.held[payload.ref]
    hand.blobs.held[payload.ref] = damage(good)
    hand.evict()
    held = hand.say("second")[-1]
    assert (held.reason, held.detail.endswith(": restore it, then release")) == (
        "payload_damaged", True,
    )  # fmt: skip
    assert payload.ref in held.detail
    assert told in held.detail
    hand.blobs.held[payload.ref] = good
    assert kinds(hand.release())[-1] == "ActivityRequested"


def test_a_store_that_is_away_holds_the_session_at_a_read_and_at_a_write(hand: Desk) -> None:
    hand.open("m" * MB)
    hand.blobs.away = True
    result = put_payload("r" * MB, "acme", KEY, MemoryBlobs())
    out = hand.give(CompleteActivity("1.1", 1, result, "w1"))
    assert kinds(out) == ["ActivityCompleted", "SessionHeld"]
    assert out[-1].reason == "payload_unavailable"
    hand.blobs.away = False
    hand.blobs.held[result.ref] = b'"' + b"r" * MB + b'"'
    assert kinds(hand.release())[-1] == "TurnCompleted"
    # And where only the write fails:
    hand.say("second", size=PAYLOAD_MAX - 100)
    hand.evict()
    small = json_payload("r" * (PAYLOAD_MAX - 100), KEY)
    hand.blobs.put = _away  # type: ignore[method-assign]
    out = hand.give(CompleteActivity("2.1", 1, small, "w1"))
    assert kinds(out) == [
        "ActivityCompleted",
        "SessionHeld",
    ]  # nothing of the turn's end is half there
    assert (out[-1].reason, out[-1].detail) == (
        "payload_unavailable",
        "no room, then release",
    )
    del hand.blobs.put
    assert kinds(hand.release())[-2:] == ["ReplySent", "TurnCompleted"]


def _away(ref: str, data: bytes) -> None:
    raise BlobUnavailable("no room")


def test_what_happens_to_one_session_is_told_in_its_outcome_and_others_go_on(hand: Desk) -> None:
    hand.open("m" * MB)
    hand.work()
    hand.blobs.held.clear()
    hand.evict()
    assert hand.say("second")[-1].reason == "payload_missing"
    other = Desk()
    other.blobs = hand.blobs
    other.handler = other._handler()
    other.open("m" * MB)
    assert kinds(other.work())[-1] == "TurnCompleted"


def test_a_reference_to_another_tenants_data_is_refused_without_an_event(hand: Desk) -> None:
    hand.open("x")
    theirs = put_payload("secret" * MB, "globex", KEY, hand.blobs)
    for body in (SendMessage(theirs), CompleteActivity("1.1", 1, theirs, "w1")):
        out, refusal = hand.attempt(body)
        assert (out, refusal.check, refusal.reason) == ([], "scope", "foreign_payload")
    assert hand.blobs.gets == []


def test_a_reference_under_a_name_of_its_own_is_refused_and_holds_nobody(hand: Desk) -> None:
    hand.open("x")
    payload = put_payload("m" * MB, "acme", KEY, hand.blobs)
    for strange in (
        replace(payload, digest=b"\1" * 32),
        replace(payload, size=1 << 40),
        replace(payload, inline=b"1"),
        replace(payload, ref="acme/../../etc/passwd"),
    ):
        (refused,) = hand.give(SendMessage(strange))
        assert (refused.reason, hand.session.state.hold) == ("invalid_payload", None)
    assert hand.blobs.gets == []


def test_a_message_whose_blob_is_no_json_holds_its_session(hand: Desk) -> None:
    data = b"{" + b"x" * MB
    digest = keyed_digest(data, KEY)
    payload = r.Payload("json", None, ref_of("acme", digest), digest, len(data), None)
    hand.blobs.put(payload.ref, data)
    hand.give(OpenSession("pile"))
    held = hand.give(SendMessage(payload))[-1]
    assert (held.reason, "is not json" in held.detail) == ("payload_damaged", True)
    assert kinds(hand.cancel())[-1] == "SessionCancelled"


def test_without_a_store_what_is_large_holds_the_session_with_the_settings_name() -> None:
    hand = Desk()
    hand.handler = CommandHandler(hand.app, Facts(KEY))
    hand.open("x", size=PAYLOAD_MAX - 10)
    out = hand.result("1.1", "r" * (PAYLOAD_MAX - 10))
    assert kinds(out) == ["ActivityCompleted", "SessionHeld"]
    assert "set WAKEFUL_BLOBS" in out[-1].detail


def test_a_result_that_a_person_gives_may_be_large_and_must_fit_and_be_there() -> None:
    hand = Desk()
    state = State("pile", uncertain=(Uncertain("1.1", 1, "fetch_page", 1, "cut off"),))
    header = CommandHeader("acme", "s1", "c1", 0, "op", None, "test", None)

    facts = Facts(KEY, blobs=hand.blobs)

    def given(value: Any, *, lose: bool = False) -> r.EventBody:
        payload = put_payload(value, "acme", KEY, hand.blobs)
        if lose:
            hand.lose(payload)
        command = Command(header, ResolveActivity("1.1", "completed", payload, "seen"))
        resolved = r.ActivityResolved("1.1", 1, "completed", payload, "seen")
        (decided,) = fitting(state, command, [resolved], hand.app, facts)
        return decided

    assert isinstance(given("r" * MB), r.ActivityResolved)
    assert given(["r" * MB]).reason == "wrong_result"
    gone = given("q" * MB, lose=True)
    assert (gone.reason, "put it there, then resolve again" in gone.detail) == (
        "payload_missing", True,
    )  # fmt: skip
