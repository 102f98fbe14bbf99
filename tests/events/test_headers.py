"""Headers: CloudEvents for other tools, the fingerprint for us, the cause of a dead letter for people."""

from hashlib import sha256

import pytest

from wakeful.events.avro import Encoded
from wakeful.events.errors import Undecodable
from wakeful.events.headers import (
    batch_headers,
    dead_letter_headers,
    dead_letter_in,
    event_headers,
    fingerprint_in,
    record_headers,
)
from wakeful.events.log.protocol import Record

ENCODED = Encoded(b"12345678", b"body", b"\0\0\x0fB@body", "wakeful.v1.SessionOpened")
TRACE = b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def dead(
    value: bytes | None = b"garbage", headers: list[tuple[str, bytes]] | None = None
) -> Record:
    return Record("w.commands.v1", 3, 12, 1_700_000_000_000, b"acme/s-1", value, headers or [])


def test_an_event_is_a_cloud_event_in_binary_mode() -> None:
    headers = dict(event_headers(ENCODED, b"acme/s-1", 7, TRACE))
    assert headers == {
        "ce_specversion": b"1.0",
        "ce_type": b"wakeful.v1.SessionOpened",
        "ce_source": b"wakeful",
        "ce_id": b"acme/s-1/7",
        "content-type": b"application/avro",
        "wakeful_fingerprint": b"12345678",
        "traceparent": TRACE,
    }


def test_a_trace_is_passed_through_only_where_there_is_one() -> None:
    assert "traceparent" not in dict(event_headers(ENCODED, b"acme/s-1", 7))
    assert dict(record_headers(ENCODED, "c-1", TRACE))["traceparent"] == TRACE
    assert dict(record_headers(ENCODED, "c-ü"))["ce_id"] == "c-ü".encode()


def test_headers_of_one_record_are_not_those_of_the_next() -> None:
    first = event_headers(ENCODED, b"acme/s-1", 1)
    first.append(("more", b""))
    assert "more" not in dict(event_headers(ENCODED, b"acme/s-1", 2))


def test_a_batch_says_how_many_it_is() -> None:
    assert batch_headers("b-1", 12) == (("wakeful_batch", b"b-1"), ("wakeful_batch_count", b"12"))


def test_the_fingerprint_is_found_and_may_be_missing() -> None:
    assert fingerprint_in(event_headers(ENCODED, b"acme/s-1", 7)) == b"12345678"
    assert fingerprint_in([]) is None
    assert fingerprint_in(None) is None


def test_two_fingerprints_that_differ_are_refused() -> None:
    twice = [("wakeful_fingerprint", b"12345678"), ("wakeful_fingerprint", b"12345678")]
    assert fingerprint_in(twice) == b"12345678"
    with pytest.raises(Undecodable, match="wakeful_fingerprint is given twice") as refused:
        fingerprint_in([*twice, ("wakeful_fingerprint", b"x")])
    assert refused.value.reason == "ambiguous_header"


@pytest.mark.case("U25")
def test_a_dead_letter_says_why_and_where_from() -> None:
    record = dead(headers=[("traceparent", TRACE)])
    headers = dead_letter_headers(record, "trailing_bytes", "3 bytes after the end")
    assert headers[0] == ("traceparent", TRACE)
    found = dead_letter_in(headers)
    assert found is not None
    assert (found.reason, found.detail) == ("trailing_bytes", "3 bytes after the end")
    assert (found.topic, found.partition, found.offset) == ("w.commands.v1", 3, 12)
    assert found.timestamp_ms == 1_700_000_000_000
    assert found.sha256 == sha256(b"garbage").hexdigest()


def test_a_producer_cannot_write_the_cause_of_its_own_death() -> None:
    forged = [("wakeful_dlq_offset", b"1"), ("wakeful_dlq_reason", b"fine"), ("wakeful_dlq_x", b"")]
    headers = dead_letter_headers(dead(headers=forged), "bad_frame", "")
    names = [name for name, _ in headers]
    assert len(names) == len(set(names)) == 7
    assert dict(headers)["wakeful_dlq_offset"] == b"12"


def test_a_detail_is_bounded_and_storable_whatever_it_holds() -> None:
    headers = dict(dead_letter_headers(dead(None), "bad_value", "\ud800\0" + "ü" * 5_000))
    detail = headers["wakeful_dlq_detail"]
    assert len(detail) <= 1_000
    assert detail.decode().startswith("\\ud800\0ü")


@pytest.mark.parametrize(
    "headers", [None, [], [("wakeful_dlq_reason", b"x")], [("wakeful_dlq_reason", b"\xff")]]
)
def test_what_somebody_else_put_there_is_no_dead_letter_of_ours(headers: object) -> None:
    assert dead_letter_in(headers) is None  # type: ignore[arg-type]
