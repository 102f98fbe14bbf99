"""The views in Postgres: one transaction per batch, guarded, equal to a rebuild, whatever dies when."""

import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest

from wakeful.deploy.cli import doctor
from wakeful.deploy.settings import Settings
from wakeful.events import records as r
from wakeful.events.codec import decode_event
from wakeful.events.errors import InvalidKey, Transient
from wakeful.events.log.protocol import Place
from wakeful.projections.audit import differences, rebuild_rows
from wakeful.projections.database import drop, install
from wakeful.projections.postgres import PostgresViews, stored_rows
from wakeful.projections.projector import Projector
from wakeful.projections.queries import Queries
from wakeful.projections.rows import SESSIONS, TABLES
from wakeful.projections.schemas import Schemas
from wakeful.projections.views import Batch, Gap, Moved, RowsRefused, Superseded, ViewsLost

S = ("acme", "s1")
PLACE = Place("t.events.v1", 0)

VICTIM = """
import importlib.util, os, random, signal, sys
conftest, url, namespace, seed, point, passes = sys.argv[1:]
spec = importlib.util.spec_from_file_location("histories", conftest)
histories = importlib.util.module_from_spec(spec)
sys.modules["histories"] = histories
spec.loader.exec_module(histories)
from wakeful.events.codec import decode_event
from wakeful.projections.postgres import PostgresViews
from wakeful.projections.projector import Projector
scribe = histories.Scribe()
scribe.tell_many(8, random.Random(int(seed)))
decode = lambda record: decode_event(record.value, record.headers)
projector = Projector(
    histories.ListReader(scribe), PostgresViews(url, namespace), scribe.places, decode, records_max=25
)
left = int(passes)
for name in projector.steps():
    left -= name == point
    if not left:
        os.kill(os.getpid(), signal.SIGKILL)
"""


def decode(record):
    return decode_event(record.value, record.headers)


@pytest.fixture
def views(installed):
    one = PostgresViews(*installed)
    yield one
    one.close()


def stored(installed):
    return stored_rows(*installed)


def assert_rebuilt(installed, scribe):
    assert list(differences(stored(installed), rebuild_rows(scribe.events))) == []
    with Queries(*installed) as queries:
        assert queries.positions() == scribe.ends


def session_row(scribe, text="hi"):
    scribe.add(S, r.SessionOpened("desk"))
    scribe.add(S, r.ReplySent(1, 1, scribe.payload(text)))
    return rebuild_rows(scribe.events)[SESSIONS][S]


def commit(views, batch):
    views.apply(batch)
    views.send_commit()
    views.await_commit()


@pytest.mark.case("U24")
@pytest.mark.case("L26")
def test_live_rows_equal_a_rebuild_row_for_row(installed, views, new_scribe, list_reader, catch_up):
    scribe = new_scribe()
    scribe.tell_many(20, random.Random(1))
    hostile = ("t0", "hostile")
    scribe.add(hostile, r.SessionOpened("a\0b"))
    for data in (
        b'"\\u0000\\ud800"',
        b"[NaN, 1e400000]",
        b"[" * 100_000,
        b"\xff\0",
        b"1" * 5_000,
        b"-1.50E-3",
    ):
        scribe.add(hostile, r.ReplySent(1, 1, scribe.raw_payload(data)))
        projector = Projector(
            list_reader(scribe), views, scribe.places, decode, records_max=50, rows_max=10
        )
        catch_up(projector)
        assert projector.faults == 0
        assert_rebuilt(installed, scribe)
    with Queries(*installed) as queries:
        assert queries.gaps() == []


def test_a_position_moves_only_from_where_its_holder_left_it(views):
    assert views.claim([PLACE]) == {PLACE: 0}
    commit(views, Batch({PLACE: (0, 5)}))
    with pytest.raises(Moved, match="1 of 1 positions"):
        views.apply(Batch({PLACE: (4, 6)}))
    assert views.recall() == {PLACE: 5}


def test_a_batch_that_is_turned_away_leaves_no_row_behind(installed, views, scribe):
    row = session_row(scribe)
    views.claim([PLACE])
    with pytest.raises(Moved):
        views.apply(Batch({PLACE: (1, 2)}, {SESSIONS: [row]}, [Gap(*PLACE, 0, "x", "y")]))
    views.recall()
    assert stored(installed)[SESSIONS] == {}
    with Queries(*installed) as queries:
        assert queries.gaps() == []


def test_a_zombie_rolls_back_and_learns_that_it_is_one(installed, views, scribe):
    views.claim([PLACE])
    owner = PostgresViews(*installed)
    assert owner.claim([PLACE]) == {PLACE: 0}
    with pytest.raises(Moved):
        views.apply(Batch({PLACE: (0, 2)}, {SESSIONS: [session_row(scribe)]}))
    with pytest.raises(Superseded, match="epoch 2, this projector at 1"):
        views.recall()
    commit(owner, Batch({PLACE: (0, 2)}))
    owner.close()
    assert stored(installed)[SESSIONS] == {}


def test_a_take_over_waits_for_the_commit_that_is_under_way(installed, views, scribe):
    views.claim([PLACE])
    views.apply(Batch({PLACE: (0, 2)}, {SESSIONS: [session_row(scribe)]}))
    views.send_commit()
    owner = PostgresViews(*installed)
    assert owner.claim([PLACE]) == {PLACE: 2}
    owner.close()
    assert list(stored(installed)[SESSIONS]) == [S]


def test_an_older_row_never_replaces_a_newer_one(installed, views, scribe):
    row = session_row(scribe)
    views.claim([PLACE])
    commit(views, Batch({PLACE: (0, 2)}, {SESSIONS: [row]}))
    commit(views, Batch({PLACE: (2, 3)}, {SESSIONS: [{**row, "seq": 1, "status": "Failed"}]}))
    assert stored(installed)[SESSIONS][S]["status"] == row["status"]


def test_rows_that_postgres_refuses_are_told_apart_from_a_lost_connection(views, scribe):
    row = session_row(scribe)
    views.claim([PLACE])
    for bad in ({"outcome": "{"}, {"workflow": "\0"}, {"waiting_for": None}, {"turn": 1 << 40}):
        with pytest.raises(RowsRefused):
            views.apply(Batch({PLACE: (0, 2)}, {SESSIONS: [{**row, **bad}]}))
        assert views.recall() == {PLACE: 0}


def test_a_backend_that_dies_before_or_under_a_commit_is_a_lost_view_and_comes_back(
    installed, views, scribe
):
    row = session_row(scribe)
    views.claim([PLACE])

    def finish(*_):
        views.send_commit()
        views.await_commit()

    for call in ("rows", "commit"):
        views.apply(Batch({PLACE: (0, 2)}, {SESSIONS: [row]}))
        with psycopg.connect(installed[0], autocommit=True) as other:
            other.execute(
                "SELECT pg_terminate_backend(%s, 10000)", (views._connection.info.backend_pid,)
            )
        with pytest.raises(ViewsLost):
            (views.rows if call == "rows" else finish)(SESSIONS, [S])
        assert views.recall() == {PLACE: 0}
    assert stored(installed)[SESSIONS] == {}


@pytest.mark.chaos
@pytest.mark.parametrize("point", ["j.polled", "j.applied", "j.commit_sent", "j.committed"])
def test_kill_9_in_mid_batch_loses_and_repeats_nothing(
    installed, views, new_scribe, list_reader, catch_up, tmp_path, point
):
    script = tmp_path / "victim.py"
    script.write_text(VICTIM)
    conftest = str(Path(__file__).with_name("conftest.py"))
    for passes in (1, 3):
        arguments = [conftest, *installed, "11", point, str(passes)]
        victim = subprocess.run(
            [sys.executable, str(script), *arguments], check=False, timeout=60, env=os.environ
        )
        assert victim.returncode == -signal.SIGKILL
    scribe = new_scribe()
    scribe.tell_many(8, random.Random(11))
    survivor = Projector(list_reader(scribe), views, scribe.places, decode, records_max=25)
    catch_up(survivor)
    assert 0 < survivor.applied < len(scribe.records) or point in ("j.polled", "j.applied")
    assert_rebuilt(installed, scribe)


def test_installing_twice_and_at_once_changes_nothing(installed, views, scribe):
    views.claim([PLACE])
    commit(views, Batch({PLACE: (0, 2)}, {SESSIONS: [session_row(scribe)]}))
    install(*installed)
    assert list(stored(installed)[SESSIONS]) == [S]


def test_namespaces_in_one_database_do_not_see_each_other(installed, views, scribe):
    url, namespace = installed
    install(url, f"{namespace}-b")
    views.claim([PLACE])
    commit(views, Batch({PLACE: (0, 2)}, {SESSIONS: [session_row(scribe)]}))
    with Queries(url, f"{namespace}-b") as queries:
        assert (queries.sessions(), queries.positions()) == ([], {})
    drop(url, f"{namespace}-b")
    assert list(stored(installed)[SESSIONS]) == [S]


@pytest.mark.parametrize("view", ["ledger", "gaps", "positions"])
def test_the_doctor_names_a_view_that_is_missing_and_the_next_start_brings_it(installed, view):
    url, namespace = installed
    given = Settings(postgres=url, namespace=namespace)
    assert [one.verdict for one in doctor._views(given)] == ["ok"]
    with psycopg.connect(url) as connection:
        connection.execute(f'DROP VIEW "{namespace}".{view} CASCADE')
    (found,) = doctor._views(given)
    assert found.verdict == "wrong"
    assert f"views are missing in '{namespace}': " in found.what
    assert view in found.what.partition(": ")[2].split(", ")
    install(url, namespace)
    assert [one.verdict for one in doctor._views(given)] == ["ok"]


def test_the_views_of_an_older_version_are_replaced_where_they_are(installed, views):
    """Whoever built on a view, or was granted it, keeps it: columns are added at its end."""
    url, namespace = installed
    names = {"ledger": "escaped", "sessions": "escaped"}
    with psycopg.connect(url) as connection:
        for view, last in names.items():
            columns = [
                name
                for (name,) in connection.execute(
                    "SELECT column_name::text FROM information_schema.columns "
                    "WHERE table_schema = %s AND table_name = %s ORDER BY ordinal_position",
                    (namespace, view),
                )
            ]
            (made,) = connection.execute(
                "SELECT pg_get_viewdef(format('%%I.%%I', %s::text, %s::text)::regclass)",
                (namespace, view),
            ).fetchone()
            old = ", ".join(columns[: columns.index(last) + 1])
            where = f'"{namespace}".{view}'
            connection.execute(f"DROP VIEW {where}")
            connection.execute(f"CREATE VIEW {where} AS SELECT {old} FROM ({made.rstrip(';')}) m")
            connection.execute(f"CREATE VIEW {where}_mine AS SELECT * FROM {where}")
        connection.execute(Schemas(namespace).fill("COMMENT ON SCHEMA {lock} IS 'made by other'"))
    install(url, namespace)
    with Queries(url, namespace) as queries:
        assert (queries.ledger(status="uncertain"), queries.sessions()) == ([], [])
        shown = {
            c.name
            for c in queries._connection.execute(f'SELECT * FROM "{namespace}".ledger').description
        }
    assert {"since", "progress", "recovered", "resolved_by", "comment"} <= shown


def test_nothing_of_a_namespace_is_left_when_it_is_dropped(installed):
    url, namespace = installed
    with psycopg.connect(url) as connection:
        connection.execute(f'CREATE SCHEMA "{namespace}_v1"')
    drop(url, namespace)
    with psycopg.connect(url) as connection:
        left = connection.execute(
            "SELECT nspname FROM pg_namespace WHERE starts_with(nspname, %s)", (namespace,)
        ).fetchall()
    assert left == []


@pytest.mark.parametrize(
    "namespace",
    ["public", "pg_x", "information_schema", "a_v1", "a_lock", "A", "a b", 'a"; DROP', "x" * 59],
)
def test_a_namespace_that_cannot_name_a_schema_is_refused(namespace):
    with pytest.raises(InvalidKey, match="cannot name a schema"):
        Schemas(namespace)


def test_every_view_and_every_column_of_it_is_explained(installed):
    url, namespace = installed
    with psycopg.connect(url) as connection:
        told = connection.execute(
            "SELECT c.relname, coalesce(a.attname, ''), coalesce(col_description(c.oid, a.attnum), "
            "obj_description(c.oid)) FROM pg_class c "
            "JOIN pg_namespace n ON n.oid = c.relnamespace AND n.nspname = %s "
            "JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 WHERE c.relkind = 'v'",
            (namespace,),
        ).fetchall()
        views = connection.execute(
            "SELECT c.relname, obj_description(c.oid) FROM pg_class c "
            "JOIN pg_namespace n ON n.oid = c.relnamespace AND n.nspname = %s WHERE c.relkind = 'v'",
            (namespace,),
        ).fetchall()
    assert {name for name, _ in views} == {
        *("sessions", "approvals", "ledger", "activities", "timers", "outcomes", "refusals"),
        *("gaps", "positions", "lag", "stretches", "archived", "archives"),
        *("attributes", "terms", "jobs", "children", "resources"),
    }
    assert all(text for _, text in views)
    sentences = dict(views)
    assert [(v, c) for v, c, text in told if not text or text == sentences[v]] == []


def test_the_tenant_is_in_every_unique_index_over_peoples_rows(installed):
    url, namespace = installed
    with psycopg.connect(url) as connection:
        indexes = connection.execute(
            "SELECT tablename, indexdef FROM pg_indexes WHERE schemaname = %s AND indexdef LIKE 'CREATE UNIQUE%%'",
            (Schemas(namespace).tables,),
        ).fetchall()
    mine = [text for table, text in indexes if table in TABLES]
    assert len(mine) == len(TABLES)
    assert all("(tenant, " in text for text in mine)


def test_questions_are_answered_by_tenant_status_and_session(
    installed, views, scribe, list_reader, catch_up
):
    other = ("other", "s1")
    for session in (S, other):
        scribe.add(session, r.SessionOpened("desk"))
        scribe.add(session, r.MessageReceived("m1", scribe.payload("hi")))
        scribe.add(session, r.TurnStarted(1, "message", "", "m1", "desk", 1, ()))
        scribe.add(
            session,
            r.ApprovalRequested(
                "1.1-a",
                1,
                1,
                "refund",
                "write",
                scribe.payload({"cents": 5}),
                b"\1" * 32,
                "boss",
                1 << 62,
            ),
        )
    scribe.add(S, r.ApprovalGranted("1.1-a", b"\1" * 32, "ok"), actor="eve")
    scribe.request(S, "1.2", approval="granted", proposal="1.1-a")
    projector = Projector(list_reader(scribe), views, scribe.places, decode)
    catch_up(projector)
    with Queries(*installed) as queries:
        queries.wait_for(scribe.ends, timeout_ms=5_000)
        assert [row["tenant"] for row in queries.sessions(tenant="acme")] == ["acme"]
        assert len(queries.sessions(status="Running")) == 2
        assert queries.sessions(status="Failed") == []
        assert {row["tenant"] for row in queries.session("s1")} == {"acme", "other"}
        assert [row["tenant"] for row in queries.approvals()] == ["other"]
        assert [row["decided_by"] for row in queries.approvals(status="granted")] == ["eve"]
        (step,) = queries.ledger(session_id="s1")
        assert (step["approved_by"], step["asked_by"], step["status"]) == (
            "eve",
            "ann",
            "requested",
        )
        with pytest.raises(ValueError, match="limit 0"):
            queries.sessions(limit=0)
        with pytest.raises(Transient, match="is the projector running"):
            queries.wait_for({Place(scribe.topic, 0): 1 << 40}, timeout_ms=1)
        with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
            queries._connection.execute("CREATE TABLE x (y int)")
