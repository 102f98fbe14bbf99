"""Queries of the user's own: answered, or declined in words; they change nothing and never run for long."""

import re
from contextlib import closing
from pathlib import Path

import pytest

from wakeful.events import records as r
from wakeful.events.codec import decode_event
from wakeful.projections import asked as module
from wakeful.projections.connection import connect
from wakeful.projections.postgres import PostgresViews
from wakeful.projections.projector import Projector
from wakeful.projections.queries import Queries
from wakeful.projections.schemas import Schemas

SCHEMA = Path(module.__file__).with_name("views.sql")


@pytest.fixture
def queries(installed, scribe, list_reader, catch_up):
    """Three sessions in the views."""
    for name in ("a", "b", "c"):
        scribe.add(("acme", name), r.SessionOpened("desk"))
    views = PostgresViews(*installed)
    decode = lambda record: decode_event(record.value, record.headers)  # noqa: E731
    catch_up(Projector(list_reader(scribe), views, scribe.places, decode))
    views.close()
    with Queries(*installed) as opened:
        yield opened


def test_the_views_are_named_without_their_schema(queries):
    found = queries.select("SELECT session_id AS s FROM sessions ORDER BY 1;", limit=10)
    assert (found.names, found.rows, found.more, found.wrong) == (
        *(("s",), (("a",), ("b",), ("c",))),
        *(False, ""),
    )


def test_more_rows_than_are_shown_are_told_of(queries):
    found = queries.select("SELECT session_id FROM sessions", limit=2)
    assert (len(found.rows), found.more) == (2, True)


def test_a_percent_sign_is_the_querys_own(queries):
    assert queries.select("SELECT 7 % 4 WHERE 'a%s' LIKE 'a%'", limit=1).rows == ((3,),)


@pytest.mark.parametrize(
    ("query", "told"),
    [
        ("", "the query is empty: ask sessions"),
        ("SELECT * FROM ledgers", "the views are sessions, approvals, ledger"),
        ("SELECT sesion_id FROM sessions", "at 'sesion_id FROM sessions'"),
        ("SELECT 1 +", "at its end"),
        ("SELECT 1; SELECT 2", "ask one statement at a time"),
        ("CREATE TABLE t (n int)", "read-only transaction: the views are only read here"),
        ("SET search_path TO public", "this gives no rows: ask with SELECT"),
        ("SELECT 1/0", "division by zero"),
    ],
)
def test_what_it_cannot_answer_is_told_and_the_next_query_is_answered(queries, query, told):
    assert told in queries.select(query, limit=1).wrong
    assert queries.select("SELECT 1", limit=1).rows == ((1,),)


def test_a_query_that_runs_for_long_is_stopped(installed):
    url, namespace = installed
    with closing(connect(url, access="read", limit_ms=20)) as connection:
        found = module.select(connection, Schemas(namespace), "SELECT pg_sleep(60)", limit=1)
    assert "took too long" in found.wrong


def test_it_names_the_views_that_there_are():
    made = re.findall(r"CREATE (?:OR REPLACE )?VIEW \{views\}\.(\w+)", SCHEMA.read_text())
    assert set(module.VIEWS) == set(made)
