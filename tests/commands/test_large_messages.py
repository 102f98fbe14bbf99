"""A client stores what is too large for a record before it sends it, and loads what it is told by reference."""

import pytest

from wakeful.commands.client import Client
from wakeful.commands.models import SendMessage
from wakeful.events.blobs import MemoryBlobs
from wakeful.events.errors import BlobDamaged, BlobMissing, BlobUnavailable, PayloadTooLarge
from wakeful.events.limits import COMMAND_MAX, PAYLOAD_MAX
from wakeful.events.log.memory import MemoryLog
from wakeful.events.topics import Topics

TOPICS = Topics("desk")
BIG = {"text": "m" * PAYLOAD_MAX}


def client(blobs: MemoryBlobs | None) -> tuple[Client, MemoryLog]:
    log = MemoryLog(now_ms=lambda: 5_000)
    log.create_topics(TOPICS.specs(["default"], 1))
    made = Client(
        log,
        TOPICS,
        tenant="acme",
        actor="ann",
        channel="test",
        digest_key=b"k",
        blobs=blobs,
        now_ms=lambda: 5_000,
    )
    return made, log


def test_a_large_message_is_stored_and_a_reference_is_sent() -> None:
    store = MemoryBlobs()
    ann, log = client(store)
    with ann:
        ann.send("s1", "m" * 5_000_000)
        body = ann.message("m" * 5_000_000)
    assert isinstance(body, SendMessage)
    assert list(store.held) == [body.message.ref]
    (sent,) = log.dump(TOPICS.commands)
    assert len(sent.value) < 1_000 < COMMAND_MAX


def test_without_a_store_nothing_is_sent_and_the_error_names_the_setting() -> None:
    ann, log = client(None)
    with ann, pytest.raises(PayloadTooLarge, match=r"the message is .* set WAKEFUL_BLOBS"):
        ann.send("s1", BIG)
    assert log.dump(TOPICS.commands) == []


def test_nothing_is_sent_where_the_store_is_away() -> None:
    class Away(MemoryBlobs):
        def put(self, ref: str, data: bytes) -> None:
            raise BlobUnavailable("away")

    ann, log = client(Away())
    with ann, pytest.raises(BlobUnavailable):
        ann.send("s1", BIG)
    assert log.dump(TOPICS.commands) == []


def test_a_payload_is_loaded_whichever_way_it_came_and_proved() -> None:
    store = MemoryBlobs()
    ann, _ = client(store)
    with ann:
        large, small = ann.payload(BIG), ann.payload({"a": 1})
        assert (large.inline, small.ref) == (None, None)
        assert (ann.load(large), ann.load(small)) == (BIG, {"a": 1})
        data = store.held.pop(large.ref)
        with pytest.raises(BlobMissing):
            ann.load(large)
        store.held[large.ref] = data.replace(b"m", b"n")
        with pytest.raises(BlobDamaged):
            ann.load(large)


def test_data_of_signals_and_triggers_goes_the_same_way() -> None:
    store = MemoryBlobs()
    ann, log = client(store)
    with ann:
        ann.signal("s1", "part", BIG)
        ann.start_turn("s1", "webhook", data=BIG)
        ann.resolve("s1", "1.1", "completed", BIG)
    assert len(store.held) == 1
    assert [len(sent.value) < 1_000 for sent in log.dump(TOPICS.commands)] == [True] * 3
