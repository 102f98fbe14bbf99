"""Records to bytes and back: exact, bounded, and by the schema that wrote them."""

import dataclasses
import io
import json
from typing import Any

import fastavro
import pytest
from avro.io import BinaryDecoder, DatumReader
from avro.schema import parse
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from wakeful.commands.models import (
    Command,
    CommandHeader,
    DecideApproval,
    SendMessage,
)
from wakeful.commands.wire import COMMANDS
from wakeful.events.codec import (
    EVENTS,
    TASKS,
    Encoded,
    Undecodable,
    decode_event,
    decode_state,
    encode_event,
    encode_state,
    read_event,
)
from wakeful.events.errors import PayloadTooLarge
from wakeful.events.headers import FINGERPRINT
from wakeful.events.limits import EVENT_MAX, ITEMS_MAX, PAYLOAD_MAX
from wakeful.events.records import (
    ActivityTask,
    ApprovalGranted,
    ApprovalRejected,
    Event,
    MessageReceived,
    NextValid,
    SessionCancelled,
    SessionOpened,
    SessionWaiting,
    TimerFired,
    TurnStarted,
    Version,
)
from wakeful.events.state import Head, SessionState, State
from wakeful.schemas import bundled

from .samples import (
    CLASSES,
    ENVELOPE,
    EVENT,
    PAYLOAD,
    plain,
    reason,
    schema_of,
    whole,
)


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
@given(data=st.data())
@settings(max_examples=10, suppress_health_check=list(HealthCheck), deadline=None)
def test_every_record_comes_back_as_it_was(cls: type, data: st.DataObject) -> None:
    codec, strategy = whole(cls)
    record = data.draw(strategy)
    encoded = codec.encode(record)
    assert codec.decode(encoded.value, encoded.fingerprint) == record
    assert codec.decode(encoded.value, None) == record
    assert codec.decode_body(encoded.body, encoded.fingerprint) == record
    assert encoded.value[5:] == encoded.body


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
@given(data=st.data())
@settings(max_examples=6, suppress_health_check=list(HealthCheck), deadline=None)
def test_other_avro_libraries_write_and_read_the_same_bytes(cls: type, data: st.DataObject) -> None:
    codec, strategy = whole(cls)
    record = data.draw(strategy)
    body = codec.encode(record).body
    schema = schema_of(cls)
    assert fastavro.schemaless_reader(io.BytesIO(body), schema, None) == plain(record)
    out = io.BytesIO()
    fastavro.schemaless_writer(out, schema, plain(record))
    assert out.getvalue() == body
    reference = DatumReader(parse(json.dumps(schema)))
    assert reference.read(BinaryDecoder(io.BytesIO(body))) == plain(record)


def test_encoding_says_what_it_made() -> None:
    encoded = encode_event(EVENT)
    version = bundled().current("wakeful.v1.ActivityCompleted")
    assert encoded == Encoded(
        version.fingerprint, encoded.body, encoded.value, "wakeful.v1.ActivityCompleted"
    )
    assert encoded.value[:5] == b"\0" + version.id.to_bytes(4, "big")
    assert decode_event(encoded.value, [(FINGERPRINT, encoded.fingerprint)]) == EVENT
    assert read_event(encoded.value, None) == (EVENT, encoded)


BAD_TYPES: list[tuple[str, Any, str]] = [
    ("attempt", 5.9, "ActivityCompleted.attempt: expected int, got 5.9 (float)"),
    ("attempt", True, "ActivityCompleted.attempt: expected int, got True (bool)"),
    ("attempt", "1", "ActivityCompleted.attempt: expected int, got '1' (str)"),
    ("attempt", None, "ActivityCompleted.attempt: expected int, got None (NoneType)"),
    ("worker", b"w", "ActivityCompleted.worker: expected str, got b'w' (bytes)"),
    ("worker", 7, "ActivityCompleted.worker: expected str, got 7 (int)"),
    ("result", None, "ActivityCompleted.result: expected Payload, got None (NoneType)"),
    ("result", {"encoding": "json"}, "ActivityCompleted.result: expected Payload, got {"),
    (
        "result",
        dataclasses.replace(PAYLOAD, inline="text"),  # type: ignore[arg-type]
        "ActivityCompleted.result.inline: expected bytes, got 'text' (str)",
    ),
    (
        "result",
        dataclasses.replace(PAYLOAD, digest=bytearray(32)),
        "ActivityCompleted.result.digest: expected bytes, got bytearray",
    ),
]


@pytest.mark.parametrize(("name", "value", "said"), BAD_TYPES)
def test_a_value_of_another_type_is_refused_by_field_and_value(
    name: str, value: Any, said: str
) -> None:
    body = dataclasses.replace(EVENT.body, **{name: value})  # type: ignore[arg-type]
    with pytest.raises(TypeError) as refused:
        encode_event(Event(ENVELOPE, body))
    assert str(refused.value).startswith(said)


def test_the_envelope_is_checked_like_the_body() -> None:
    for change, said in (
        ({"seq": 1.0}, "Envelope.seq: expected int, got 1.0 (float)"),
        ({"cause": None}, "Envelope.cause: expected Cause, got None"),
        ({"actor": None}, "Envelope.actor: expected str, got None"),
    ):
        with pytest.raises(TypeError) as refused:
            encode_event(Event(dataclasses.replace(ENVELOPE, **change), EVENT.body))
        assert str(refused.value).startswith(said)


@pytest.mark.parametrize("value", [2**63, -(2**63) - 1, 2**64, -(2**64), 10**40])
def test_an_integer_over_64_bits_is_refused_by_field_and_value(value: int) -> None:
    with pytest.raises(ValueError, match="due_ms: expected an integer of 64 bits, got"):
        encode_event(Event(ENVELOPE, TimerFired("t", value)))


@pytest.mark.parametrize("value", [2**63 - 1, -(2**63), 0, -1, 63, 64, -64, -65])
def test_every_integer_of_64_bits_survives(value: int) -> None:
    encoded = encode_event(Event(ENVELOPE, TimerFired("t", value)))
    assert decode_event(encoded.value, None).body == TimerFired("t", value)


def test_a_lone_surrogate_is_refused_by_field_wherever_it_stands() -> None:
    for event, said in (
        (Event(ENVELOPE, SessionOpened("a\ud800")), r"SessionOpened.workflow.*'a\\ud800'"),
        (Event(dataclasses.replace(ENVELOPE, actor="\udfff"), EVENT.body), "Envelope.actor"),
        (Event(ENVELOPE, SessionCancelled((), ("\ud800",), ())), "SessionCancelled.undone"),
        (
            Event(ENVELOPE, TurnStarted(1, "m", "", None, "w", 1, (Version("v", "\ud800"),))),
            "TurnStarted.versions.version",
        ),
    ):
        with pytest.raises(ValueError, match=said):
            encode_event(event)


ALLOWED = r"(NextValid|SessionWaiting\.next_valid\[0\])\.allowed: expected bool"
"""By its record where an event of this kind was written before, and by its path in the first one."""


def test_items_of_arrays_are_checked_one_by_one() -> None:
    for body, said in (
        (SessionCancelled(["a"], (), ()), "SessionCancelled.done: expected a tuple, got"),  # type: ignore[arg-type]
        (SessionCancelled(("a", 1), (), ()), r"expected str, got"),  # type: ignore[arg-type]
        (SessionWaiting(1, (), (NextValid("c", 1, ""),)), ALLOWED),  # type: ignore[arg-type]
        (SessionWaiting(1, (PAYLOAD,), ()), "expected Obligation, got"),  # type: ignore[arg-type]
    ):
        encode_event(Event(ENVELOPE, SessionCancelled(("a", "b"), (), ())))  # the plan is known
        with pytest.raises(TypeError, match=said):
            encode_event(Event(ENVELOPE, body))


@pytest.mark.case("L22")
def test_a_missing_field_is_refused_and_never_null() -> None:
    header = object.__new__(CommandHeader)
    for name in ("tenant", "session_id", "command_id", "actor", "channel"):
        object.__setattr__(header, name, "x")
    object.__setattr__(header, "issued_at_ms", 1)
    object.__setattr__(header, "expected_seq", None)
    with pytest.raises(TypeError, match="on_behalf_of: missing"):
        COMMANDS.encode(Command(header, SendMessage(PAYLOAD)))


@pytest.mark.case("L22")
def test_a_dictionary_or_a_stranger_is_never_taken_for_a_record() -> None:
    for record in ({"envelope": {}, "workflow": "w"}, EVENT.body, None, PAYLOAD):
        with pytest.raises(TypeError, match="expected Event, got"):
            EVENTS.encode(record)
    with pytest.raises(TypeError, match="Payload is not a record of this codec"):
        EVENTS.encode(Event(ENVELOPE, PAYLOAD))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="Event is not a record of this codec"):
        TASKS.encode(EVENT)


@pytest.mark.case("L19")
def test_records_of_the_same_shape_stay_what_they_are() -> None:
    """An approval and a rejection have equal fields: only the record's own name tells them apart."""
    granted = encode_event(Event(ENVELOPE, ApprovalGranted("p-1", b"d", "ok")))
    rejected = encode_event(Event(ENVELOPE, ApprovalRejected("p-1", b"d", "ok")))
    assert granted.body == rejected.body
    assert granted.fingerprint != rejected.fingerprint
    assert type(EVENTS.decode(granted.value, granted.fingerprint).body) is ApprovalGranted
    assert type(EVENTS.decode(rejected.value, rejected.fingerprint).body) is ApprovalRejected
    decided = Command(
        CommandHeader("a", "s", "c", 1, "u", None, "http", None),
        DecideApproval("p", b"d", "reject", ""),
    )
    stored = COMMANDS.encode(decided)
    assert COMMANDS.decode(stored.value, stored.fingerprint) == decided


@pytest.mark.case("U25")
def test_each_way_of_being_undecodable_has_its_own_word() -> None:
    good = encode_event(EVENT)
    task = TASKS.encode(
        ActivityTask("a", "s", "1", 1, "n", "q", "read", PAYLOAD, "a/s/1/1", 1, 1, 1, "u", None)
    )
    ids = (7).to_bytes(4, "big")
    assert reason(EVENTS, None, None) == "empty"
    assert reason(EVENTS, b"", None) == "bad_frame"
    assert reason(EVENTS, b"garbage from nowhere", good.fingerprint) == "bad_frame"
    assert reason(EVENTS, b"\0\0\0", good.fingerprint) == "bad_frame"
    assert reason(EVENTS, b"\1" + good.value[1:], good.fingerprint) == "bad_frame"
    assert reason(EVENTS, good.value, b"12345678") == "unknown_fingerprint"
    assert reason(EVENTS, good.value, b"") == "unknown_fingerprint"
    assert reason(EVENTS, b"\0" + ids + good.body, None) == "unknown_id"
    assert reason(EVENTS, task.value, task.fingerprint) == "wrong_record"
    assert reason(EVENTS, good.value + b"\0", good.fingerprint) == "trailing_bytes"
    assert reason(EVENTS, good.value[:-1], good.fingerprint) == "truncated"
    assert reason(EVENTS, good.value[:5], good.fingerprint) == "truncated"
    assert reason(EVENTS, b"\0" * (EVENT_MAX + 1), good.fingerprint) == "too_large"


def test_the_fingerprint_decides_and_the_id_is_for_others() -> None:
    good = encode_event(EVENT)
    foreign = b"\0" + (7).to_bytes(4, "big") + good.body
    assert EVENTS.decode(foreign, good.fingerprint) == EVENT


def test_every_prefix_of_a_record_is_refused() -> None:
    good = encode_event(EVENT)
    for size in range(len(good.value)):
        assert reason(EVENTS, good.value[:size], good.fingerprint) in {"truncated", "bad_frame"}


def test_blocks_as_other_writers_cut_them_are_read() -> None:
    whole_ = encode_event(Event(ENVELOPE, SessionCancelled(("a", "b"), (), ())))
    item_a, item_b = b"\2a", b"\2b"
    start = whole_.body[: whole_.body.index(b"\4" + item_a + item_b)]
    cut = start + b"\1\4" + item_a + b"\2" + item_b + b"\0" + b"\0\0\0\0\0"
    assert EVENTS.decode_body(cut, whole_.fingerprint).body.done == ("a", "b")


def test_what_could_not_be_read_again_is_not_written() -> None:
    fits = Event(ENVELOPE, SessionCancelled(("",) * ITEMS_MAX, (), ()))
    assert decode_event(encode_event(fits).value, None) == fits
    with pytest.raises(ValueError, match="over 10000 items"):
        encode_event(Event(ENVELOPE, SessionCancelled(("",) * ITEMS_MAX, ("a",), ())))


@pytest.mark.case("U12")
def test_a_record_over_the_limit_is_refused_with_its_size() -> None:
    large = dataclasses.replace(PAYLOAD, inline=b"x" * PAYLOAD_MAX, size=PAYLOAD_MAX)
    encode_event(Event(ENVELOPE, MessageReceived("m", large)))
    over = dataclasses.replace(PAYLOAD, inline=b"x" * EVENT_MAX)
    with pytest.raises(PayloadTooLarge, match="MessageReceived is 10") as refused:
        encode_event(Event(ENVELOPE, MessageReceived("m", over)))
    assert refused.value.limit == EVENT_MAX < refused.value.size


def test_a_state_carries_its_own_fingerprint() -> None:
    state = SessionState(Head(seq=3), State("desk", queue=()))
    data = encode_state(state)
    assert data[:2] == b"\xc3\x01"
    assert decode_state(data) == state
    for broken, word in (
        (b"", "bad_frame"),
        (b"\0" + data[1:], "bad_frame"),
        (data[:2] + b"12345678" + data[10:], "unknown_fingerprint"),
        (data + b"\0", "trailing_bytes"),
    ):
        with pytest.raises(Undecodable) as refused:
            decode_state(broken)
        assert refused.value.reason == word
