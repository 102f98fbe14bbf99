"""What a database refuses is seen: a gap with its reason, an error in the log, an audit and a rebuild that say so."""

import json
import re

import psycopg
import pytest
from structlog.testing import capture_logs

from wakeful.events import records as r
from wakeful.events.codec import decode_event
from wakeful.events.topics import Topics
from wakeful.projections import escaping
from wakeful.projections.audit import Evidence, audit, differences, rebuild_rows
from wakeful.projections.audit.invariants import REBUILD
from wakeful.projections.memory import MemoryDatabase, MemoryViews
from wakeful.projections.postgres import PostgresViews, stored_gaps, stored_rows
from wakeful.projections.projector import GAPS_TOLD_MAX, Projector
from wakeful.projections.queries import Queries
from wakeful.projections.rebuild import Differs, Rebuild
from wakeful.projections.rows import APPROVALS, SESSIONS
from wakeful.projections.views import RowsRefused

S = ("acme", "s1")
TOLD = "a record of the log is not wholly in the views"
NOTHING = re.compile(rb"(?!)")
"""Finds nothing suspect: whatever users wrote goes to the database as it is."""


def decode(record):
    return decode_event(record.value, record.headers)


@pytest.fixture
def views(installed):
    one = PostgresViews(*installed)
    yield one
    one.close()


@pytest.fixture
def fill(list_reader, catch_up):
    """Projects all to the end; the projector and the errors it logged."""

    def to_the_end(scribe, views):
        projector = Projector(list_reader(scribe), views, scribe.places, decode)
        with capture_logs() as logs:
            catch_up(projector)
        return projector, [line for line in logs if line["log_level"] == "error"]

    return to_the_end


class Picky(MemoryViews):
    """Refuses batches with such a row, and counts them."""

    refused = 0

    def __init__(self, database, refuses):
        super().__init__(database)
        self._refuses = refuses

    def apply(self, batch):
        for table, rows in batch.rows.items():
            if any(self._refuses(table, row) for row in rows):
                self.refused += 1
                raise RowsRefused("22P02: no such text")
        super().apply(batch)


HALVES = (
    rb'{"text":"\udcff"}',
    rb'{"text":"\uDCFF"}',
    rb'"\ud83d"',
    rb'"\ude00\ud83d"',
    rb'["\ud83d","\ude00"]',
    rb'"\ud83d\ude00\ude00"',
    rb'{"\udfff":"\u0000"}',
    rb'"\\\udcff"',
    rb'"\ud83d\ude00"',
    rb'"\uD83D\uDE00"',
    rb'"\\udcff \\u0000"',
)


def add_halves(scribe, data):
    """A session whose message, arguments, answer, result, reply and outcome are all this JSON."""
    session, said = ("acme", f"h{len(scribe.events)}"), scribe.raw_payload(data)
    digest = b"\1" * 32
    scribe.add(session, r.SessionOpened("desk"))
    scribe.add(session, r.MessageReceived("m", said))
    scribe.add(
        session, r.ApprovalRequested("1.1", 1, 1, "refund", "write", said, digest, "boss", 1 << 41)
    )
    scribe.add(session, r.ApprovalGranted("1.1", digest, "fine"))
    scribe.request(session, "1.2")
    scribe.add(session, r.ActivityCompleted("1.2", 1, said, "w1"))
    scribe.add(session, r.ReplySent(1, 3, said))
    scribe.add(session, r.SessionCompleted(1, 3, said, said, None, 0))
    return session


@pytest.mark.case("L26")
def test_halves_of_characters_wherever_users_write_are_in_the_rows_as_in_a_rebuild(
    installed, views, new_scribe, list_reader, catch_up
):
    scribe = new_scribe()
    sessions = [add_halves(scribe, data) for data in HALVES]
    projector = Projector(list_reader(scribe), views, scribe.places, decode)
    catch_up(projector)
    assert projector.faults == 0
    assert list(differences(stored_rows(*installed), rebuild_rows(scribe.events))) == []
    rows = stored_rows(*installed)[SESSIONS]
    assert [bool(rows[session]["escaped"]) for session in sessions] == [True] * 8 + [False] * 3
    with Queries(*installed) as queries:
        assert queries.gaps() == []


def without_values(table, row):
    return table == SESSIONS and isinstance(json.loads(row["last_reply"] or "null"), dict)


def test_of_an_event_that_is_refused_all_but_the_users_value_is_stored_and_that_as_opaque_text(
    new_scribe, fill
):
    scribe, database = new_scribe(partitions=1), MemoryDatabase()
    scribe.add(S, r.SessionOpened("desk"))
    scribe.add(S, r.MessageReceived("m", scribe.payload(1)))
    scribe.add(S, r.ReplySent(1, 1, scribe.raw_payload(b'{"text":"x"}')))
    scribe.add(S, r.MessageReceived("n", scribe.payload(1)))
    projector, errors = fill(scribe, Picky(database, without_values))
    row = database.rows[SESSIONS][S]
    assert (row["seq"], row["messages"], row["escaped"]) == (4, 2, "last_reply")
    assert json.loads(row["last_reply"]) == '{"text":"x"}'
    (gap,) = database.gaps.values()
    assert (gap.offset, gap.reason) == (2, "refused")
    assert gap.detail == "sessions.last_reply kept as opaque text: 22P02: no such text"
    assert [(e["event"], e["offset"], e["detail"]) for e in errors] == [(TOLD, 2, gap.detail)]
    assert projector.applied == 4


def test_an_event_that_is_refused_without_its_values_too_is_left_out_and_the_others_go_on(
    new_scribe, fill
):
    scribe, database = new_scribe(partitions=1), MemoryDatabase()
    scribe.add(S, r.SessionOpened("desk"))
    scribe.add(S, r.ReplySent(1, 1, scribe.payload("x")))
    scribe.add(S, r.MessageReceived("m", scribe.payload(1)))
    _, errors = fill(scribe, Picky(database, lambda table, row: row.get("last_reply")))
    assert [(gap.offset, gap.reason) for gap in database.gaps.values()] == [
        (1, "refused"),
        (2, "events_missing"),
    ]
    assert database.gaps[scribe.topic, 0, 1].detail == "the event is left out: 22P02: no such text"
    assert [(e["offset"], e["reason"]) for e in errors] == [(1, "refused"), (2, "events_missing")]
    row = database.rows[SESSIONS][S]
    assert (row["seq"], row["messages"], row["last_reply"]) == (3, 1, None)


def test_a_refusal_is_kept_in_mind_while_another_partition_is_served_first(new_scribe, list_reader):
    scribe, database = new_scribe(partitions=2), MemoryDatabase()
    scribe.add(S, r.SessionOpened("desk"), partition=0)
    views = Picky(database, lambda table, row: row["session_id"] == "s1")
    projector, steps_max, others = (
        Projector(list_reader(scribe), views, scribe.places, decode),
        200,
        0,
    )
    for name, _ in zip(projector.steps(), range(steps_max), strict=False):
        if name == "j.faulted" and others < 5:
            others += 1
            scribe.add(("acme", f"other{others}"), r.SessionOpened("desk"), partition=1)
            scribe.records.insert(0, scribe.records.pop())  # the reader serves it first
        if database.gaps and projector.caught_up:
            break
    assert (views.refused, others, len(database.gaps)) == (1, 1, 1)
    assert database.next_offsets() == scribe.ends


def test_many_gaps_of_one_batch_are_counted_behind_the_first(new_scribe, fill):
    scribe = new_scribe(partitions=1)
    for _ in range(GAPS_TOLD_MAX + 3):
        scribe.append(0, b"acme/s1", b"\0garbage")
    _, errors = fill(scribe, MemoryViews(MemoryDatabase()))
    assert [e["event"] for e in errors[:-1]] == [TOLD] * GAPS_TOLD_MAX
    assert errors[-1]["count"] == 3


@pytest.mark.case("L26")
def test_what_postgres_refuses_is_a_gap_and_a_violation_and_nothing_else_is_lost(
    installed, views, new_scribe, fill, monkeypatch
):
    scribe = new_scribe(partitions=1)
    bad, good = add_halves(scribe, HALVES[0]), add_halves(scribe, b'"fine"')
    expected = rebuild_rows(scribe.events)
    monkeypatch.setattr(escaping, "_SUSPECT", NOTHING)
    _, errors = fill(scribe, views)
    monkeypatch.undo()
    live = stored_rows(*installed)
    told = {(table, key[1], said.split()[0]) for table, key, said in differences(live, expected)}
    assert told == {
        (SESSIONS, bad[1], "sessions.last_reply"),
        (APPROVALS, bad[1], "approvals.arguments"),
    }
    assert live[SESSIONS][bad]["seq"] == live[SESSIONS][good]["seq"] == 8
    assert json.loads(live[SESSIONS][bad]["outcome"]) == unquoted(HALVES[0])
    with Queries(*installed) as queries:
        positions = queries.positions()
    gaps = stored_gaps(*installed)
    assert [(gap.offset, gap.reason) for gap in gaps] == [
        (2, "refused"),
        (6, "refused"),
        (7, "refused"),
    ]
    assert all("22P02" in gap.detail for gap in gaps)
    assert [e["offset"] for e in errors] == [2, 6, 7]
    evidence = Evidence(
        Topics("t"), 1, events=scribe.records, rows=live, positions=positions, gaps=gaps
    )
    found = [v for v in audit(evidence, lambda record: None) if v.invariant == REBUILD]
    refused = [v for v in found if "the database refused" in v.sentence]
    assert [v.offset for v in refused] == [2, 6, 7]
    assert len(found) == 5


def unquoted(data):
    """As it is kept: the text of the JSON with each backslash doubled."""
    return data.decode().replace("\\", "\\\\")


@pytest.mark.case("L26")
def test_a_rebuild_counts_what_was_refused_and_one_that_mends_it_differs_first(
    installed, views, new_scribe, list_reader, fill, monkeypatch
):
    scribe = new_scribe(partitions=1)
    add_halves(scribe, HALVES[0])

    def rebuild(**options):
        run = Rebuild(
            *installed,
            list_reader(scribe),
            scribe.places,
            decode,
            ends=lambda: scribe.ends,
            rest=lambda _: None,
            **options,
        )
        try:
            assert list(run.steps())[-1] == "r.switched"
        finally:
            run.close()
        return run.progress

    with monkeypatch.context() as planted:
        planted.setattr(escaping, "_SUSPECT", NOTHING)
        fill(scribe, views)
        progress = rebuild()
    assert (progress.differing, progress.refused) == (0, 3)
    assert [refusal.key[-1] for refusal in progress.refusals] == [2, 6, 7]
    assert all("22P02" in refusal.told for refusal in progress.refusals)
    with pytest.raises(Differs):
        rebuild()
    assert rebuild(accept_differences=True).refused == 0
    assert list(differences(stored_rows(*installed), rebuild_rows(scribe.events))) == []
    with Queries(*installed) as queries:
        assert queries.gaps() == []


@pytest.mark.parametrize("source", [*HALVES, b'"\\u0000"'])
def test_opaque_text_is_what_postgres_takes_whatever_it_holds(postgres_url, source):
    held = escaping.opaque(source.decode())
    with psycopg.connect(postgres_url) as connection:
        (back,) = connection.execute("SELECT %s::jsonb", (held.value,)).fetchone()
    assert back == unquoted(source)
