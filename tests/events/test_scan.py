"""Large records are walked before they are built, whichever of their branches they take."""

import json

import pytest
from tests.events.samples import ENVELOPE

from wakeful.events.codec import EVENTS, decode_state, encode_event, encode_state
from wakeful.events.limits import ITEMS_MAX
from wakeful.events.payloads import json_payload
from wakeful.events.records import Event, InboxTaken, Payload, TakenMessage
from wakeful.events.state import Head, QueuedMessage, QueuedSignal, SessionState, State

KEY = b"a tenant's digest key"


def large(size: int = 20_000) -> Payload:
    return json_payload("x" * size, KEY)


def states() -> list[State]:
    """Each spells the payload, or the queued message, out where the schema does not come by first."""
    return [
        State("desk", message=QueuedMessage("m1", "ann", large())),
        State("desk", signals=(QueuedSignal("c1", "paid", large()),)),
        State("desk", queue=(QueuedMessage("m1", "ann", large()),)),
        State("desk", data=large(), message=QueuedMessage("m1", "ann", large(2))),
    ]


def test_a_large_state_reads_back_whichever_part_of_it_is_large() -> None:
    for state in states():
        folded = SessionState(Head(seq=1), state)
        assert decode_state(encode_state(folded)) == folded


def test_a_large_state_is_larger_than_what_is_not_walked() -> None:
    assert all(len(encode_state(SessionState(Head(), state))) > 16 * 1024 for state in states())
    assert json.loads(large().inline or b"") == "x" * 20_000


def test_items_that_hold_payloads_count_for_two_with_writers_and_readers_alike() -> None:
    taken = TakenMessage("m", "a", json_payload(1, KEY))
    fits = Event(ENVELOPE, InboxTaken("1.1", (taken,) * (ITEMS_MAX // 2)))
    encoded = encode_event(fits)
    assert EVENTS.decode_body(encoded.body, encoded.fingerprint) == fits
    with pytest.raises(ValueError, match="items in the arrays of one record"):
        encode_event(Event(ENVELOPE, InboxTaken("1.1", (taken,) * (ITEMS_MAX // 2 + 1))))
