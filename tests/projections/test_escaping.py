"""What Postgres cannot hold is escaped and marked; everything else passes as it is."""

import json

import pytest

from wakeful.events.records import Payload
from wakeful.projections import escaping


def unescape(value: str) -> str:
    """What the mark promises: the text can be read back exactly."""
    out, at = [], 0
    while at < len(value):
        if value.startswith("\\\\", at):
            out.append("\\")
            at += 2
        elif value.startswith("\\u", at):
            out.append(chr(int(value[at + 2 : at + 6], 16)))
            at += 6
        else:
            out.append(value[at])
            at += 1
    return "".join(out)


@pytest.mark.parametrize(
    "value", ["", "plain", "\N{SNOWMAN}", "\U0001f600", "back\\slash", "\\u0000"]
)
def test_text_that_postgres_can_hold_passes_unmarked(value):
    assert escaping.text(value) == escaping.Held(value, escaped=False)
    assert escaping.is_plain(value)


@pytest.mark.case("L26")
@pytest.mark.parametrize("value", ["\0", "a\0b\\c", "\ud800", "\udfff\\u0041", "\N{SNOWMAN}\0"])
def test_escaped_text_is_marked_and_reads_back_exactly(value):
    held = escaping.text(value)
    assert held.escaped
    held.value.encode()
    assert "\0" not in held.value
    assert unescape(held.value) == value
    assert not escaping.is_plain(value)


@pytest.mark.parametrize(
    "stored",
    [
        b'{"a": 1.10, "b": [true, null, "x\\u00e9"]}',
        b'"\\ud83d\\ude00"',
        b"12.50",
        b"-0",
        b"1E5",
        b'"NaN"',
    ],
)
def test_json_that_postgres_can_hold_keeps_its_value_unmarked(stored):
    held = escaping.raw_json(stored)
    assert not held.escaped
    assert json.loads(held.value) == json.loads(stored)


def test_json_without_anything_suspect_is_passed_on_as_written():
    assert escaping.raw_json(b'{"cents": 12.50}').value == '{"cents": 12.50}'


@pytest.mark.case("L26")
@pytest.mark.parametrize(
    ("stored", "expected"),
    [
        (b'{"a": "x\\u0000y"}', {"a": "x\\u0000y"}),
        (b'{"k\\u0000": 1}', {"k\\u0000": 1}),
        (b'["\\ud800"]', ["\\ud800"]),
        (b"[NaN, Infinity, -Infinity]", ["NaN", "Infinity", "-Infinity"]),
        (b"[1e400000, 1.5e-400000]", ["1e400000", "1.5e-400000"]),
        (b"1" * 2_000, "1" * 2_000),
        (b"not json \xff\x00", "not json \\xff\\u0000"),
        (b"", ""),
        (b"[" * 200_000, "[" * 200_000),
    ],
)
def test_json_that_postgres_cannot_hold_is_escaped_and_marked(stored, expected):
    held = escaping.raw_json(stored)
    assert held.escaped
    assert json.loads(held.value) == expected


@pytest.mark.parametrize("depth", [100, 300, 450, 900, 100_000])
def test_json_nested_deeper_than_our_own_stack_never_ends_the_projector(depth):
    stored = b"[" * depth + b"NaN" + b"]" * depth
    held = escaping.raw_json(stored)
    assert held.escaped
    assert "NaN" in held.value


def test_a_payload_that_is_elsewhere_or_encrypted_says_where_it_is():
    away = Payload("json", None, "s3://bucket/x", b"\1", 9, None)
    assert json.loads(escaping.payload(away).value) == {
        "ref": "s3://bucket/x",
        "encoding": "json",
        "size": 9,
        "digest": "01",
    }
    other = Payload("protobuf", b"\0\1", None, b"\2", 2, None)
    assert json.loads(escaping.payload(other).value) == {
        "encoding": "protobuf",
        "size": 2,
        "digest": "02",
    }
