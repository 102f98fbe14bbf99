"""User data: one form per value, bounded, kept as it was, and its digests keyed."""

import hashlib
import hmac
import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wakeful.events.codec import OUTCOMES
from wakeful.events.errors import InvalidPayload, PayloadTooLarge
from wakeful.events.limits import PAYLOAD_MAX
from wakeful.events.payloads import (
    DEPTH_MAX,
    action_digest,
    canonical_json,
    json_payload,
    load_json,
    storable_text,
)
from wakeful.events.records import Outcome

KEY = b"k" * 32

TEXTS = st.text()
SURROGATES = st.text(st.characters() | st.characters(categories=["Cs"]))
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=10,
)


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


@given(JSON)
def test_a_value_comes_back_as_it_was(value: Any) -> None:
    payload = json_payload(value, KEY)
    assert load_json(payload, KEY) == value
    assert payload.inline is not None
    assert payload.size == len(payload.inline)
    assert payload.digest == hmac.new(KEY, payload.inline, hashlib.sha256).digest()
    assert canonical_json(load_json(payload)) == payload.inline


def test_equal_values_have_equal_bytes() -> None:
    assert canonical_json({"b": 1, "a": {"d": [1.5, None, True], "c": "ü😀"}}) == (
        '{"a":{"c":"ü😀","d":[1.5,null,true]},"b":1}'.encode()
    )
    assert canonical_json({"a": 1, "b": 2}) == canonical_json({"b": 2, "a": 1})
    assert canonical_json((1, 2)) == canonical_json([1, 2])


@pytest.mark.case("L26")
@pytest.mark.parametrize("text", ["\0", "a\0b", "\ud800", "x\udfff", "\ud800\0\ud800", "😀\ud83d"])
def test_nul_and_lone_surrogates_survive_all_the_way_through_a_record(text: str) -> None:
    payload = json_payload({text: [text]}, KEY)
    outcome = Outcome("a", "s", 1, 1, "reply", 1, payload, *(None,) * 6)
    encoded = OUTCOMES.encode(outcome)
    read = OUTCOMES.decode(encoded.value, encoded.fingerprint)
    assert load_json(read.message, KEY) == {text: [text]}
    assert payload.inline is not None
    payload.inline.decode()


@pytest.mark.case("L26")
@given(SURROGATES)
def test_halves_side_by_side_are_the_character_they_make(text: str) -> None:
    joined = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
    assert load_json(json_payload(text, KEY)) == joined
    assert canonical_json(text) == canonical_json(joined)


@pytest.mark.case("L26")
@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_numbers_that_json_lacks_are_refused_both_ways(value: float) -> None:
    with pytest.raises(InvalidPayload, match="no json form"):
        json_payload({"x": [value]}, KEY)
    for raw in (b"NaN", b"Infinity", b"-Infinity"):
        with pytest.raises(InvalidPayload, match="is not json"):
            load_json(replace(json_payload(1, KEY), inline=raw, size=len(raw)))


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ({1: "a"}, "json keys are text, got 1"),
        ({"x": [{None: 1}]}, "json keys are text, got None"),
        ({True: 1, "true": 2}, "json keys are text"),
        ({"x": {1, 2}}, "no json form: Object of type set"),
        (b"bytes", "no json form: Object of type bytes"),
        (object, "no json form"),
        (nested(DEPTH_MAX + 2), "nested more than"),
    ],
)
def test_what_json_would_change_or_cannot_hold_is_refused(value: Any, said: str) -> None:
    with pytest.raises(InvalidPayload, match=said):
        json_payload(value, KEY)


def test_a_value_that_holds_itself_is_refused() -> None:
    value: list[Any] = []
    value.append(value)
    with pytest.raises(InvalidPayload):
        json_payload(value, KEY)


@pytest.mark.case("U12")
def test_a_payload_over_the_limit_is_refused_with_size_and_limit() -> None:
    assert json_payload("x" * (PAYLOAD_MAX - 2), KEY).size == PAYLOAD_MAX
    with pytest.raises(PayloadTooLarge, match="is 262145 bytes and the limit is 262144") as refused:
        json_payload("x" * (PAYLOAD_MAX - 1), KEY)
    assert (refused.value.size, refused.value.limit) == (PAYLOAD_MAX + 1, PAYLOAD_MAX)


def test_a_payload_that_is_not_what_it_says_is_refused() -> None:
    good = json_payload({"cents": 100}, KEY)
    for bad, said in (
        (replace(good, inline=b'{"cents":900}'), "do not match its digest"),
        (replace(good, digest=bytes(32)), "do not match its digest"),
        (replace(good, size=5), "is said to have 5 bytes"),
        (replace(good, inline=None, ref="s3://x"), "expected inline json"),
        (replace(good, encoding="pickle"), "expected inline json"),
        (replace(good, key_id="k-1"), "expected inline json"),
    ):
        with pytest.raises(InvalidPayload, match=said):
            load_json(bad, KEY)


@pytest.mark.parametrize("raw", [b"", b"{", b"\xff", b"[" * 100_000, b"1" * 10_000, b"1 2"])
def test_bytes_that_are_not_json_are_refused(raw: bytes) -> None:
    with pytest.raises(InvalidPayload, match="is not json"):
        load_json(replace(json_payload(1, KEY), inline=raw, size=len(raw)))


def test_digests_are_keyed_and_an_empty_key_is_none() -> None:
    assert json_payload(1, KEY).digest != json_payload(1, b"other").digest
    with pytest.raises(ValueError, match="digest key is empty"):
        json_payload(1, b"")


def test_an_actions_digest_binds_every_part_and_where_it_ends() -> None:
    base = ("refund", "write", b'{"cents":100}', "supervisor", KEY)
    digests = {action_digest(*base)}
    for position in range(4):
        changed: list[Any] = list(base)
        changed[position] = changed[position] + (b" " if position == 2 else " ")
        digests.add(action_digest(*changed))
    digests.add(action_digest(*base[:4], b"other"))
    digests.add(action_digest("refundw", "rite", *base[2:]))
    assert len(digests) == 7
    assert action_digest(*base) == action_digest(*base)


def test_an_actions_digest_is_the_same_for_ever() -> None:
    parts = (b"wakeful/action/1", b"refund", b"write", b'{"cents":100}', b"supervisor")
    plain = b"".join(len(part).to_bytes(4, "big") + part for part in parts)
    expected = hmac.new(KEY, plain, hashlib.sha256).hexdigest()
    assert action_digest("refund", "write", b'{"cents":100}', "supervisor", KEY).hex() == expected
    assert not plain.startswith(json.dumps("").encode()[:1])


@given(SURROGATES)
def test_a_free_text_can_always_be_stored(text: str) -> None:
    stored = storable_text(text, 10)
    stored.encode()
    assert storable_text(stored, 60) == stored
    if len(text) <= 10 and not any("\ud800" <= c <= "\udfff" for c in text):
        assert stored == text
