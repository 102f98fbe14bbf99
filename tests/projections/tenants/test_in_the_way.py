"""No login for one tenant keeps our own processes from their work: what excludes them is not its to take or to keep."""

import zlib
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from time import monotonic

import psycopg
import pytest

from wakeful.deploy.cli import doctor
from wakeful.deploy.settings import Settings
from wakeful.events.errors import Transient
from wakeful.projections import exclusion, logins
from wakeful.projections import rebuild as rebuilding
from wakeful.projections.connection import connect
from wakeful.projections.database import drop, install
from wakeful.projections.postgres import PostgresViews
from wakeful.projections.rebuild import AnotherRebuild, Rebuild
from wakeful.projections.schemas import Schemas

from ..conftest import ListReader
from .conftest import DENIED, KIM, LEE, MINE, as_login, decode, project

NAMESPACE = "busy"
SCHEMAS = Schemas(NAMESPACE)
ADVISORY = ("wakeful/install", f"wakeful/rebuild/{NAMESPACE}")


@pytest.fixture
def busy(postgres_url, told):
    install(postgres_url, NAMESPACE)
    views = PostgresViews(postgres_url, NAMESPACE)
    views.claim(told.places)
    views.close()
    yield postgres_url
    drop(postgres_url, NAMESPACE)


@pytest.fixture
def kim(busy):
    """The URL of a login for one tenant."""
    url = as_login(busy, KIM, logins.grant(busy, NAMESPACE, KIM, tenant=MINE))
    yield url
    with psycopg.connect(busy, autocommit=True) as connection:
        connection.execute(
            f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '{KIM}'"
        )


@contextmanager
def writing(url):
    """A session of a login that has lifted what it may lift."""
    with closing(psycopg.connect(url, autocommit=True)) as connection:
        connection.execute("SET default_transaction_read_only = off")
        yield connection


def rebuild(url, told):
    return Rebuild(
        *(url, NAMESPACE, ListReader(told), told.places, decode),
        ends=lambda: told.ends,
        rest=lambda _: None,
        accept_differences=True,
    )


def of_another_version(url):
    """The next start has something to make."""
    with psycopg.connect(url) as connection:
        connection.execute(SCHEMAS.fill("COMMENT ON SCHEMA {lock} IS 'made by another'"))


def reads(connection):
    """Opens a transaction that has read every view, and stays."""
    connection.execute("BEGIN")
    for view in ("sessions", "approvals", "ledger", "lag"):
        connection.execute(f"SELECT FROM {view}")
    return connection


def is_there(connection):
    try:
        connection.execute("SELECT")
    except psycopg.OperationalError:
        return False
    return True


def test_advisory_locks_of_a_login_hold_up_nobody(busy, kim, told):
    """Also where it may take them, as with a database whose owner is no superuser."""
    with psycopg.connect(busy, autocommit=True) as operator:
        operator.execute("GRANT EXECUTE ON FUNCTION pg_advisory_lock(bigint) TO PUBLIC")
    with writing(kim) as login:
        for name in ADVISORY:
            login.execute("SELECT pg_advisory_lock(%s)", (zlib.crc32(name.encode()),))
        install(busy, NAMESPACE)
        of_another_version(busy)
        install(busy, NAMESPACE)
        logins.grant(busy, NAMESPACE, LEE, tenant=MINE)
        logins.revoke(busy, NAMESPACE, LEE)
        run = rebuild(busy, told)
        assert list(run.steps())[-1] == "r.switched"
        run.close()


def test_many_that_start_at_once_in_an_empty_database_all_come_up(postgres_url):
    """Before anything is made there is nothing yet that excludes."""
    with ThreadPoolExecutor(6) as pool:
        for namespace in ("crowd", "crowd2"):
            starts = [pool.submit(install, postgres_url, namespace) for _ in range(6)]
            assert [start.result() for start in starts] == [None] * 6
    for namespace in ("crowd", "crowd2"):
        drop(postgres_url, namespace)


@pytest.mark.parametrize("schema", [SCHEMAS.lock, SCHEMAS.live])
@pytest.mark.parametrize(
    "statement",
    [
        "SELECT FROM {}",
        "PREPARE p AS SELECT FROM {}",
        "PREPARE p AS SELECT FROM {} FOR UPDATE",
        "PREPARE p AS DELETE FROM {}",
        "LOCK TABLE {} IN ACCESS SHARE MODE",
        "LOCK TABLE {} IN EXCLUSIVE MODE",
        "CREATE RULE r AS ON INSERT TO {} DO NOTHING",
        "CREATE TRIGGER t BEFORE INSERT ON {} EXECUTE FUNCTION suppress_redundant_updates_trigger()",
        "COMMENT ON TABLE {} IS ''",
        "ANALYZE {}",
    ],
)
def test_a_login_can_name_no_table_that_our_processes_lock(busy, kim, schema, statement):
    """PREPARE asks for no right to a table, and keeps a lock on it; CREATE RULE waits for one that keeps all others out."""
    with psycopg.connect(busy) as operator:
        operator.execute("ALTER EVENT TRIGGER busy_sql DISABLE")
    table = "rebuilds" if schema == SCHEMAS.lock else "positions"
    with writing(kim) as login:
        login.execute("BEGIN")
        with pytest.raises(DENIED, match="for schema"):
            login.execute(statement.format(f'"{schema}".{table}'))


def test_where_a_login_may_name_things_there_is_no_table_but_its_own_line(busy, kim):
    """And what was archived is a view like all others, over a table where the locks are."""
    with psycopg.connect(busy) as operator:
        tables = operator.execute(
            "SELECT tablename FROM pg_tables WHERE schemaname = %s", (NAMESPACE,)
        ).fetchall()
    assert tables == [("logins",)]
    with writing(kim) as login:
        assert login.execute("SELECT FROM archived").rowcount == 0
        for table in ("archived", "archives"):
            for statement in ("SELECT FROM {}", "PREPARE p AS DELETE FROM {}"):
                with pytest.raises(DENIED, match="for schema"):
                    login.execute(statement.format(f'"{SCHEMAS.lock}".{table}'))
            with pytest.raises(DENIED):
                login.execute(f"DELETE FROM {table}")


def test_what_was_archived_where_readers_could_name_it_is_put_where_they_cannot(busy, kim):
    kept = ("archived", "archives")
    with psycopg.connect(busy) as operator:
        operator.execute(
            SCHEMAS.fill(
                "INSERT INTO {lock}.archived (tenant, session_id, status, seq, finished_at_ms, archived_at)"
                " VALUES (%s, 's1', 'Completed', 9, 1, now()), ('t1', 's1', 'Failed', 8, 1, now())"
            ),
            (MINE,),
        )
        for name in kept:  # as it was
            operator.execute(SCHEMAS.fill(f"DROP VIEW {{views}}.{name}"))
            operator.execute(SCHEMAS.fill(f"ALTER TABLE {{lock}}.{name} SET SCHEMA {{views}}"))
    of_another_version(busy)
    install(busy, NAMESPACE)
    with psycopg.connect(busy) as operator:
        asked = "SELECT count(*) FROM pg_tables WHERE schemaname = %s AND tablename = ANY (%s)"
        assert operator.execute(asked, (SCHEMAS.lock, list(kept))).fetchone() == (2,)
    with writing(kim) as login:
        assert login.execute("SELECT tenant, seq FROM archived").fetchall() == [(MINE, 9)]


def test_two_connections_of_a_login_do_not_stop_the_projector(busy, kim, told):
    """One keeps a lock, the other waits for one that excludes all: behind both nobody would write."""
    with psycopg.connect(busy) as operator:
        operator.execute("ALTER EVENT TRIGGER busy_sql DISABLE")
    with writing(kim) as one, writing(kim) as other:
        reads(one)
        table = f'"{SCHEMAS.live}".sessions'
        with pytest.raises(DENIED):
            one.execute(f"PREPARE p AS DELETE FROM {table}")
        with pytest.raises(DENIED):
            other.execute(f"CREATE RULE r AS ON INSERT TO {table} DO NOTHING")
        rows = PostgresViews(busy, NAMESPACE)
        rows.claim(told.places)
        rows.close()


def test_a_start_that_has_nothing_to_make_waits_for_no_reader(busy, kim, monkeypatch):
    monkeypatch.setattr(exclusion, "WAIT_MS", 300)
    with writing(kim) as login:
        reads(login)
        install(busy, NAMESPACE)
        assert is_there(login)


def test_a_login_in_the_way_of_a_new_version_loses_its_connection(busy, kim, monkeypatch):
    monkeypatch.setattr(exclusion, "GRACE_S", 0.1)
    of_another_version(busy)
    with writing(kim) as login:
        reads(login)
        install(busy, NAMESPACE)
        assert not is_there(login)


def test_anybody_else_in_the_way_is_named_and_left_alone(busy, monkeypatch):
    monkeypatch.setattr(exclusion, "GRACE_S", 0.1)
    monkeypatch.setattr(exclusion, "WAIT_MS", 1_500)
    of_another_version(busy)
    with closing(connect(busy, role=SCHEMAS.app)) as service:
        service.execute(SCHEMAS.fill("SET search_path TO {views}"))
        pid = reads(service).info.backend_pid
        with pytest.raises(exclusion.Busy, match="cannot be changed now") as refused:
            install(busy, NAMESPACE)
        assert is_there(service)
    told = str(refused.value)
    assert f"process {pid} of role 'wakeful', as 'wakeful', since 20" in told
    assert f"SELECT pg_terminate_backend({pid})" in told
    install(busy, NAMESPACE)


def test_who_makes_views_for_long_is_named_to_whoever_waits_and_by_the_doctor(busy, monkeypatch):
    monkeypatch.setattr(exclusion, "WAIT_MS", 1_500)
    monkeypatch.setattr(exclusion, "LONG_S", {"installs": 0.5})
    given = Settings(postgres=busy, namespace=NAMESPACE)
    with closing(connect(busy, role=SCHEMAS.owner)) as stuck, stuck.transaction():
        exclusion.take(stuck, SCHEMAS, "installs")
        pid = stuck.info.backend_pid
        for work in (
            lambda: install(busy, NAMESPACE),
            lambda: logins.grant(busy, NAMESPACE, LEE, tenant=MINE),
        ):
            with pytest.raises(exclusion.Busy, match=f"process {pid} of role 'wakeful'"):
                work()
        (found,) = doctor._logins(given)
    assert (found.verdict, found.to_do[-len(f"({pid})") :]) == ("wrong", f"({pid})")
    assert "all other installs" in found.what
    (found,) = doctor._logins(given)
    assert found.verdict == "ok"
    assert logins.logins(busy, NAMESPACE) == []


def test_a_second_rebuild_is_told_who_runs_the_first(busy, told):
    first, second = rebuild(busy, told), rebuild(busy, told)
    steps = first.steps()
    next(steps)
    pid = first._holding.info.backend_pid
    with pytest.raises(
        AnotherRebuild, match=rf"\(process {pid} of role 'wakeful'.*wait for it, or end"
    ):
        next(second.steps())
    steps.close()
    assert list(second.steps())[-1] == "r.switched"
    first.close()
    second.close()


def test_a_rebuild_that_no_longer_excludes_others_switches_nothing(busy, told):
    run = rebuild(busy, told)
    steps = run.steps()
    next(steps)
    with psycopg.connect(busy) as operator:
        operator.execute("SELECT pg_terminate_backend(%s, 5000)", (run._holding.info.backend_pid,))
    with pytest.raises(Transient, match="keeps other rebuilds away was lost"):
        list(steps)
    run.close()
    with psycopg.connect(busy) as operator:
        there = operator.execute("SELECT to_regnamespace(%s) IS NOT NULL", (f'"{SCHEMAS.beside}"',))
        assert there.fetchone() == (True,)


def test_a_rebuild_is_patient_with_a_login_that_reads_and_then_ends_its_connection(
    busy, kim, told, monkeypatch
):
    monkeypatch.setattr(rebuilding, "POLITE_MAX", 2)
    project(busy, told, NAMESPACE)
    with writing(kim) as login:
        reads(login)
        run = rebuild(busy, told)
        names = list(run.steps())
        run.close()
        assert not is_there(login)
    assert names[-1] == "r.switched"
    assert names.count("r.stepped_back") >= 2


def test_a_rebuild_that_never_finds_a_pause_names_who_reads_and_keeps_its_rows(
    busy, told, monkeypatch
):
    monkeypatch.setattr(rebuilding, "SWITCHES_MAX", 1)
    project(busy, told, NAMESPACE)
    with closing(connect(busy, role=SCHEMAS.app)) as service:
        service.execute(SCHEMAS.fill("SET search_path TO {views}"))
        pid = reads(service).info.backend_pid
        run = rebuild(busy, told)
        with pytest.raises(Transient, match="without a pause") as refused:
            list(run.steps())
        run.close()
        assert is_there(service)
    said = str(refused.value)
    assert f"in the way is process {pid} of role 'wakeful'" in said
    assert said.endswith(f"SELECT pg_terminate_backend({pid}), then run it again")


def test_an_access_is_taken_away_also_from_who_stands_in_the_way_of_it(busy, kim, monkeypatch):
    """It may wait for a lock that keeps all others out of the table of logins: nobody would be let in or out."""
    monkeypatch.setattr(exclusion, "GRACE_S", 0.1)
    with writing(kim) as one, writing(kim) as other:
        one.execute("BEGIN")
        one.execute("SELECT FROM logins")
        with psycopg.connect(busy) as operator:
            operator.execute("ALTER EVENT TRIGGER busy_sql DISABLE")
        waits = b"CREATE RULE r AS ON INSERT TO logins DO NOTHING"
        other.pgconn.send_query(waits)
        waiting = "SELECT FROM pg_locks WHERE pid = %s AND NOT granted"
        limit = monotonic() + 10
        with psycopg.connect(busy, autocommit=True) as operator:
            while not operator.execute(waiting, (other.info.backend_pid,)).rowcount:
                assert monotonic() < limit, "it does not wait for its lock"
        assert logins.revoke(busy, NAMESPACE, KIM)
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(kim)


def test_the_doctor_names_a_login_whose_transaction_lingers(busy, kim, monkeypatch):
    monkeypatch.setattr(exclusion, "LINGERING_S", 0.0)
    with writing(kim) as login:
        reads(login)
        (found,) = doctor._logins(Settings(postgres=busy, namespace=NAMESPACE))
        assert found.verdict == "advice"
        assert f"process {login.info.backend_pid} of role '{KIM}'" in found.what
