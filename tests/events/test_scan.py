"""Large records are walked before they are built, whichever of their branches they take."""

import json

from wakeful.events.codec import decode_state, encode_state
from wakeful.events.payloads import json_payload
from wakeful.events.records import Payload
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
