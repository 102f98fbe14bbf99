"""What keeps tenants apart is everywhere: on each table, view and index, after a rebuild, and with a plain login."""

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from wakeful.deploy.cli import doctor
from wakeful.deploy.settings import Settings
from wakeful.events.errors import Rejected
from wakeful.projections import logins, probe
from wakeful.projections.database import drop, install
from wakeful.projections.postgres import PostgresViews
from wakeful.projections.projector import Projector
from wakeful.projections.queries import Queries
from wakeful.projections.rebuild import Rebuild
from wakeful.projections.rows import TABLES
from wakeful.projections.tenants import missing_roles, unguarded
from wakeful.projections.upkeep import Upkeep

from ..conftest import ListReader, finish
from .conftest import (
    DENIED,
    EVE,
    MINE,
    NAMESPACE,
    SCHEMAS,
    THEIRS,
    as_login,
    asked_as,
    decode,
    loosen,
    relations,
    tenanted,
    tenants_in,
)


def test_every_view_asks_with_the_rights_of_the_reader_and_every_table_is_forced(filled):
    with psycopg.connect(filled) as connection:
        assert unguarded(connection, SCHEMAS) == []
        assert missing_roles(connection, SCHEMAS) == []
        connection.execute(
            SCHEMAS.fill("CREATE VIEW {views}.mine AS SELECT * FROM {views}.sessions")
        )
        connection.execute(SCHEMAS.fill("ALTER TABLE {live}.timers NO FORCE ROW LEVEL SECURITY"))
        assert [told.split(" ")[:2] for told in unguarded(connection, SCHEMAS)] == [
            ["table", "timers"],
            ["view", "mine"],
        ]
        connection.rollback()
        definers = connection.execute(
            "SELECT proname FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace "
            "WHERE starts_with(n.nspname, %s) AND prosecdef",
            (NAMESPACE,),
        ).fetchall()
    assert definers == []


def test_the_tenant_is_in_every_unique_index_over_what_has_one(filled):
    with psycopg.connect(filled) as connection:
        found = connection.execute(
            "SELECT x.indrelid::regclass::text, pg_get_indexdef(x.indexrelid) FROM pg_index x "
            "JOIN pg_class c ON c.oid = x.indrelid JOIN pg_namespace n ON n.oid = c.relnamespace "
            "WHERE n.nspname = %s AND x.indisunique",
            (SCHEMAS.live,),
        ).fetchall()
    without = {table.rpartition(".")[2] for table, text in found if "(tenant, " not in text}
    assert without == {"positions", "ends", "gaps"}
    assert len(found) == len(TABLES) + 3


def test_roles_are_nobody_who_could_do_more(filled):
    with psycopg.connect(filled) as connection:
        found = connection.execute(
            "SELECT rolname, rolsuper, rolbypassrls, rolcanlogin, rolcreaterole, rolcreatedb FROM pg_roles "
            "WHERE rolname = ANY (%s)",
            (list(SCHEMAS.roles.values()),),
        ).fetchall()
    assert {name for name, *_ in found} == set(SCHEMAS.roles.values())
    assert not any(any(rights) for _, *rights in found)


def test_the_projector_writes_as_the_owner_and_not_as_a_superuser(filled):
    views = PostgresViews(filled, NAMESPACE)
    views.claim([])
    found = (
        views._connected()
        .execute(
            "SELECT current_user, (SELECT rolsuper FROM pg_roles WHERE rolname = current_user), "
            "row_security_active(%s::regclass)",
            (f'"{SCHEMAS.live}".sessions',),
        )
        .fetchone()
    )
    views.close()
    assert found == (SCHEMAS.owner, False, True)


def test_a_rebuild_keeps_who_may_see_what(filled, told, ann):
    run = Rebuild(
        filled,
        NAMESPACE,
        ListReader(told),
        told.places,
        decode,
        ends=lambda: told.ends,
        rest=lambda _: None,
    )
    before = relations(filled)
    with asked_as(ann) as connection:
        for point in run.steps():
            if point == "r.compared":
                beside = [one for one in relations(filled) if one[0] == SCHEMAS.beside]
                assert beside
        run.close()
        assert relations(filled) == before
        with pytest.raises(DENIED, match="for schema"):
            connection.execute(SCHEMAS.fill("SELECT FROM {live}.sessions"))
        loosen(filled)
        for relation in tenanted(filled):
            assert tenants_in(connection, relation) == {MINE}
    with asked_as(filled, "SET ROLE {app}") as connection:
        assert all(tenants_in(connection, relation) == set() for relation in tenanted(filled))
    with psycopg.connect(filled) as connection:
        assert unguarded(connection, SCHEMAS) == []


def test_an_access_that_is_revoked_ends_at_once_also_for_who_is_connected(filled):
    url = as_login(filled, EVE, logins.grant(filled, NAMESPACE, EVE, tenant=THEIRS))
    assert logins.Login(EVE, THEIRS) in logins.logins(filled, NAMESPACE)
    with asked_as(url) as connection:
        assert tenants_in(connection, f'"{NAMESPACE}".sessions') == {THEIRS}
        with asked_as(url, "BEGIN ISOLATION LEVEL REPEATABLE READ") as other:
            other.execute(f'DECLARE k CURSOR FOR SELECT * FROM "{NAMESPACE}".sessions')
            assert other.execute("FETCH 1 FROM k").rowcount == 1
            assert logins.revoke(filled, NAMESPACE, EVE)
            with pytest.raises(psycopg.OperationalError):
                other.execute("FETCH 1 FROM k")
        with pytest.raises(psycopg.OperationalError):
            connection.execute(f'SELECT * FROM "{NAMESPACE}".sessions')
    with pytest.raises(psycopg.OperationalError, match=EVE):
        psycopg.connect(url)
    with pytest.raises(Rejected, match="has no access"):
        logins.revoke(filled, NAMESPACE, EVE)


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("pg_ann", "use up to 63"),
        ('a"; DROP', "use up to 63"),
        ("wakeful", "a role 'wakeful' already"),
    ],
)
def test_a_login_that_is_no_name_or_somebodys_is_not_made(filled, name, why):
    with pytest.raises(Rejected, match=why):
        logins.grant(filled, NAMESPACE, name, tenant=MINE)


def test_a_password_is_in_no_statement(filled, monkeypatch):
    """What is logged of statements is what the server keeps: a salted hash."""
    sent = []
    with psycopg.connect(filled) as connection:
        execute = connection.execute

        def noted(statement):
            sent.append(statement.as_string(connection))
            return execute(statement)

        monkeypatch.setattr(connection, "execute", noted)
        logins._make(connection, SCHEMAS, "zoe", "very-secret")
        connection.rollback()
    assert any("PASSWORD 'SCRAM-SHA-256$" in statement for statement in sent)
    assert [statement for statement in sent if "very-secret" in statement] == []


def test_a_login_that_may_make_no_roles_is_told_what_to_let_run_and_then_all_works(endpoints, told):
    """As in a company: the database is somebody's who is no superuser."""
    user, database = "plain_user", "plain_db"
    probe.drop_database(endpoints.postgres, database)
    with psycopg.connect(endpoints.postgres, autocommit=True) as admin:
        admin.execute(f"DROP ROLE IF EXISTS {user}")
        admin.execute(f"CREATE ROLE {user} LOGIN PASSWORD 'plain'")
    there = probe.create_database(endpoints.postgres, database)
    url = as_login(there, user, "plain")
    with pytest.raises(Rejected, match="may not set up who sees which tenant") as refused:
        install(url, "plain")
    _, _, statements = str(refused.value).partition("where it is not so yet, ")
    with psycopg.connect(there, autocommit=True) as admin:
        for statement in statements.split("; "):
            admin.execute(statement.partition(" (session")[0])
    install(url, "plain")
    views = PostgresViews(url, "plain")
    projector = Projector(ListReader(told), views, told.places, decode)
    finish(projector.steps(), lambda: projector.caught_up)
    views.close()
    run = Rebuild(
        *(url, "plain", ListReader(told), told.places, decode),
        ends=lambda: told.ends,
        rest=lambda _: None,
    )
    assert list(run.steps())[-1] == "r.switched"
    run.close()
    upkeep = Upkeep(url, "plain", lambda: told.ends, iter((0.0, 1.0, 2.0)).__next__)
    upkeep.look(told.ends)
    upkeep.close()
    with Queries(url, "plain", tenant=MINE) as queries:
        assert {row["tenant"] for row in queries.sessions()} == {MINE}
    with pytest.raises(Rejected, match="may not make logins"):
        logins.grant(url, "plain", "ann2", tenant=MINE)
    drop(there, "plain")
    probe.drop_database(endpoints.postgres, database)
    with psycopg.connect(endpoints.postgres, autocommit=True) as admin:
        admin.execute(f"DROP ROLE {user}")
        left = admin.execute("SELECT rolname FROM pg_roles WHERE starts_with(rolname, 'plain_')")
        assert left.fetchall() == []


def test_the_doctor_names_what_would_show_rows_of_all_tenants(filled):
    given = Settings(postgres=filled, namespace=NAMESPACE)
    (found,) = doctor._tenants(given)
    assert (found.verdict, found.to_do) == ("ok", "")
    with psycopg.connect(filled, autocommit=True) as connection:
        connection.execute(
            SCHEMAS.fill("CREATE VIEW {views}.mine AS SELECT * FROM {views}.sessions")
        )
        (found,) = doctor._tenants(given)
        connection.execute(SCHEMAS.fill("DROP VIEW {views}.mine"))
    assert found.verdict == "wrong"
    assert "view mine asks with the rights of wakeful" in found.what
    assert "security_invoker" in found.to_do
    (found,) = doctor._tenants(Settings(postgres=filled, namespace="nobodys"))
    assert (found.verdict, found.what) == ("wrong", "role nobodys_own is missing")


def test_a_role_of_that_name_that_could_do_more_is_not_taken_for_ours(filled):
    with psycopg.connect(filled, autocommit=True) as connection:
        connection.execute("CREATE ROLE stolen_app LOGIN")
    with pytest.raises(Rejected, match="role 'stolen_app' may log in"):
        install(filled, "stolen")
    with psycopg.connect(filled, autocommit=True) as connection:
        connection.execute("DROP ROLE stolen_app")


def test_a_login_that_may_make_roles_sets_all_up_by_itself_and_gives_access(endpoints, told):
    """It owns its database, and is no superuser."""
    user, database = "maker", "maker_db"
    probe.drop_database(endpoints.postgres, database)
    with psycopg.connect(endpoints.postgres, autocommit=True) as admin:
        admin.execute(f"DROP ROLE IF EXISTS {user}")
        admin.execute(f"CREATE ROLE {user} LOGIN CREATEROLE PASSWORD 'plain'")
        admin.execute(f"CREATE DATABASE {database} OWNER {user}")
    url = as_login(make_conninfo(endpoints.postgres, dbname=database), user, "plain")
    install(url, "made")
    install(url, "made")
    views = PostgresViews(url, "made")
    projector = Projector(ListReader(told), views, told.places, decode)
    finish(projector.steps(), lambda: projector.caught_up)
    views.close()
    password = logins.grant(url, "made", "cid", tenant=MINE)
    with psycopg.connect(as_login(url, "cid", password), autocommit=True) as connection:
        assert tenants_in(connection, "sessions") == {MINE}
    assert logins.revoke(url, "made", "cid")
    drop(url, "made")
    probe.drop_database(endpoints.postgres, database)
    with psycopg.connect(endpoints.postgres, autocommit=True) as admin:
        left = admin.execute("SELECT rolname FROM pg_roles WHERE starts_with(rolname, 'made_')")
        assert left.fetchall() == []
        admin.execute(f"DROP ROLE {user}")
