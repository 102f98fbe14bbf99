"""Records to bytes and back: exact, bounded, and by the schema that wrote them."""

import contextlib
import dataclasses
import io
import json
import resource
import time
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Union, get_args, get_origin, get_type_hints

import fastavro
import pytest
from avro.io import BinaryDecoder, DatumReader
from avro.schema import parse
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from wakeful.commands.models import (
    Command,
    CommandBody,
    CommandHeader,
    DecideApproval,
    OpenSession,
    SendMessage,
)
from wakeful.commands.wire import COMMANDS
from wakeful.events.codec import (
    EVENTS,
    OUTCOMES,
    SNAPSHOTS,
    STATES,
    TASKS,
    Codec,
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
    ActivityCompleted,
    ActivityTask,
    ApprovalGranted,
    ApprovalRejected,
    Cause,
    Envelope,
    Event,
    EventBody,
    MessageReceived,
    NextValid,
    Outcome,
    PartitionMark,
    Payload,
    SessionCancelled,
    SessionOpened,
    SessionWaiting,
    Snapshot,
    TimerFired,
    TurnStarted,
    Version,
)
from wakeful.events.state import Head, SessionState, State
from wakeful.schemas import Library, SchemaVersion, bundled
from wakeful.schemas.library import fingerprint_of

FOLDER = Path(__file__).parents[2] / "schemas"

SINGLE: dict[type, Codec] = {
    ActivityTask: TASKS,
    Outcome: OUTCOMES,
    Snapshot: SNAPSHOTS,
    PartitionMark: SNAPSHOTS,
    SessionState: STATES,
}
CLASSES = (*get_args(EventBody), *get_args(CommandBody), *SINGLE)

LEAVES: dict[Any, st.SearchStrategy[Any]] = {
    str: st.text(st.characters(exclude_categories=["Cs"]), max_size=70),
    int: st.integers(-(2**63), 2**63 - 1) | st.integers(-70, 70),
    bytes: st.binary(max_size=70),
    bool: st.booleans(),
}

ENVELOPE = Envelope(
    tenant="acme",
    session_id="s-1",
    seq=3,
    at_ms=1_700_000_000_000,
    actor="user:ann",
    on_behalf_of=None,
    channel="http",
    cause=Cause("w.commands.v1", 1, 12_345, "c-1", b"h" * 32, 1_700_000_000_000),
    control_offset=12,
    versions_seq=None,
    prev_hash=b"p" * 32,
)
PAYLOAD = Payload("json", b'"hello"', None, b"d" * 32, 7, None)
EVENT = Event(ENVELOPE, ActivityCompleted("1.2", 1, PAYLOAD, "worker-1"))


def values(hint: Any) -> st.SearchStrategy[Any]:
    if get_origin(hint) in {types.UnionType, Union}:
        (inner,) = (h for h in get_args(hint) if h is not types.NoneType)
        return st.none() | values(inner)
    if get_origin(hint) is tuple:
        return st.lists(values(get_args(hint)[0]), max_size=3).map(tuple)
    return LEAVES[hint] if hint in LEAVES else records(hint)


def records(cls: type) -> st.SearchStrategy[Any]:
    hints = get_type_hints(cls)
    made = {field.name: values(hints[field.name]) for field in dataclasses.fields(cls)}
    return st.builds(cls, **made)


def whole(cls: type) -> tuple[Codec, st.SearchStrategy[Any]]:
    """The codec of a class, and records as it takes them."""
    if cls in get_args(EventBody):
        return EVENTS, st.builds(Event, records(Envelope), records(cls))
    if cls in get_args(CommandBody):
        return COMMANDS, st.builds(Command, records(CommandHeader), records(cls))
    return SINGLE[cls], records(cls)


def plain(record: Any) -> Any:
    """A record as other readers give it."""
    if isinstance(record, Event):
        return {"envelope": plain(record.envelope), **plain(record.body)}
    if isinstance(record, Command):
        return {"header": plain(record.header), **plain(record.body)}
    if dataclasses.is_dataclass(record):
        return {f.name: plain(getattr(record, f.name)) for f in dataclasses.fields(record)}
    return [plain(item) for item in record] if isinstance(record, tuple) else record


def schema_of(cls: type) -> dict[str, Any]:
    return bundled().schema(bundled().current(f"wakeful.v1.{cls.__name__}"))


def reason(codec: Codec, value: bytes | None, fingerprint: bytes | None) -> str:
    with pytest.raises(Undecodable) as refused:
        codec.decode(value, fingerprint)
    return refused.value.reason


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


def test_items_of_arrays_are_checked_one_by_one() -> None:
    for body, said in (
        (SessionCancelled(["a"], (), ()), "SessionCancelled.done: expected a tuple, got"),  # type: ignore[arg-type]
        (SessionCancelled(("a", 1), (), ()), r"expected str, got"),  # type: ignore[arg-type]
        (SessionWaiting(1, (), (NextValid("c", 1, ""),)), "NextValid.allowed: expected bool"),  # type: ignore[arg-type]
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


HEADER = CommandHeader("acme", "s-1", "c-1", 1, "user:ann", None, "http", None)

FORMS: dict[str, tuple[bytes, set[str]]] = {
    "a length padded": (b"\x82\x00a", {"not_canonical"}),
    "a negative length": (b"\x01a", {"truncated"}),
    "the lowest length": (b"\xff" * 9 + b"\x01", {"truncated"}),
    "a length of eleven bytes": (b"\xff" * 11, {"truncated"}),
    "a length over 64 bits": (b"\xff" * 9 + b"\x7f", {"truncated", "not_canonical"}),
    "a length beyond the end": (b"\xfe" + b"\xff" * 8 + b"\x01", {"truncated"}),
    "a length that is cut": (b"\xff", {"truncated"}),
    "a text that is not UTF-8": (b"\x02\xff", {"bad_value"}),
    "a text that is a surrogate": (b"\x06\xed\xa0\x80", {"bad_value"}),
    "an overlong NUL": (b"\x04\xc0\x80", {"bad_value"}),
}


@pytest.mark.case("L23")
@pytest.mark.parametrize(("raw", "words"), FORMS.values(), ids=FORMS)
def test_bytes_that_avro_has_no_such_form_for_are_refused(raw: bytes, words: set[str]) -> None:
    good = COMMANDS.encode(Command(HEADER, OpenSession("")))
    with pytest.raises(Undecodable) as refused:
        COMMANDS.decode_body(good.body[:-1] + raw, good.fingerprint)
    assert refused.value.reason in words


@pytest.mark.parametrize("branch", range(1, 256))
def test_a_strangers_union_has_two_branches_and_no_more(branch: int) -> None:
    """fastavro counts a negative branch from the end, as Python does."""
    good = COMMANDS.encode(Command(HEADER, OpenSession("desk")))
    at = good.body.index(b"user:ann") + len(b"user:ann")
    assert good.body[at] == 0  # on_behalf_of is null
    body = good.body[:at] + bytes((branch,)) + good.body[at + 1 :]
    with pytest.raises(Undecodable):
        COMMANDS.decode_body(body, good.fingerprint)


def fingerprints() -> Iterator[tuple[Codec, bytes]]:
    for cls in CLASSES:
        yield whole(cls)[0], bundled().current(f"wakeful.v1.{cls.__name__}").fingerprint


def bombs() -> dict[str, bytes]:
    """Bytes that made other readers crash, hang, or allocate a thousand times their size."""
    waiting = encode_event(Event(ENVELOPE, SessionWaiting(1, (), ()))).body[:-2]
    million = fastavro_number(1_000_000)
    return {
        "5 KB of 2": b"\x02" * 5_000,
        "a MiB of 2": b"\x02" * 1_000_000,
        "a MiB of 0": b"\0" * 1_000_000,
        "a MiB of 1": b"\1" * 1_000_000,
        "a MiB of 255": b"\xff" * 1_000_000,
        "a million items in four bytes": waiting + million,
        "a million empty items": waiting + million + b"\0" * 1_000_000,
        "many blocks of one": waiting + (b"\2" + b"\0" * 5) * 150_000,
        "blocks of negative counts": waiting + (b"\1\0" + b"\0" * 5) * 140_000,
        "the lowest count": waiting + b"\xff" * 9 + b"\1" + b"\0" * 100,
        "the highest count": waiting + b"\xfe" + b"\xff" * 8 + b"\1" + b"\0" * 100,
    }


def fastavro_number(value: int) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, {"type": "long"}, value)
    return out.getvalue()


@pytest.mark.case("L23")
@pytest.mark.parametrize("name", bombs())
def test_hostile_bytes_cost_neither_the_process_nor_time_nor_memory(name: str) -> None:
    body = bombs()[name]
    for codec, fingerprint in fingerprints():
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        started = time.thread_time()
        with contextlib.suppress(Undecodable):  # most are; what counts is the cost
            codec.decode_body(body, fingerprint)
        assert time.thread_time() - started < 0.15  # 50 ms, and room for a busy machine
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100 * 1024


@given(body=st.binary(max_size=400), cls=st.sampled_from(CLASSES))
@settings(max_examples=500, deadline=None)
def test_any_bytes_are_a_record_or_undecodable(body: bytes, cls: type) -> None:
    codec = whole(cls)[0]
    fingerprint = bundled().current(f"wakeful.v1.{cls.__name__}").fingerprint
    try:
        record = codec.decode_body(body, fingerprint)
    except Undecodable:
        return
    assert codec.encode(record).fingerprint == fingerprint


@given(data=st.data())
@settings(max_examples=150, suppress_health_check=list(HealthCheck), deadline=None)
def test_a_record_with_a_byte_changed_is_another_record_or_undecodable(data: st.DataObject) -> None:
    codec, strategy = whole(data.draw(st.sampled_from(CLASSES)))
    encoded = codec.encode(data.draw(strategy))
    at = data.draw(st.integers(0, max(0, len(encoded.body) - 1)))
    byte = data.draw(st.integers(0, 255))
    body = encoded.body[:at] + bytes((byte,)) + encoded.body[at + 1 :]
    with contextlib.suppress(Undecodable):
        codec.decode_body(body, encoded.fingerprint)


@given(data=st.data())
@settings(max_examples=200, suppress_health_check=list(HealthCheck), deadline=None)
def test_a_command_has_one_form_only(data: st.DataObject) -> None:
    """What decodes encodes to the same bytes: no two stored commands are equal and hash apart."""
    codec, strategy = whole(data.draw(st.sampled_from(get_args(CommandBody))))
    encoded = codec.encode(data.draw(strategy))
    at = data.draw(st.integers(0, max(0, len(encoded.body) - 1)))
    body = encoded.body[:at] + data.draw(st.binary(max_size=3)) + encoded.body[at:]
    try:
        record = codec.decode_body(body, encoded.fingerprint)
    except Undecodable:
        return
    assert codec.encode(record).body == body


def test_blocks_as_other_writers_cut_them_are_read() -> None:
    whole_ = encode_event(Event(ENVELOPE, SessionCancelled(("a", "b"), (), ())))
    item_a, item_b = b"\2a", b"\2b"
    start = whole_.body[: whole_.body.index(b"\4" + item_a + item_b)]
    cut = start + b"\1\4" + item_a + b"\2" + item_b + b"\0" + b"\0\0"
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


def versions(folder: Path) -> Iterator[dict[str, Any]]:
    """TimerFired as it is, then as three releases would add to it, and a doc that was rewritten."""
    schema = json.loads((FOLDER / "TimerFired.avsc").read_text("utf-8"))
    yield schema
    extra = {
        "type": "record",
        "name": "Zone",
        "namespace": "wakeful.v1",
        "doc": "Z.",
        "fields": [{"name": "at", "type": "string", "doc": "Where."}],
    }
    for field in (
        {"name": "why", "type": "string", "default": "due", "doc": "Why."},
        {"name": "zone", "type": ["null", extra], "default": None, "doc": "Zone."},
        {
            "name": "tags",
            "type": {"type": "array", "items": "wakeful.v1.Zone"},
            "default": [],
            "doc": "T.",
        },
    ):
        schema = {
            **schema,
            "doc": f"{schema['doc']} And more.",
            "fields": [*schema["fields"], field],
        }
        yield schema


@dataclasses.dataclass(frozen=True, slots=True)
class Zone:
    at: str


def timer_classes() -> list[type]:
    """The class of each version."""
    fields: list[Any] = [("timer_id", str), ("due_ms", int)]
    more: list[Any] = [("why", str), ("zone", Zone | None), ("tags", tuple[Zone, ...])]
    made = []
    for count in range(4):
        cls = dataclasses.make_dataclass(
            "TimerFired", [*fields, *more[:count]], frozen=True, slots=True
        )
        made.append(cls)
    return made


@pytest.fixture(scope="module")
def releases(tmp_path_factory: pytest.TempPathFactory) -> list[Codec]:
    """A codec per release: the first knows all versions too, as an old process beside newer ones would not,
    so that every writer meets every reader."""
    root = tmp_path_factory.mktemp("releases")
    codecs = []
    schemas = list(versions(root))
    for newest in range(len(schemas)):
        folder = root / str(newest)
        (folder / "history").mkdir(parents=True)
        order = [i for i in range(len(schemas)) if i != newest] + [newest]
        lines = []
        for i in order:
            file = f"history/TimerFired.{i}.avsc" if i != newest else "TimerFired.avsc"
            (folder / file).write_text(json.dumps(schemas[i]), "utf-8")
            lines.append((1_000_000 + i, schemas[i], file))
        text = "".join(
            f"{i} {fingerprint_of(s).hex()} wakeful.v1.TimerFired {f}\n" for i, s, f in lines
        )
        (folder / "ids.lock").write_text(text, "utf-8")
    for newest, cls in enumerate(timer_classes()):
        wrapper = dataclasses.make_dataclass(
            "Event", [("envelope", Envelope), ("body", cls)], frozen=True, slots=True
        )
        codec = Codec(
            [cls], wrapper=wrapper, value_max=EVENT_MAX, library=Library(root / str(newest))
        )
        codecs.append(codec)
    return codecs


def newest_of(codec: Codec) -> tuple[type, type]:
    (cls,) = codec._classes.values()
    assert codec._wrapper is not None
    return codec._wrapper, cls


@pytest.mark.case("L20")
@given(data=st.data())
@settings(max_examples=500, deadline=None, suppress_health_check=list(HealthCheck))
def test_every_version_reads_every_other_one(releases: list[Codec], data: st.DataObject) -> None:
    writer, reader = data.draw(st.sampled_from(releases)), data.draw(st.sampled_from(releases))
    wrapper, cls = newest_of(writer)
    body = data.draw(records(cls))
    encoded = writer.encode(wrapper(ENVELOPE, body))
    read = reader.decode(encoded.value, encoded.fingerprint)
    _, wanted = newest_of(reader)
    assert type(read.body) is wanted
    assert read.envelope == ENVELOPE
    defaults = {"why": "due", "zone": None, "tags": ()}
    for field in dataclasses.fields(wanted):
        assert getattr(read.body, field.name) == getattr(body, field.name, defaults.get(field.name))


@pytest.mark.case("L20")
def test_ours_resolves_versions_as_fastavro_does(releases: list[Codec]) -> None:
    schemas = list(versions(FOLDER))
    for writer in releases:
        wrapper, cls = newest_of(writer)
        body = cls("t", 5, *(("why", Zone("x"), (Zone("y"),))[: len(dataclasses.fields(cls)) - 2]))
        encoded = writer.encode(wrapper(ENVELOPE, body))
        for reader, schema in zip(releases, schemas, strict=True):
            read = reader.decode(encoded.value, encoded.fingerprint)
            written = schemas[releases.index(writer)]
            theirs = fastavro.schemaless_reader(io.BytesIO(encoded.body), written, schema)
            assert {"envelope": plain(read.envelope), **plain(read.body)} == theirs


def test_a_class_that_left_its_schema_is_refused_before_anything_is_written() -> None:
    @dataclasses.dataclass(frozen=True, slots=True)
    class TimerFired:
        due_ms: int
        timer_id: str

    with pytest.raises(TypeError, match="its class has"):
        Codec([TimerFired], value_max=1000).encode(TimerFired(1, "t"))


def test_versions_of_a_codec_are_found_by_id_as_well() -> None:
    version: SchemaVersion = bundled().current("wakeful.v1.TimerSet")
    assert bundled().of_id(version.id) is version is bundled().of_fingerprint(version.fingerprint)
