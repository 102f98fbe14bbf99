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
        b'"\\uD83D\\uDE00"',
        b'["\\ud83D\\uDe00", "\\udbff\\udfff", "\\ud800\\udc00"]',
        rb'"\\udcff"',
        rb'"\\uDFFF \\ud800 \\u0000"',
        rb'"\ud83d\ude00\\udcff"',
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
        (rb'{"text":"\udcff"}', {"text": "\\udcff"}),
        (rb'"\udc00"', "\\udc00"),
        (rb'"\uDFFF"', "\\udfff"),
        (rb'"\uDbFf"', "\\udbff"),
        (rb'"\ude00\ud83d"', "\\ude00\\ud83d"),
        (rb'["\ud83d", "\ude00"]', ["\\ud83d", "\\ude00"]),
        (rb'{"\ude00": 1}', {"\\ude00": 1}),
        (rb'"\ud83d\ude00\ude00"', "\U0001f600\\ude00"),
        (rb'"\\\udcff"', r"\\\udcff"),
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


@pytest.mark.case("L26")
@pytest.mark.parametrize("half", [*range(0xD800, 0xE000, 0x55), 0xDBFF, 0xDC00, 0xDFFF])
def test_each_half_of_a_character_is_escaped_however_its_hex_is_written(half):
    for digits in (f"{half:04x}", f"{half:04X}", f"{half:04x}".title()):
        held = escaping.raw_json(f'{{"text": "\\u{digits}"}}'.encode())
        assert held == escaping.Held(json.dumps({"text": f"\\u{half:04x}"}), escaped=True)
    assert escaping.value([chr(half)]) == escaping.Held(
        json.dumps([f"\\u{half:04x}"]), escaped=True
    )


@pytest.mark.parametrize("source", [r'"\udcff"', '"a\0"', "[" * 50_000, "1" * 200_000, '"é\ud800"'])
def test_an_opaque_value_holds_no_escape_that_could_be_refused_and_reads_back_exactly(source):
    held = escaping.opaque(source)
    assert held.escaped
    assert unescape(json.loads(held.value)) == source
    assert r"\u0000" not in held.value.replace(r"\\", "")
    assert r"\ud" not in held.value.replace(r"\\", "")


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
