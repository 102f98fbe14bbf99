"""The quick reader takes our form of a record, and what it takes is what fastavro reads; all else it leaves to that."""

import io
from collections.abc import Callable
from functools import cache
from typing import get_type_hints

import fastavro
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from wakeful.events.codec import encode_event
from wakeful.events.reading import Reader
from wakeful.events.records import Event, SessionCancelled
from wakeful.events.shapes import Part, shape_of
from wakeful.events.writing import long_bytes

from .samples import CLASSES, ENVELOPE, plain, schema_of, whole


@cache
def reader_of(cls: type, wrapper: type) -> Reader:
    if wrapper is cls:
        return Reader([("", shape_of(cls, {}))], cls)
    lead, body = get_type_hints(wrapper)
    parts: list[Part] = [(lead, shape_of(get_type_hints(wrapper)[lead], {}))]
    return Reader([*parts, (body, shape_of(cls, {}))], wrapper)


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
@given(data=st.data())
@settings(max_examples=10, suppress_health_check=list(HealthCheck), deadline=None)
def test_what_it_takes_is_what_fastavro_reads_and_writes(cls: type, data: st.DataObject) -> None:
    codec, strategy = whole(cls)
    record = data.draw(strategy)
    body = codec.encode(record).body
    read = reader_of(cls, type(record)).read
    assert read(body) == record
    for _ in range(8):
        at, cut = data.draw(st.integers(0, len(body))), data.draw(st.integers(0, 2))
        changed = body[:at] + data.draw(st.binary(max_size=3)) + body[at + cut :]
        taken = read(changed)
        if taken is not None:
            assert plain(taken) == fastavro.schemaless_reader(
                io.BytesIO(changed), schema_of(cls), None
            )
            assert codec.encode(taken).body == changed


@given(st.integers(-(2**63), 2**63 - 1))
def test_a_number_is_written_as_fastavro_writes_it(value: int) -> None:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, {"type": "long"}, value)
    assert long_bytes(value) == out.getvalue()


FORMS: dict[str, Callable[[bytes], bytes]] = {
    "an array in two blocks": lambda body: body.replace(b"\4\2a\2b\0", b"\2\2a\2\2b\0"),
    "an array whose size is given": lambda body: body.replace(b"\4\2a\2b\0", b"\3\x08\2a\2b\0"),
    "a count that is padded": lambda body: body.replace(b"\4\2a\2b\0", b"\x84\0\2a\2b\0"),
    "a byte too many": lambda body: body + b"\0",
    "a byte too few": lambda body: body[:-1],
    "nothing": lambda _: b"",
}


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_another_form_is_left_to_fastavro(form: Callable[[bytes], bytes]) -> None:
    body = encode_event(Event(ENVELOPE, SessionCancelled(("a", "b"), (), ()))).body
    read = reader_of(SessionCancelled, Event).read
    assert read(body) is not None
    assert form(body) != body
    assert read(form(body)) is None
