"""Where the audit is given the store, it looks at what the history refers to; without, it does not ask for it."""

import pytest
from tests.processors.desk import KEY
from tests.processors.large import MB, Desk

from wakeful.events import records as r
from wakeful.events.blobs import MemoryBlobs
from wakeful.events.errors import BlobUnavailable
from wakeful.events.headers import event_headers
from wakeful.events.keys import partition_of, session_key
from wakeful.events.log.protocol import Record
from wakeful.events.topics import Topics
from wakeful.projections import escaping
from wakeful.projections.audit import Evidence, audit

TOPICS = Topics("desk")
ALL = session_key("acme", "s1")


def evidence(hand: Desk) -> Evidence:
    """The events of a session, as they lie in the log."""
    records = [
        Record(
            TOPICS.events,
            partition_of(ALL, 1),
            offset,
            stamped.event.envelope.at_ms,
            ALL,
            stamped.encoded.value,
            event_headers(stamped.encoded, ALL, stamped.event.envelope.seq, None),
        )
        for offset, stamped in enumerate(hand.log)
    ]
    return Evidence(TOPICS, 1, events=records)


@pytest.fixture
def hand() -> Desk:
    made = Desk()
    made.open("m" * MB)
    made.work()
    return made


def about_blobs(hand: Desk, blobs: MemoryBlobs | None) -> list[str]:
    found = audit(evidence(hand), blobs=blobs, digest_key=KEY)
    return [str(violation) for violation in found if violation.invariant == "blobs"]


def test_41_a_store_that_has_all_is_no_finding(hand: Desk) -> None:
    assert about_blobs(hand, hand.blobs) == []


def test_41_a_blob_that_is_gone_or_damaged_is_found_where_it_is_referred_to_first(
    hand: Desk,
) -> None:
    message = hand.last(r.MessageReceived).message
    state = hand.last(r.TurnCompleted).state
    hand.lose(message)
    hand.blobs.held[state.ref] = b"x" * state.size
    assert about_blobs(hand, None) == []
    gone, damaged = about_blobs(hand, hand.blobs)
    assert (
        gone
        == f"blobs acme/s1 at offset 1: MessageReceived: blob {message.ref} is not in the store: put it back"
    )
    assert f"TurnCompleted: blob {state.ref} does not have the bytes" in damaged


def test_41_a_store_that_does_not_answer_is_no_finding_but_an_error(hand: Desk) -> None:
    hand.blobs.away = True
    with pytest.raises(BlobUnavailable):
        about_blobs(hand, hand.blobs)


def test_the_views_show_where_a_large_payload_lies_and_never_its_body(hand: Desk) -> None:
    payload = hand.last(r.ReplySent).message
    shown = escaping.payload(payload).value
    assert payload.ref in shown
    assert str(payload.size) in shown
    assert len(shown) < 500
