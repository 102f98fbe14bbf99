"""The views say up to where they have the log, how far behind that is, and for whom a reader may wait."""

import psycopg
import pytest

from wakeful.events import records as r
from wakeful.events.codec import decode_event
from wakeful.events.errors import InvalidKey
from wakeful.events.log.protocol import LogFault, Place
from wakeful.projections.database import install, is_shown
from wakeful.projections.postgres import PostgresViews
from wakeful.projections.projector import Projector
from wakeful.projections.queries import Queries
from wakeful.projections.schemas import Schemas
from wakeful.projections.tokens import positions_of, token_of
from wakeful.projections.upkeep import LOOK_EVERY_S, Upkeep

S = ("acme", "s1")


class Watch:
    """A clock that each look finds a step further on."""

    def __init__(self):
        self.now_s = 0.0

    def __call__(self):
        self.now_s += LOOK_EVERY_S
        return self.now_s


@pytest.fixture
def project(installed, scribe, list_reader, catch_up):
    def run():
        views = PostgresViews(*installed)
        projector = Projector(
            list_reader(scribe), views, scribe.places, lambda x: decode_event(x.value, x.headers)
        )
        catch_up(projector)
        views.close()
        return projector.positions

    return run


def lags(queries):
    asked = "SELECT * FROM {views}.lag ORDER BY topic, partition LIMIT %(limit)s"
    return queries.ask(asked, limit=100)


def lag_of(installed):
    with Queries(*installed) as queries:
        return {row["partition"]: row for row in lags(queries)}


def look(installed, ends, positions):
    upkeep = Upkeep(*installed, lambda: ends, Watch())
    upkeep.look(positions)
    upkeep.close()


def test_a_quiet_log_is_behind_by_nothing_and_a_growing_one_by_what_is_missing(
    installed, scribe, project
):
    scribe.add(S, r.SessionOpened("desk"))
    scribe.commit()
    positions = project()
    look(installed, scribe.ends, positions)
    for row in lag_of(installed).values():
        assert (row["records_behind"], row["seconds_behind"]) == (0, 0)
        assert row["as_of"] >= row["measured_at"]
    place, end = next(iter(scribe.ends.items()))
    look(installed, {**scribe.ends, place: end + 7}, positions)
    row = lag_of(installed)[place.partition]
    assert (row["log_end"], row["records_behind"]) == (end + 7, 7)
    assert row["as_of"] >= row["last_record_at"] if row["last_record_at"] else row["as_of"]


def test_without_a_projector_that_looks_the_views_get_older(installed, scribe, project):
    scribe.add(S, r.SessionOpened("desk"))
    look(installed, scribe.ends, project())
    url, namespace = installed
    with psycopg.connect(url) as connection:
        connection.execute(
            Schemas(namespace).fill(
                "UPDATE {live}.ends SET measured_at = now() - interval '1 hour', "
                "complete_at = now() - interval '1 hour'"
            )
        )
        connection.execute(
            Schemas(namespace).fill("UPDATE {live}.positions SET last_record_ms = 1")
        )
    assert {row["seconds_behind"] > 3_500 for row in lag_of(installed).values()} == {True}


def test_a_time_that_there_is_not_is_null_and_not_the_beginning_of_time(installed, scribe, project):
    scribe.add(S, r.SessionOpened("desk"))
    scribe.request(S, "1.1")
    project()
    with Queries(*installed) as queries:
        (step,) = queries.ledger()
        (call,) = queries.activities()
        found = lags(queries)
    assert [step[name] for name in ("settled_at", "started_at", "progress_at")] == [None] * 3
    assert [call[name] for name in ("settled_at", "next_attempt_at")] == [None] * 2
    assert {row["last_record_at"] is None for row in found} == {True, False}


def test_a_log_that_does_not_answer_leaves_what_was_seen(installed, scribe, project):
    scribe.add(S, r.SessionOpened("desk"))
    look(installed, scribe.ends, project())
    before = lag_of(installed)
    upkeep = Upkeep(*installed, lambda: (_ for _ in ()).throw(LogFault("no broker")), Watch())
    upkeep.look({})
    upkeep.close()
    after = lag_of(installed)
    assert {p: row["measured_at"] for p, row in after.items()} == {
        p: row["measured_at"] for p, row in before.items()
    }


def test_a_reader_knows_in_its_own_statement_whether_the_rows_have_a_position(
    installed, scribe, project
):
    scribe.add(S, r.SessionOpened("desk"))
    scribe.commit()
    project()
    token = token_of(scribe.ends)
    later = token_of({place: end + 1 for place, end in scribe.ends.items()})
    url, namespace = installed
    with psycopg.connect(url) as connection:
        asked = Schemas(namespace).fill(
            "SELECT {views}.reached(%s), count(*) FROM {views}.sessions"
        )
        assert connection.execute(asked, (token,)).fetchone() == (True, 1)
        assert connection.execute(asked, (later,)).fetchone() == (False, 1)
        assert connection.execute(asked, ("9:1",)).fetchone() == (False, 1)
    with Queries(*installed) as queries:
        assert queries.position() == token
        queries.wait_for(positions_of(scribe.topic, token), timeout_ms=0)
        assert [row["position"] for row in lags(queries)] == token.split(",")


def test_a_token_is_read_back_as_it_was_written_and_another_text_is_none():
    positions = {Place("t", 10): 5, Place("t", 2): 0}
    assert token_of(positions) == "2:0,10:5"
    assert positions_of("t", "2:0,10:5") == positions
    assert positions_of("t", "") == {}
    assert positions_of("t", "1:9,1:3") == {Place("t", 1): 9}
    for bad in ("1", "1:", "a:1", "1:2,", "1:-2", "1:2;3:4"):
        with pytest.raises(InvalidKey, match="expected 'partition:offset'"):
            positions_of("t", bad)


def test_an_older_version_stays_in_view_until_the_new_one_has_what_was_in_the_log(
    installed, scribe, project
):
    """As an upgrade finds it: views over other tables, with rows that nobody fills any more."""
    url, namespace = installed
    schemas = Schemas(namespace)
    old = f"{namespace}_v2"
    with psycopg.connect(url) as connection:
        connection.execute(f'DROP SCHEMA "{namespace}" CASCADE')
        connection.execute(f'ALTER SCHEMA "{schemas.live}" RENAME TO "{old}"')
        connection.execute(f'CREATE SCHEMA "{namespace}"')
        for view in ("positions", "gaps"):
            columns = {"positions": "topic, partition, next_offset", "gaps": "topic, partition"}[
                view
            ]
            connection.execute(
                f'CREATE VIEW "{namespace}".{view} AS SELECT {columns} FROM "{old}".{view}'
            )
        connection.execute(f"INSERT INTO \"{old}\".positions VALUES ('old', 0, 77, 1)")
    install(url, namespace)
    scribe.add(S, r.SessionOpened("desk"))
    scribe.commit()
    upkeep = Upkeep(url, namespace, lambda: scribe.ends, Watch())
    upkeep.look({})
    with Queries(url, namespace) as queries:
        assert queries.positions() == {Place("old", 0): 77}
    assert not is_shown(url, namespace)
    upkeep.look(project())
    upkeep.close()
    assert is_shown(url, namespace)
    with Queries(url, namespace) as queries:
        assert queries.positions() == scribe.ends
        assert [row["session_id"] for row in queries.sessions()] == ["s1"]
    with psycopg.connect(url) as connection:
        left = connection.execute("SELECT to_regnamespace(%s)", (f'"{old}"',)).fetchone()
    assert left == (None,)
