"""Planted faults around an event's bytes, and in what is kept beside snapshots: each is found."""

from dataclasses import replace

import pytest
from tests.projections.audit.tampering import without

from wakeful.events import records as r
from wakeful.events.codec import encode_snapshot, read_event
from wakeful.events.headers import record_headers
from wakeful.events.keys import chunk_key, session_key

S = ("acme", "s1")


def relabelled(record, name, value):
    return replace(record, headers=[(n, value if n == name else v) for n, v in record.headers])


@pytest.mark.parametrize(
    "name", ["ce_type", "ce_source", "ce_specversion", "content-type", "ce_id"]
)
def test_a_header_that_says_something_else_is_found(begin, found, name):
    chronicle = begin().story()
    first, *rest = chronicle.scribe.records
    assert found(chronicle.evidence(events=[relabelled(first, name, b"x"), *rest])) == {"labels"}


def test_a_header_that_is_gone_is_found(begin, found):
    chronicle = begin().story()
    first, *rest = chronicle.scribe.records
    bare = replace(first, headers=[one for one in first.headers if one[0] != "ce_source"])
    assert found(chronicle.evidence(events=[bare, *rest])) == {"labels"}


def test_a_frame_with_another_schemas_id_is_found(begin, found):
    chronicle = begin().story()
    first, *rest = chronicle.scribe.records
    other = replace(first, value=b"\0\0\0\0\x07" + first.value[5:])
    assert found(chronicle.evidence(events=[other, *rest])) == {"labels"}


def with_chunk(chronicle, *events):
    """The chronicle with these events kept beside a snapshot, as where a session parks in a turn."""
    encoded = encode_snapshot(r.JournalChunk(*S, 0, 1, tuple(events)))
    key = chunk_key(session_key(*S), 1)
    record = chronicle.put(
        chronicle.snapshots[0].topic, key, encoded.value, record_headers(encoded, "x")
    )
    home = chronicle.snapshots[0].partition
    return [*chronicle.snapshots, replace(record, partition=home, offset=len(chronicle.snapshots))]


def stored(record):
    _, one = read_event(record.value, record.headers)
    return r.StoredEvent(one.fingerprint, one.body)


def test_a_chunk_of_the_sessions_own_events_is_in_order(begin, found):
    chronicle = begin().story()
    kept = [stored(one) for one in chronicle.scribe.records[:3]]
    assert found(chronicle.evidence(snapshots=with_chunk(chronicle, *kept))) == set()


def test_8_a_chunk_with_another_event_is_found(begin, found):
    chronicle = begin().story()
    one = stored(chronicle.scribe.records[1])
    changed = replace(one, body=one.body[:-1] + bytes([one.body[-1] ^ 1]))
    assert found(chronicle.evidence(snapshots=with_chunk(chronicle, changed))) == {8}


def test_8_a_chunk_with_an_event_that_is_not_there_is_found(begin, found):
    chronicle = begin().story()
    records = chronicle.scribe.records
    kept = with_chunk(chronicle, stored(records[-1]))
    evidence = chronicle.evidence(events=without(records, len(records) - 1), snapshots=kept)
    assert 8 in found(replace(evidence, rows=None))


def test_8_a_chunk_that_holds_no_event_is_found(begin, found):
    chronicle = begin().story()
    kept = with_chunk(chronicle, r.StoredEvent(b"\0" * 8, b""))
    assert found(chronicle.evidence(snapshots=kept)) == {8}
