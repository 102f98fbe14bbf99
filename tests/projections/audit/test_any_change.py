"""Whatever is done to an event of a recorded history, an audit names the first place where it shows.

An event that a byte was changed in shows there, or at the next one, which names its hash. The last one of a session
has no next: that shows in what was written with it, a snapshot, a chunk, a task, an outcome, or its transaction.
"""

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.processors.desk import KEY
from tests.processors.loops import Cluster

from wakeful.commands.models import CancelSession, SendMessage
from wakeful.commands.wire import decode_command
from wakeful.events.codec import decode_event, encode_event, read_event
from wakeful.events.payloads import json_payload
from wakeful.projections.audit import asked_by, audit, evidence_from_log

SESSIONS = ("s1", "s2", "s3", "s4", "s5")


def recorded():
    """Five sessions in two partitions: completed, waiting for an approval, suspended, cancelled, and asleep."""
    cluster = Cluster(partitions=2)
    cluster.start()
    cluster.open("s1", last=True)
    cluster.open("s2")
    cluster.open("s3")
    cluster.open("s4")
    cluster.open("s5", workflow="sleeper")
    cluster.run()
    cluster.answer()
    cluster.run()
    for session_id in ("s1", "s3"):
        cluster.approve(session_id)
    cluster.send(CancelSession("enough"), "s4")
    cluster.run()
    cluster.answer()
    cluster.run()
    cluster.send(SendMessage(json_payload({"text": "once more"}, KEY)), "s3")
    cluster.run()
    cluster.answer()
    cluster.run()
    return evidence_from_log(
        cluster.log,
        cluster.topics,
        cluster.app.queues,
        committed=cluster.log.group_offsets("desk.processors"),
    )


EVIDENCE = recorded()
EVENTS = EVIDENCE.events
ENVELOPES = [decode_event(one.value, one.headers).envelope for one in EVENTS]
LAST = {one.session_id: one.seq for one in ENVELOPES}


def found_in(events):
    return audit(replace(EVIDENCE, events=events), asked_by(decode_command))


def named(events, changed):
    """Whether the first place that is named is the changed event, or the one after it in its session."""
    found = sorted(found_in(events), key=lambda one: one.order)
    envelope, record = ENVELOPES[changed], EVENTS[changed]
    session = f"{envelope.tenant}/{envelope.session_id}"
    places = [
        one.offset
        for one, of in zip(EVENTS, ENVELOPES, strict=True)
        if (of.session_id, of.seq) in {(envelope.session_id, envelope.seq + n) for n in (0, 1)}
    ]
    own = [one for one in found if one.session == session]
    unread = [one for one in found if one.offset == record.offset and "does not decode" in str(one)]
    if unread or (own and own[0].offset in places):
        return True
    return envelope.seq == LAST[envelope.session_id] and bool(own)


def tells_of_its_batch(events, changed):
    """Whether it is said of a transaction of this record that not all of it is there, or too much."""
    before, after = (dict(one[changed].headers).get("wakeful_batch") for one in (EVENTS, events))
    torn = [str(one) for one in found_in(events) if one.invariant == 12]
    return any(
        f"batch {batch.decode(errors='backslashreplace')} " in one
        for one in torn
        for batch in (before, after)
    )


def flipped(raw, position, bit):
    at = position % len(raw)
    return raw[:at] + bytes([raw[at] ^ 1 << bit]) + raw[at + 1 :]


def flip(record, part, position, bit):
    """The record with one bit changed: of its value, its key, or the value of a header."""
    if part == "value":
        return replace(record, value=flipped(record.value, position, bit))
    if part == "key":
        return replace(record, key=flipped(record.key, position, bit))
    at = position % len(record.headers)
    name, value = record.headers[at]
    headers = list(record.headers)
    headers[at] = (name, flipped(value, position // len(headers), bit))
    return replace(record, headers=headers)


def test_the_recorded_history_is_clean_and_has_sessions_of_every_kind():
    assert found_in(EVENTS) == []
    assert set(LAST) == set(SESSIONS)
    assert len({one.partition for one in EVENTS}) == 2
    assert len(EVENTS) > 50


indices = st.integers(0, len(EVENTS) - 1)


@given(
    indices,
    st.sampled_from(("value", "value", "value", "key", "headers")),
    st.integers(0, 1 << 16),
    st.integers(0, 7),
)
@settings(max_examples=150, deadline=None)
def test_a_bit_that_is_flipped_is_named(index, part, position, bit):
    changed = flip(EVENTS[index], part, position, bit)
    events = [*EVENTS[:index], changed, *EVENTS[index + 1 :]]
    assert named(events, index) or tells_of_its_batch(events, index)


def test_a_hash_that_became_longer_is_named():
    index = next(n for n, one in enumerate(ENVELOPES) if one.seq == 3)
    event, _ = read_event(EVENTS[index].value, EVENTS[index].headers)
    longer = replace(event.envelope, prev_hash=event.envelope.prev_hash + b"\0")
    changed = replace(EVENTS[index], value=encode_event(replace(event, envelope=longer)).value)
    assert named([*EVENTS[:index], changed, *EVENTS[index + 1 :]], index)


@given(indices)
@settings(max_examples=40, deadline=None)
def test_an_event_that_is_dropped_is_named(index):
    assert named([*EVENTS[:index], *EVENTS[index + 1 :]], index)


@given(indices, st.integers(1, 5))
@settings(max_examples=40, deadline=None)
def test_an_event_that_is_there_twice_is_named(index, later):
    events = list(EVENTS)
    events.insert(index + later, EVENTS[index])
    assert named(events, index)


@given(indices, st.data())
@settings(max_examples=40, deadline=None)
def test_two_events_of_a_session_that_changed_places_are_named(index, data):
    session = ENVELOPES[index].session_id
    others = [n for n, one in enumerate(ENVELOPES) if one.session_id == session and n != index]
    other = data.draw(st.sampled_from(others))
    events = list(EVENTS)
    events[index], events[other] = (
        replace(EVENTS[other], offset=EVENTS[index].offset),
        replace(EVENTS[index], offset=EVENTS[other].offset),
    )
    assert named(events, min(index, other))


@given(indices, indices)
@settings(max_examples=40, deadline=None)
def test_an_event_in_the_place_of_another_is_named(index, other):
    if index != other:
        events = list(EVENTS)
        events[index] = replace(EVENTS[other], offset=EVENTS[index].offset)
        assert named(events, index)
