"""What Postgres lets every login do besides reading is taken away where it can be, and told where it cannot."""

import re
from contextlib import closing, contextmanager
from urllib.parse import urlsplit

import psycopg
import pytest

from wakeful.deploy.cli import doctor
from wakeful.deploy.cli.main import invoke
from wakeful.deploy.exits import Exit
from wakeful.deploy.settings import Settings
from wakeful.events.log.protocol import Place
from wakeful.projections import confining, exclusion, logins, probe
from wakeful.projections.database import drop, install
from wakeful.projections.postgres import PostgresViews
from wakeful.projections.schemas import Schemas
from wakeful.projections.views import Batch, ViewsLost

from .conftest import DENIED, MINE, as_login

NAMESPACE = "narrow"
SCHEMAS = Schemas(NAMESPACE)
MAKES = (
    "SELECT lo_create(0)",
    "SELECT lo_creat(-1)",
    "SELECT lo_from_bytea(0, 'x')",
    "CREATE TEMP TABLE t (x integer)",
    "CREATE FUNCTION pg_temp.f() RETURNS integer LANGUAGE sql RETURN 1",
    "SELECT pg_advisory_lock(1)",
    "SELECT pg_try_advisory_xact_lock_shared(1, 2)",
    "CREATE TABLE public.t (x integer)",
    "CREATE SCHEMA mine",
    "CREATE EXTENSION dblink",
    "COPY (SELECT 1) TO PROGRAM 'true'",
    "SELECT pg_read_file('PG_VERSION')",
    "ALTER ROLE CURRENT_USER CONNECTION LIMIT -1",
    "ALTER ROLE CURRENT_USER VALID UNTIL 'infinity'",
    "SELECT pg_logical_emit_message(false, 'a', 'b')",
    "SELECT pg_logical_emit_message(true, 'a', 'b'::bytea)",
    "SELECT pg_current_xact_id()",
    "SELECT txid_current()",
    "SELECT pg_export_snapshot()",
    "SELECT pg_create_restore_point('a')",
    "SELECT pg_switch_wal()",
    "SELECT pg_replication_origin_create('a')",
    "SELECT pg_create_physical_replication_slot('a')",
    "SET temp_file_limit = -1",
)
FUNCTIONS = list(confining.FUNCTIONS)
HARMLESS = re.compile(
    # ask for a right on what they change, or for REPLICATION or a superuser
    "nextval|setval|brin_.*|gin_clean_.*|pg_(copy|create|drop)_.*_slot|pg_.*_slot_.*|pg_sync_replication_slots"
    "|pg_(clear|restore)_.*_stats|binary_upgrade_.*|pg_nextoid|pg_stop_making_.*|pg_import_system_.*|pg_extension_config_dump"
    # end or set one's own sessions, or wait
    "|set_config|setseed|pg_(cancel|terminate)_backend|pg_sleep.*|pg_stat_(clear_snapshot|force_next_flush)"
    # notices, which are told in the limits
    "|pg_notify"
    # only read, run what is given as its own, or draw lots
    "|(query|cursor)_to_xml.*|ts_(stat|rewrite)|.*handler|plpgsql_.*|dsnowball_.*|amvalidate|currtid2|(curr|last)val|random.*|array_.*"
    "|gen_random_uuid|uuid.*|bernoulli|system|timeofday|clock_timestamp|current_query|txid_status|pg_stat_get_.*"
    "|pg_(available_wal|blocking|collation|control|current_wal|database|get|indexes|is|isolation|jit|last|lock_status|notification|partition"
    "|prepared_xact|relation|safe|sequence_last|table|tablespace|total|wal_summary|xact).*"
)
"""Volatile functions that everybody may call and that give nobody more than the right to read."""


@pytest.fixture
def narrow(endpoints):
    """A database of its own: what is taken from everybody is taken in all of it."""
    probe.drop_database(endpoints.postgres, NAMESPACE)
    url = probe.create_database(endpoints.postgres, NAMESPACE)
    install(url, NAMESPACE)
    yield url
    drop(url, NAMESPACE)
    probe.drop_database(endpoints.postgres, NAMESPACE)


@pytest.fixture
def modest(endpoints):
    """A database whose owner may make roles, and is no superuser: its URL, and that of one who is."""
    admins, database = endpoints.postgres, "modest_db"
    probe.drop_database(admins, database)
    with psycopg.connect(admins, autocommit=True) as admin:
        admin.execute("CREATE ROLE modest LOGIN CREATEROLE PASSWORD 'plain'")
        admin.execute(f"CREATE DATABASE {database} OWNER modest")
    there = urlsplit(admins)._replace(path=f"/{database}").geturl()
    where = urlsplit(there).netloc.rpartition("@")[2]
    url = urlsplit(there)._replace(netloc=f"modest:plain@{where}").geturl()
    install(url, "modest_ns")
    yield url, there
    drop(url, "modest_ns")
    probe.drop_database(admins, database)
    with psycopg.connect(admins, autocommit=True) as admin:
        admin.execute("DROP ROLE modest")


def granted(url, name):
    return as_login(url, name, logins.grant(url, NAMESPACE, name, tenant=MINE))


@contextmanager
def lifted(url):
    with closing(psycopg.connect(url, autocommit=True)) as connection:
        connection.execute("SET default_transaction_read_only = off")
        yield connection


def left(url):
    return [one.may for one in logins.left_to_logins(url, NAMESPACE)]


def test_a_login_makes_nothing_and_takes_no_locks_where_we_may_see_to_that(narrow):
    assert len(left(narrow)) == 2 + len(FUNCTIONS)
    url = granted(narrow, "pam")
    with lifted(url) as login:
        for statement in MAKES:
            with pytest.raises(DENIED):
                login.execute(statement)
        assert login.execute("SELECT count(*) FROM pg_largeobject_metadata").fetchone() == (0,)
    (found,) = doctor._logins(Settings(postgres=narrow, namespace=NAMESPACE))
    assert (found.verdict, left(narrow)) == ("ok", [])


@pytest.mark.parametrize("table", ["pg_catalog.pg_class", "logins", "sessions"])
@pytest.mark.parametrize(
    "statement",
    [
        "CREATE RULE r AS ON INSERT TO {} DO NOTHING",
        "CREATE TRIGGER t BEFORE INSERT ON {} EXECUTE FUNCTION suppress_redundant_updates_trigger()",
    ],
)
def test_a_login_waits_for_no_table_in_front_of_everybody(narrow, table, statement):
    """It would be refused once it had its lock; until then nobody could open the table, or even connect."""
    url = granted(narrow, "pam")
    with lifted(url) as one, lifted(url) as other:
        one.execute("BEGIN")
        one.execute(f"SELECT FROM {table} LIMIT 1")
        other.execute("SET statement_timeout = '5s'")
        with pytest.raises(DENIED, match="makes nothing"):
            other.execute(statement.format(table))
        with psycopg.connect(narrow, connect_timeout=5) as operator:
            operator.execute(SCHEMAS.fill("SELECT FROM {views}.sessions"))


def test_every_function_that_everybody_may_call_and_that_changes_something_is_known(narrow):
    """A newer Postgres may bring more of them."""
    granted(narrow, "pam")
    with psycopg.connect(narrow) as operator:
        found = operator.execute(
            "SELECT DISTINCT proname::text FROM pg_proc WHERE pronamespace = 'pg_catalog'::regnamespace "
            "AND provolatile = 'v' AND prorettype NOT IN ('trigger'::regtype, 'event_trigger'::regtype) "
            "AND has_function_privilege('pam', oid, 'EXECUTE')"
        ).fetchall()
    assert len(found) > 50
    assert [name for (name,) in found if HARMLESS.fullmatch(name) is None] == []


def test_who_makes_logins_makes_all_else_as_before(narrow):
    granted(narrow, "pam")
    with psycopg.connect(narrow) as operator:
        operator.execute("CREATE TABLE public.t (x integer)")
        operator.execute(SCHEMAS.fill("SET ROLE {owner}"))
        operator.execute(SCHEMAS.fill("CREATE VIEW {views}.mine AS SELECT 1"))


def test_a_login_begins_with_limits_and_has_few_connections(narrow):
    url = granted(narrow, "pam")
    shown = {
        "statement_timeout": "5min",
        "idle_in_transaction_session_timeout": "1min",
        "temp_file_limit": "1GB",
        "default_transaction_read_only": "on",
    }
    with lifted(url) as login:
        login.execute("RESET default_transaction_read_only")
        assert {name: login.execute(f"SHOW {name}").fetchone()[0] for name in shown} == shown
    with lifted(url) as login:
        login.execute("ALTER ROLE CURRENT_USER RESET ALL")
    with lifted(url) as login:
        assert login.execute("SHOW statement_timeout").fetchone() == ("0",)
        assert login.execute("SHOW temp_file_limit").fetchone() == ("1GB",)
    opened = [psycopg.connect(url) for _ in range(logins.CONNECTIONS_MAX)]
    try:
        with pytest.raises(psycopg.OperationalError, match="too many connections for role"):
            psycopg.connect(url)
        logins.logins(narrow, NAMESPACE)
    finally:
        for one in opened:
            one.close()


def test_what_a_login_changes_of_itself_is_its_own_and_shows_it_nothing_more(narrow):
    """Postgres lets every login change its password, and what its own sessions begin with; no right comes of it."""
    url = granted(narrow, "pam")
    with lifted(url) as login:
        login.execute("ALTER ROLE CURRENT_USER PASSWORD 'mine'")
        for setting in ("default_transaction_read_only = off", "role = 'narrow_own'"):
            login.execute(f"ALTER ROLE CURRENT_USER SET {setting}")
    with closing(psycopg.connect(as_login(narrow, "pam", "mine"), autocommit=True)) as login:
        assert login.execute("SELECT current_user").fetchone() == ("pam",)
        for statement in (*MAKES, "DELETE FROM logins", "UPDATE sessions SET turn = 1"):
            with pytest.raises((DENIED, psycopg.errors.ObjectNotInPrerequisiteState)):
                login.execute(statement)
        assert login.execute("SELECT login, tenant FROM logins").fetchall() == [("pam", MINE)]
    logins.revoke(narrow, NAMESPACE, "pam")
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(as_login(narrow, "pam", "mine"))


def test_where_somebody_else_lives_nothing_is_taken_unless_that_is_said(narrow):
    with psycopg.connect(narrow) as operator:
        operator.execute("CREATE TABLE public.orders (x integer)")
    granted(narrow, "pam")
    before = left(narrow)
    assert before == [
        "make temporary tables",
        *FUNCTIONS,
    ]
    (found,) = doctor._logins(Settings(postgres=narrow, namespace=NAMESPACE))
    assert (found.verdict, found.what) == ("advice", f"logins may also {'; '.join(before)}")
    assert "wakeful access confine" in found.to_do
    assert logins.confine_logins(narrow, NAMESPACE) == []
    assert left(narrow) == []
    with psycopg.connect(narrow) as connection:
        connection.execute(SCHEMAS.fill("SET ROLE {app}"))
        connection.execute("CREATE TEMP TABLE t (x integer)")


def test_the_owner_of_a_database_takes_what_is_his_and_is_told_what_a_superuser_has_to(
    modest, monkeypatch, tmp_path, capsys
):
    """What it is told to let run takes the rest."""
    url, superusers = modest
    for name, value in (("POSTGRES", url), ("NAMESPACE", "modest_ns"), ("HOME", str(tmp_path))):
        monkeypatch.setenv(f"WAKEFUL_{name}", value)
    assert invoke(["access", "grant", "pia", "--tenant", MINE]) == Exit.DONE
    told = capsys.readouterr()
    assert "every login may also make large objects; take advisory locks" in told.err
    (pia,) = re.findall(r'psql "(\S+)"', told.out)
    with lifted(pia) as login:
        with pytest.raises(DENIED):
            login.execute("CREATE TEMP TABLE t (x integer)")
        login.execute("SELECT pg_advisory_lock(1)")
    assert invoke(["access", "confine"]) == Exit.REFUSED
    told = capsys.readouterr()
    assert f"logins may still {'; '.join(FUNCTIONS)}; keep" in told.err
    with psycopg.connect(superusers) as admin:
        admin.execute(told.out.encode())
    assert invoke(["access", "confine"]) == Exit.DONE
    assert "make nothing in this database" in capsys.readouterr().err
    with lifted(pia) as login:
        for statement in MAKES[:-1]:
            with pytest.raises(DENIED):
                login.execute(statement)


def test_who_may_make_logins_may_end_them_where_they_are_in_the_way(modest, monkeypatch):
    """Without being a superuser."""
    monkeypatch.setattr(exclusion, "GRACE_S", 0.1)
    url, _ = modest
    pia = as_login(url, "pia", logins.grant(url, "modest_ns", "pia", tenant=MINE))
    with psycopg.connect(url) as operator:
        operator.execute(Schemas("modest_ns").fill("COMMENT ON SCHEMA {lock} IS 'made by another'"))
    with closing(psycopg.connect(pia)) as login:
        login.execute("SELECT FROM sessions")
        install(url, "modest_ns")
        with pytest.raises(psycopg.OperationalError):
            login.execute("SELECT")


def test_a_connection_that_nobody_of_ours_may_end_is_told_when_its_access_is_taken(modest):
    """What it had asked before goes on."""
    url, superusers = modest
    pia = as_login(url, "pia", logins.grant(url, "modest_ns", "pia", tenant=MINE))
    with psycopg.connect(superusers) as admin:
        admin.execute("REVOKE EXECUTE ON FUNCTION pg_terminate_backend FROM PUBLIC")
    with psycopg.connect(pia) as login:
        login.execute("SELECT FROM sessions")
        pid = login.info.backend_pid
        with pytest.raises(exclusion.Busy, match=rf"'modest' could not .*backend\({pid}\)"):
            logins.revoke(url, "modest_ns", "pia")
        with pytest.raises(DENIED):
            login.execute("SELECT FROM modest_ns.sessions")
    assert logins.logins(url, "modest_ns") == []


def test_a_queue_of_notices_that_somebody_has_filled_stops_no_rows(narrow):
    """Every login may give notices, and a commit that gives one fails while their queue is full: it goes on without."""
    with psycopg.connect(narrow) as operator:
        operator.execute(
            "CREATE FUNCTION public.full() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
            "RAISE program_limit_exceeded USING MESSAGE = 'too many notifications in the NOTIFY queue'; END $$"
        )
        operator.execute("CREATE TABLE public.notices (x integer)")
        operator.execute("GRANT INSERT ON public.notices TO narrow_own")
        operator.execute(
            "CREATE CONSTRAINT TRIGGER full_queue AFTER INSERT ON public.notices "
            "DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION public.full()"
        )
    with closing(PostgresViews(narrow, NAMESPACE)) as views:
        views._schemas.moved_notice = "INSERT INTO public.notices VALUES (1)"
        place = Place("t", 0)
        views.claim([place])
        views.apply(Batch({place: (0, 1)}))
        views.send_commit()
        with pytest.raises(ViewsLost, match="too many notifications"):
            views.await_commit()
        assert views.recall() == {place: 0}
        views.apply(Batch({place: (0, 1)}))
        views.send_commit()
        views.await_commit()
        assert views.recall() == {place: 1}
