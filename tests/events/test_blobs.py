"""References to large payloads: named by their content, scoped by tenant, and believed only after a look."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wakeful.events import blobs as rules
from wakeful.events.blobs import (
    MemoryBlobs,
    check_ref,
    claim,
    fetch,
    fetched,
    is_foreign,
    payloads_in,
    put_payload,
    ref_of,
    why_no_reference,
)
from wakeful.events.errors import (
    BlobDamaged,
    BlobMissing,
    BlobUnavailable,
    InvalidPayload,
    PayloadTooLarge,
)
from wakeful.events.limits import BLOB_MAX, PAYLOAD_MAX
from wakeful.events.payloads import keyed_digest, load_json
from wakeful.events.records import ActivityFailed, Failure, InboxTaken, TakenMessage

KEY = b"a tenant's digest key"
BIG = "x" * PAYLOAD_MAX


def test_what_fits_stays_in_its_record_and_one_byte_more_goes_by_reference() -> None:
    store = MemoryBlobs()
    fits = put_payload("x" * (PAYLOAD_MAX - 2), "acme", KEY, store)
    assert (fits.size, fits.ref, store.held) == (PAYLOAD_MAX, None, {})
    over = put_payload("x" * (PAYLOAD_MAX - 1), "acme", KEY, store)
    assert (over.inline, over.size) == (None, PAYLOAD_MAX + 1)
    assert list(store.held) == [over.ref]


def test_a_name_says_nothing_about_the_data_without_the_key() -> None:
    payload, data = claim(BIG, "acme", KEY, stores=True)
    assert payload.ref == f"acme/{keyed_digest(data, KEY).hex()}"
    assert payload.ref != claim(BIG, "acme", b"another key", stores=True)[0].ref


def test_equal_values_have_one_blob_and_a_repeat_changes_nothing() -> None:
    store = MemoryBlobs()
    first = put_payload({"a": BIG, "b": 1}, "acme", KEY, store)
    assert put_payload({"b": 1, "a": BIG}, "acme", KEY, store) == first
    assert len(store.held) == 1


def test_without_a_store_the_error_names_the_setting() -> None:
    with pytest.raises(PayloadTooLarge, match="the limit is 262144: set WAKEFUL_BLOBS"):
        put_payload(BIG, "acme", KEY, None)


def test_a_blob_has_its_limit_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rules, "BLOB_MAX", PAYLOAD_MAX + 10)
    with pytest.raises(PayloadTooLarge, match=f"the limit is {PAYLOAD_MAX + 10}: store it else"):
        put_payload("x" * (PAYLOAD_MAX + 11), "acme", KEY, MemoryBlobs())


@pytest.mark.parametrize(
    "ref",
    [
        "",
        "acme",
        "acme/",
        "/etc/passwd",
        f"/{'ab' * 32}",
        f"../{'ab' * 32}",
        f"./{'ab' * 32}",
        f"acme/../{'ab' * 32}",
        f"acme/{'ab' * 32}/..",
        f"acme/{'AB' * 32}",
        f"acme/{'ab' * 31}",
        f"acme/{'ab' * 32}\n",
        f"acme\\{'ab' * 32}",
        f"file:///{'ab' * 32}",
        f"a*/{'ab' * 32}",
        f"a%2e/{'ab' * 32}",
        "s3://bucket/key",
    ],
)
def test_a_reference_that_is_none_or_leads_out_of_the_store_is_refused(ref: str) -> None:
    with pytest.raises(InvalidPayload, match="is not <tenant>/<64 hex digits"):
        check_ref(ref)
    with pytest.raises(InvalidPayload):
        MemoryBlobs().get(ref)
    with pytest.raises(InvalidPayload):
        MemoryBlobs().put(ref, b"x")


@pytest.mark.parametrize("tenant", [".", ".."])
def test_a_tenant_named_like_a_folder_above_has_no_blobs(tenant: str) -> None:
    with pytest.raises(InvalidPayload):
        ref_of(tenant, b"\1" * 32)


def test_what_is_read_is_what_was_put() -> None:
    store = MemoryBlobs()
    payload = put_payload({"text": BIG}, "acme", KEY, store)
    assert load_json(fetched(payload, "acme", KEY, store), KEY) == {"text": BIG}


def test_an_inline_payload_needs_no_store() -> None:
    small = put_payload("x", "acme", KEY, None)
    assert fetch(small, "acme", KEY, None) == b'"x"'
    assert fetched(small, "acme", KEY, None) is small


def test_a_blob_that_is_not_there_is_missing_by_name() -> None:
    payload, _ = claim(BIG, "acme", KEY, stores=True)
    with pytest.raises(BlobMissing, match=f"blob {payload.ref} is not in the store"):
        fetch(payload, "acme", KEY, MemoryBlobs())
    with pytest.raises(BlobUnavailable, match="set WAKEFUL_BLOBS"):
        fetch(payload, "acme", KEY, None)


def test_bytes_of_another_size_or_digest_are_damaged() -> None:
    store = MemoryBlobs()
    payload = put_payload(BIG, "acme", KEY, store)
    store.held[payload.ref] = store.held[payload.ref][:-1]
    with pytest.raises(BlobDamaged, match=f"has {payload.size - 1} bytes, the record says"):
        fetch(payload, "acme", KEY, store)
    store.held[payload.ref] = b"y" * payload.size
    with pytest.raises(BlobDamaged, match="does not have the bytes that its digest was made of"):
        fetch(payload, "acme", KEY, store)


def test_other_bytes_never_replace_what_is_there() -> None:
    store = MemoryBlobs()
    payload = put_payload(BIG, "acme", KEY, store)
    with pytest.raises(BlobDamaged, match="is in the store with other bytes"):
        store.put(payload.ref, b"other")
    assert fetch(payload, "acme", KEY, store)[1:5] == b"xxxx"


def test_a_reference_must_be_the_tenants_own_and_named_by_its_digest() -> None:
    payload, _ = claim(BIG, "acme", KEY, stores=True)
    assert why_no_reference(payload, "acme") is None
    assert "is not of tenant 'globex'" in why_no_reference(payload, "globex")
    strangers = [
        (replace(payload, digest=b"\1" * 32), "is not named by its digest"),
        (replace(payload, inline=b"1"), "1 inline bytes"),
        (replace(payload, encoding="avro"), "encoding 'avro'"),
        (replace(payload, key_id="k1"), "key 'k1'"),
        (replace(payload, size=0), "a blob has 1 to"),
        (replace(payload, size=BLOB_MAX + 1), "a blob has 1 to"),
        (replace(payload, ref="s3://x"), "is not <tenant>"),
    ]
    store = MemoryBlobs()
    for strange, told in strangers:
        assert told in why_no_reference(strange, "acme")
        if strange.inline is None:
            with pytest.raises(BlobDamaged):
                fetch(strange, "acme", KEY, store)


def test_only_a_well_formed_name_of_another_tenant_is_foreign() -> None:
    payload, _ = claim(BIG, "acme", KEY, stores=True)
    assert is_foreign(payload, "globex")
    assert not is_foreign(payload, "acme")
    assert not is_foreign(replace(payload, ref="s3://x"), "acme")
    assert not is_foreign(replace(payload, ref=None, inline=b"1"), "globex")


def test_payloads_are_found_wherever_a_record_holds_them() -> None:
    one, two = (put_payload(n, "acme", KEY, None) for n in (1, 2))
    taken = InboxTaken("1.1", (TakenMessage("m1", "ann", one), TakenMessage("m2", "bob", two)))
    assert list(payloads_in(taken)) == [one, two]
    assert list(payloads_in(ActivityFailed("1.1", 1, Failure("raised", "", "", ""), "w"))) == []


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(value=JSON, limit=st.integers(2, 80))
def test_any_value_is_equal_whether_it_goes_inline_or_by_reference(
    value: object, limit: int
) -> None:
    store = MemoryBlobs()
    inline = put_payload(value, "acme", KEY, None)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rules, "INLINE_MAX", limit)
        either = put_payload(value, "acme", KEY, store)
    assert (either.ref is None) == (inline.size <= limit)
    assert fetched(either, "acme", KEY, store) == inline
