"""Whoever reads for one tenant is shown that tenant's rows, through every table and view that there is, and no others."""

import psycopg
import pytest
from psycopg import sql

from wakeful.projections import logins
from wakeful.projections.postgres import stored_rows
from wakeful.projections.queries import Queries
from wakeful.projections.rows import TABLES
from wakeful.projections.tenants import OPERATORS_ONLY

from .conftest import (
    ANN,
    BOB,
    DENIED,
    MINE,
    NAMESPACE,
    NO_TABLE,
    SCHEMAS,
    THEIRS,
    asked_as,
    relations,
    tenanted,
    tenants_in,
)


def test_every_table_and_view_of_the_test_has_rows_of_both_tenants(filled):
    with psycopg.connect(filled) as connection:
        for relation in tenanted(filled):
            assert {MINE, THEIRS} <= tenants_in(connection, relation), relation


@pytest.mark.parametrize(
    "before",
    [
        (),
        ("SET wakeful.tenant = 't1'",),
        ("SELECT set_config('wakeful.tenant', 't1', false)", "SET ROLE {people}"),
        ("SET ROLE {people}", "RESET ROLE", "RESET ALL"),
        ("SET default_transaction_read_only = off", "DISCARD ALL"),
        (
            "SET default_transaction_read_only = off",
            f"CREATE TEMP TABLE logins AS SELECT '{ANN}'::text AS login, 't1'::text AS tenant",
            "SET search_path TO pg_temp, pg_catalog",
        ),
        (
            "SET default_transaction_read_only = off",
            "CREATE FUNCTION pg_temp.current_setting(text, boolean) RETURNS text LANGUAGE sql RETURN 't1'",
            "SET search_path TO pg_temp, {views}, pg_catalog",
        ),
    ],
)
def test_a_login_is_shown_its_tenant_and_nothing_else_whatever_it_sets(filled, ann, before):
    with asked_as(ann, *before) as connection:
        for relation in tenanted(filled):
            assert tenants_in(connection, relation) == {MINE}, relation


def test_a_login_cannot_become_anybody_else_nor_turn_the_rule_off(filled, ann):
    with asked_as(ann, "SET row_security = off") as connection:
        for role in (SCHEMAS.owner, SCHEMAS.app, "wakeful"):
            with pytest.raises(DENIED):
                connection.execute(sql.SQL("SET ROLE {}").format(sql.Identifier(role)))
            with pytest.raises(DENIED):
                connection.execute(
                    sql.SQL("SET SESSION AUTHORIZATION {}").format(sql.Identifier(role))
                )
        for relation in tenanted(filled):
            with pytest.raises(DENIED, match="row-level security"):
                connection.execute(f"SELECT * FROM {relation}")


def test_what_has_no_tenant_tells_only_how_far_the_views_are(filled, ann):
    """Positions and ends are numbers; what quotes records is for operators; of the logins each sees its own line."""
    logins.grant(filled, NAMESPACE, BOB, tenant=THEIRS)
    without = {name for _, name, _, has_tenant in relations(filled) if not has_tenant}
    assert without == {"positions", "ends", "lag", "installs", "rebuilds"} | OPERATORS_ONLY
    with asked_as(ann) as connection:
        for schema, name, _, _ in relations(filled):
            if name in OPERATORS_ONLY | {"installs", "rebuilds"}:
                with pytest.raises(DENIED):
                    connection.execute(f'SELECT * FROM "{schema}".{name}')
        found = connection.execute("SELECT login, tenant FROM logins").fetchall()
        assert found == [(ANN, MINE)]
        assert connection.execute("SELECT reached('0:1')").fetchone() == (True,)
    logins.revoke(filled, NAMESPACE, BOB)


def test_no_function_in_a_condition_is_shown_a_row_of_another_tenant(filled, ann):
    seen = []
    leak = """
    CREATE FUNCTION pg_temp.leak(value text) RETURNS boolean LANGUAGE plpgsql COST 0.0001 AS $$
    BEGIN RAISE NOTICE '%', value; RETURN true; END $$
    """
    with asked_as(ann, "SET default_transaction_read_only = off") as connection:
        connection.execute(leak)
        connection.add_notice_handler(lambda notice: seen.append(notice.message_primary))
        for relation in tenanted(filled):
            connection.execute(f"SELECT 1 FROM {relation} WHERE pg_temp.leak(tenant)")
            connection.execute(
                f"SELECT 1 FROM {relation} WHERE 1 / (CASE tenant WHEN '{THEIRS}' THEN 0 ELSE 1 END) = 1"
            )
            connection.execute(
                f"SELECT 1 FROM {relation} t WHERE (CASE tenant WHEN '{MINE}' THEN '1' ELSE t::text END)::int = 1"
            )
    assert set(seen) == {MINE}


def test_estimates_and_statistics_do_not_tell_that_another_tenant_exists(filled, ann):
    estimate = "EXPLAIN SELECT * FROM {} WHERE {} = {}"
    with asked_as(ann) as connection:
        for relation in tenanted(filled):
            for column, there, nowhere in (
                ("tenant", THEIRS, "t9"),
                ("session_id", "same-name", "no-such-1"),
            ):
                plans = [
                    connection.execute(
                        sql.SQL(estimate).format(
                            sql.SQL(relation), sql.Identifier(column), sql.Literal(value)
                        )
                    ).fetchall()
                    for value in (there, nowhere)
                ]
                mine, theirs = (
                    str(plan).replace(v, "?")
                    for plan, v in zip(plans, (there, nowhere), strict=True)
                )
                assert mine == theirs
    with asked_as(filled) as operator:
        found = operator.execute(
            "SELECT tablename, attname FROM pg_stats WHERE starts_with(schemaname, %s) AND tablename = ANY (%s)",
            (NAMESPACE, list(TABLES)),
        ).fetchall()
    assert found == []


def test_a_copy_is_a_reading_like_any_other(filled, ann):
    with asked_as(ann) as connection:
        for relation in tenanted(filled):
            text = f"COPY (SELECT tenant FROM {relation}) TO STDOUT"
            with connection.cursor() as cursor, cursor.copy(text) as copy:
                assert {tenant for (tenant,) in copy.rows()} == {MINE}


@pytest.mark.parametrize("role", ["people", "app"])
def test_readers_write_nothing(filled, ann, role):
    before = stored_rows(filled, NAMESPACE)
    writes = (
        "INSERT INTO {} DEFAULT VALUES",
        "DELETE FROM {}",
        "UPDATE {} SET tenant = 'x'",
        "TRUNCATE {}",
        "ALTER TABLE {} DISABLE ROW LEVEL SECURITY",
        "CREATE POLICY mine ON {} USING (true)",
    )
    with asked_as(ann if role == "people" else filled) as connection:
        connection.execute("SET default_transaction_read_only = off")
        if role == "app":
            connection.execute(SCHEMAS.fill("SET ROLE {app}"))
        for relation in (*tenanted(filled), f'"{NAMESPACE}".logins'):
            for write in writes:
                with pytest.raises((DENIED, *NO_TABLE)):
                    connection.execute(write.format(relation))
    assert stored_rows(filled, NAMESPACE) == before


def test_a_login_sees_no_statement_of_others(filled, ann):
    with asked_as(ann) as connection, asked_as(filled, "SELECT 'secret of t1'"):
        found = connection.execute(
            "SELECT query FROM pg_stat_activity WHERE usename <> session_user AND query LIKE '%t1%'"
        ).fetchall()
    assert found == []


@pytest.mark.parametrize(
    "before",
    [(), ("SET wakeful.tenant = ''",), ("SET wakeful.tenant = 't1'", "RESET wakeful.tenant")],
)
def test_a_service_that_does_not_say_for_whom_is_shown_nothing(filled, before):
    with asked_as(filled, "SET ROLE {app}", *before) as connection:
        for relation in tenanted(filled):
            assert tenants_in(connection, relation) == set()


def test_a_service_is_shown_the_tenant_of_its_transaction_and_the_next_borrower_nothing(filled):
    with asked_as(filled, "SET ROLE {app}") as connection:
        for relation in tenanted(filled):
            with connection.transaction():
                connection.execute("SELECT set_config('wakeful.tenant', 't0', true)")
                assert tenants_in(connection, relation) == {MINE}
            assert tenants_in(connection, relation) == set()


def test_our_own_questions_show_one_tenant_even_where_none_is_asked_for(filled):
    with Queries(filled, NAMESPACE, tenant=MINE) as queries, Queries(filled, NAMESPACE) as all_of:
        for ask in ("sessions", "ledger", "timers", "outcomes", "refusals", "newest_steps"):
            mine = getattr(queries, ask)(limit=1_000)
            everybodys = getattr(all_of, ask)(limit=1_000)
            assert mine == [row for row in everybodys if row["tenant"] == MINE] != everybodys
        assert queries.session("same-name", tenant=THEIRS) == []
        assert queries.session("same-name", tenant=THEIRS) == queries.session(
            "nowhere", tenant=THEIRS
        )
        assert queries.positions() == all_of.positions()
        left = queries._connection.execute("SELECT current_setting('wakeful.tenant', true)")
        assert left.fetchone()["current_setting"] in (None, "")
        assert (
            queries._connection.execute(SCHEMAS.fill("SELECT 1 FROM {views}.sessions")).fetchall()
            == []
        )


def test_a_question_in_sql_is_answered_for_one_tenant_as_service_and_as_login(filled, ann):
    asked = "SELECT DISTINCT tenant FROM sessions"
    for url in (filled, ann):
        with Queries(url, NAMESPACE, tenant=MINE) as queries:
            assert queries.select(asked, limit=10).rows == ((MINE,),)
            assert {row["tenant"] for row in queries.sessions()} == {MINE}
            assert "permission denied" in queries.select("SELECT * FROM gaps", limit=1).wrong
    with Queries(ann, NAMESPACE, tenant=THEIRS) as queries:
        assert queries.select(asked, limit=10).rows == ((MINE,),)
    with pytest.raises(DENIED), Queries(ann, NAMESPACE) as queries:
        queries.sessions()
