"""Events that another writer put into the topic: they are gaps that people see, and the views are as without them."""

from contextlib import suppress

import pytest

from wakeful.events import records as r
from wakeful.events.codec import decode_event
from wakeful.events.keys import partition_of
from wakeful.events.state import NO_HASH
from wakeful.projections.audit import differences, rebuild_rows
from wakeful.projections.memory import MemoryDatabase, MemoryViews
from wakeful.projections.projector import Projector

S = ("acme", "s1")


@pytest.fixture
def project(list_reader, catch_up):
    def to_the_end(scribe, database, **options):
        def decode(record):
            return decode_event(record.value, record.headers)

        views = MemoryViews(database)
        projector = Projector(list_reader(scribe), views, scribe.places, decode, **options)
        catch_up(projector)
        return projector

    return to_the_end


def told(database):
    return [gap.reason for gap in database.gaps.values()]


def assert_as_without(database, scribe):
    assert list(differences(database.rows, rebuild_rows(scribe.events))) == []


def intrude(scribe, new_scribe, *, seq, prev_hash, key=b"acme/s1", partition=None):
    """A well-formed event of the session by somebody else, in the scribe's log and not in its history."""
    stranger = new_scribe()
    with suppress(ValueError):  # what cannot be hashed is appended all the same
        stranger.add(S, r.SessionCancelled((), (), ()), seq=seq, prev_hash=prev_hash)
    (record,) = stranger.records
    where = partition_of(key, scribe.partitions) if partition is None else partition
    scribe.append(where, key, record.value, record.headers)


def opened(scribe):
    scribe.add(S, r.SessionOpened("desk"))
    scribe.add(S, r.MessageReceived("m1", scribe.payload({"text": "hi"})))


@pytest.mark.parametrize("key", [b"acme/s2", b"other/s1", b"", None])
def test_an_event_under_another_key_is_a_gap(scribe, new_scribe, project, key):
    opened(scribe)
    _, head = scribe.heads[S]
    intrude(scribe, new_scribe, seq=3, prev_hash=head, key=key, partition=0)
    scribe.add(S, r.MessageReceived("m2", scribe.payload({"text": "there"})))
    database = MemoryDatabase()
    project(scribe, database)
    assert told(database) == ["wrong_key"]
    assert_as_without(database, scribe)


@pytest.mark.parametrize("prev_hash", [b"\1" * 32, NO_HASH, b"", b"short"])
def test_an_event_that_does_not_continue_the_chain_is_a_gap_and_the_true_one_is_applied(
    scribe, new_scribe, project, prev_hash
):
    opened(scribe)
    intrude(scribe, new_scribe, seq=3, prev_hash=prev_hash)
    scribe.add(S, r.MessageReceived("m2", scribe.payload({"text": "there"})))
    for records_max in (500, 1):
        database = MemoryDatabase()
        project(scribe, database, records_max=records_max)
        assert told(database) == ["foreign"]
        assert_as_without(database, scribe)


def test_a_session_does_not_begin_with_a_link_to_something_else(scribe, new_scribe, project):
    intrude(scribe, new_scribe, seq=1, prev_hash=b"\1" * 32)
    opened(scribe)
    database = MemoryDatabase()
    project(scribe, database)
    assert told(database) == ["foreign"]
    assert_as_without(database, scribe)


def test_a_projector_that_has_just_started_goes_on_from_the_stored_row(scribe, project):
    opened(scribe)
    database = MemoryDatabase()
    project(scribe, database)
    scribe.add(S, r.MessageReceived("m2", scribe.payload({"text": "there"})))
    project(scribe, database)
    assert told(database) == []
    assert_as_without(database, scribe)


def test_heads_that_were_let_go_are_taken_on_trust(scribe, project):
    for number in range(10):
        scribe.add(("acme", f"s{number}"), r.SessionOpened("desk"))
    for number in range(10):
        message = r.MessageReceived("m1", scribe.payload({"text": "hi"}))
        scribe.add(("acme", f"s{number}"), message)
    database = MemoryDatabase()
    projector = project(scribe, database, records_max=3, rows_max=2)
    assert len(projector._chains._heads) == 2
    assert told(database) == []
    assert_as_without(database, scribe)
