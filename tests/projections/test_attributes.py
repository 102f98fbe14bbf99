"""Attributes as rows: one for each and for each pair, as they are now, and found in the views of their tenant."""

import json

import pytest

from wakeful.events import records as r
from wakeful.events.attributes import attributes_of
from wakeful.events.codec import decode_event
from wakeful.projections.audit.rebuild import rebuild_rows
from wakeful.projections.database import drop, install
from wakeful.projections.listings import SESSIONS as LISTING
from wakeful.projections.pages import Cursors, page
from wakeful.projections.postgres import PostgresViews
from wakeful.projections.projector import Projector
from wakeful.projections.queries import Queries
from wakeful.projections.rows import ATTRIBUTES, SESSIONS

S = ("t0", "s1")


def found_by(**values):
    return attributes_of(values)


def terms_of(rows):
    return {row["term"] for row in rows[ATTRIBUTES].values()} - {None}


def test_each_attribute_and_each_pair_is_a_row_that_follows_its_changes(scribe):
    scribe.add(S, r.SessionOpened("desk", found_by(customer="ivo")))
    assert terms_of(rebuild_rows(scribe.events)) == {"customer=ivo"}
    scribe.add(S, r.AttributesSet(1, 1, found_by(customer="ivo", order=7), ("order",)))
    rows = rebuild_rows(scribe.events)
    assert terms_of(rows) == {"customer=ivo", "order=7", "customer=ivo&order=7"}
    assert json.loads(rows[SESSIONS][S]["attributes"]) == {"customer": "ivo", "order": 7}
    first = rows[ATTRIBUTES][(*S, "customer")]["since_ms"]
    assert first < rows[ATTRIBUTES][(*S, "order")]["since_ms"]
    scribe.add(S, r.AttributesSet(1, 2, found_by(order=8), ("customer", "order")))
    assert terms_of(rebuild_rows(scribe.events)) == {"order=8"}


@pytest.fixture
def views(postgres_url, namespace, scribe, list_reader, walk):
    """Sessions of two tenants, some found by the same."""
    install(postgres_url, namespace)
    for tenant in ("t0", "t1"):
        for number in range(6):
            key = (tenant, f"{tenant}-{number}")
            told = found_by(customer="ivo", even=number % 2 == 0)
            scribe.add(key, r.SessionOpened("desk", told))
    moved = found_by(customer="ida", even=True)
    scribe.add(("t0", "t0-0"), r.AttributesSet(1, 1, moved, ("customer",)))
    scribe.commit()
    views = PostgresViews(postgres_url, namespace)
    projector = Projector(
        list_reader(scribe), views, scribe.places, lambda x: decode_event(x.value, x.headers)
    )
    walk(projector.steps(), lambda: projector.caught_up)
    views.close()
    yield postgres_url, namespace
    drop(postgres_url, namespace)


def test_one_attribute_or_two_find_the_sessions_of_the_tenant_in_pages(views):
    with Queries(*views, tenant="t0") as queries:

        def found(term):
            rows, cursor = [], None
            while True:
                one = page(
                    queries, Cursors(b"k"), LISTING, {"attributes": term}, limit=2, cursor=cursor
                )
                rows += [row["session_id"] for row in one.rows]
                cursor = one.next_cursor
                if cursor is None:
                    return rows

        assert found("customer=ivo") == [f"t0-{n}" for n in (5, 4, 3, 2, 1)]
        assert found("customer=ivo&even=true") == ["t0-4", "t0-2"]
        assert found("customer=ida") == ["t0-0"]
        assert found("customer=eve") == []
        mine = queries.sessions(tenant="t0", term="even=true", status="Opened")
        assert [row["session_id"] for row in mine] == ["t0-4", "t0-2", "t0-0"]
        assert mine[-1]["attributes"] == {"customer": "ida", "even": True}


def test_nobody_finds_a_session_of_another_tenant(views):
    with Queries(*views, tenant="t0") as queries:
        assert queries.sessions(tenant="t1", term="customer=ivo") == []
        for view in ("attributes", "terms"):
            seen = queries.select(f"SELECT DISTINCT tenant FROM {view}", limit=10)
            assert [list(row) for row in seen.rows] == [["t0"]]
