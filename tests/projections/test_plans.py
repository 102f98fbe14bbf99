"""A page reads what it returns: the plans of every list, by every filter that is offered, under row-level security."""

import json

import psycopg
import pytest
from bench.many_rows import T0_MS, fill
from bench.pages import wanted_of

from wakeful.events.state import Status
from wakeful.projections import counts, listings
from wakeful.projections.database import drop, install
from wakeful.projections.listings import LISTINGS, SINCE, UNTIL, NotOffered
from wakeful.projections.pages import Cursors, page, statement_of
from wakeful.projections.queries import WALKING, Queries
from wakeful.projections.schemas import Schemas

NAMESPACE = "many"
MINE, COUNT = "t0", 6_000
PAGE = 50


@pytest.fixture(scope="module")
def many(postgres_url):
    """The database's URL."""
    install(postgres_url, NAMESPACE)
    fill(postgres_url, NAMESPACE, {MINE: COUNT, "t1": COUNT, "t2": 100})
    pretend(postgres_url)
    yield postgres_url
    drop(postgres_url, NAMESPACE)


def pretend(url):
    """Has the planner take each row for a hundred: what it chooses then is what it chooses for a million."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(
            "UPDATE pg_class SET reltuples = reltuples * 100 WHERE relnamespace = to_regnamespace(%s)",
            (f'"{Schemas(NAMESPACE).tables}"',),
        )


def ways():
    return [
        pytest.param(
            listing, route, id=f"{listing.name}-{'-'.join((*route.filters, route.ranged or 'all'))}"
        )
        for listing in LISTINGS
        for route in listing.routes
    ]


def plan(url, listing, route, wanted, behind, limit=PAGE + 1):
    """The nodes of the plan as it went, for the role of services and one tenant, and the buffers that it touched."""
    schemas = Schemas(NAMESPACE)
    statement, values = statement_of(listing, route, wanted, behind)
    with psycopg.connect(url, options="-c jit=off") as connection:
        connection.execute(schemas.fill("SET ROLE {app}"))
        connection.execute(WALKING, (MINE,))
        (found,) = connection.execute(
            schemas.fill(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {statement}"),
            {**values, "tenant": MINE, "limit": limit},
            prepare=False,
        ).fetchone()
    top = found[0]["Plan"]
    return (
        list(nodes(top)),
        top["Shared Hit Blocks"] + top["Shared Read Blocks"],
        top["Actual Rows"],
    )


def nodes(node):
    yield node
    for one in node.get("Plans", ()):
        yield from nodes(one)


@pytest.mark.parametrize(("listing", "route"), ways())
@pytest.mark.parametrize("deep", [False, True], ids=["first", "deep"])
def test_a_page_touches_only_index_rows_that_it_returns(many, listing, route, deep):
    wanted = wanted_of(listing, route)
    if route.ranged:
        wanted |= {route.ranged + SINCE: T0_MS + 10, route.ranged + UNTIL: T0_MS + COUNT - 10}
    behind = None
    if deep and "session_id" not in route.filters:
        with Queries(many, NAMESPACE, tenant=MINE) as queries:
            statement, values = statement_of(listing, route, wanted, None)
            rows = queries.walk(statement, tenant=MINE, limit=60, **values)
        behind = [rows[-1][f"key_{column}"] for column in route.order]
    walked, buffers, rows = plan(many, listing, route, wanted, behind)
    told = json.dumps(walked, indent=1)[:6_000]
    assert rows > 0, told
    for node in walked:
        assert node["Node Type"] not in (
            "Seq Scan",
            "Sort",
            "Incremental Sort",
            "Bitmap Heap Scan",
        ), told
        assert not node.get("Rows Removed by Filter"), told
        assert not node.get("Rows Removed by Index Recheck"), told
        assert node["Actual Rows"] * node["Actual Loops"] <= PAGE + 1, told
    looked_up = 1 + sum("Nested Loop" in node["Node Type"] for node in walked)
    assert buffers <= 12 + looked_up * 4 * rows, told


@pytest.mark.parametrize(("listing", "route"), ways())
def test_pages_give_each_row_of_the_tenant_once_and_no_others(many, listing, route):
    wanted = wanted_of(listing, route)
    if route.ranged:
        wanted |= {route.ranged + SINCE: T0_MS + 10}
    with Queries(many, NAMESPACE, tenant=MINE) as queries:
        statement, values = statement_of(listing, route, wanted, None)
        every = queries.walk(statement, tenant=MINE, limit=1_000, **values)
        seen, cursor = [], None
        while len(seen) < len(every):
            found = page(queries, Cursors(b"k" * 32), listing, wanted, limit=199, cursor=cursor)
            seen += found.rows
            cursor = found.next_cursor
            if cursor is None:
                break
        plain = [{k: v for k, v in row.items() if not k.startswith("key_")} for row in every]
        assert seen[: len(plain)] == plain
        assert len({tuple(map(str, row.values())) for row in seen}) == len(seen)


@pytest.fixture
def long_gone(many):
    """What a test adds of the session `long` is gone after it: others count rows."""
    yield
    with psycopg.connect(many) as connection:
        for name in ("ledger", "approvals"):
            deleted = f"DELETE FROM {{tables}}.{name} WHERE session_id = 'long'"
            connection.execute(Schemas(NAMESPACE).fill(deleted))


@pytest.mark.usefixtures("long_gone")
@pytest.mark.parametrize("name", ["ledger", "approvals"])
def test_of_one_session_steps_come_in_the_order_of_their_numbers(many, name):
    """In any order that they were written: 1.10 behind 1.9, across pages, by entries of an index alone."""
    (listing,) = (one for one in LISTINGS if one.name == name)
    (key,) = {"activity_id", "proposal_id"} & set(listing.route({"session_id": ""}).order)
    steps = [(turn, step) for turn in (1, 2, 10) for step in range(1, 13)]
    wanted = {"session_id": "long"}
    with psycopg.connect(many) as connection, connection.cursor() as cursor:
        columns = f"(jsonb_populate_record(t, %s)).* FROM {{tables}}.{name} t LIMIT 1"
        for turn, step in sorted(steps, key=lambda one: f"{one[0]}.{one[1]}"):
            changed = {"session_id": "long", key: f"{turn}.{step}", "turn": turn, "step": step}
            insert = Schemas(NAMESPACE).fill(f"INSERT INTO {{tables}}.{name} SELECT {columns}")
            cursor.execute(
                insert, (json.dumps({**changed, "tenant": MINE, "status": "requested"}),)
            )
    in_order = [f"{turn}.{step}" for turn, step in steps]
    seen, cursor = [], None
    with Queries(many, NAMESPACE, tenant=MINE) as queries:
        while cursor is not None or not seen:
            found = page(queries, Cursors(b"k" * 32), listing, wanted, limit=7, cursor=cursor)
            seen += [row[key] for row in found.rows]
            cursor = found.next_cursor
        if name == "approvals":
            asked = queries.approvals(tenant=MINE, session_id="long", limit=100)
            assert [row[key] for row in asked] == in_order
    assert seen == in_order
    walked, _, rows = plan(many, listing, listing.route(wanted), wanted, [1, 9, "1.9"], limit=7)
    assert rows == 7
    scans = [node for node in walked if "Index Name" in node and node["Actual Rows"] == rows]
    assert f"{name}_by_step" in {node["Index Name"] for node in scans}
    assert all("Sort" not in node["Node Type"] for node in walked)
    assert not any(node.get("Rows Removed by Filter") for node in walked)


def test_what_no_index_serves_is_not_offered_and_the_answer_says_what_is(many):
    with (
        Queries(many, NAMESPACE, tenant=MINE) as queries,
        pytest.raises(
            NotOffered, match=r"held and opened_by: no index gives that.*workflow and status"
        ),
    ):
        page(queries, Cursors(b"k" * 32), listings.SESSIONS, {"held": 1, "opened_by": "ann"})


@pytest.mark.parametrize(
    "asked", [counts._STATUSES, counts._WAITS, counts._SLICES], ids=["stands", "waits", "slices"]
)
def test_the_overview_counts_along_indexes(many, asked):
    schemas = Schemas(NAMESPACE)
    values = {
        "tenant": MINE,
        "limit": 30,
        "most": 100,
        "now_ms": T0_MS + COUNT,
        "youngest": [0, 60_000],
        "oldest": [60_000, 1 << 60],
        "since_ms": T0_MS - 3_600_000,
        "until_ms": T0_MS + COUNT,
    }
    with psycopg.connect(many, options="-c jit=off") as connection:
        connection.execute(schemas.fill("SET ROLE {app}"))
        connection.execute(WALKING, (MINE,))
        (found,) = connection.execute(
            schemas.fill(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {asked}"), values, prepare=False
        ).fetchone()
    for node in nodes(found[0]["Plan"]):
        told = json.dumps(node, indent=1)[:4_000]
        assert node["Node Type"] != "Seq Scan", told
        assert not node.get("Rows Removed by Filter"), told
        if "Scan" in node["Node Type"] and "Function" not in node["Node Type"]:
            assert node["Actual Rows"] <= 100, told


def test_the_overview_is_that_of_one_tenant(many):
    with Queries(many, NAMESPACE, tenant=MINE) as queries:
        found = counts.counts(queries, T0_MS + COUNT)
    shares = {**dict.fromkeys(counts.STATUSES, COUNT // 8), Status.COMPENSATING: 0}
    assert found.statuses == shares
    assert found.approvals_open == COUNT // 4
    kinds = len(found.waits)
    assert all(COUNT // kinds <= sum(ages) <= COUNT // kinds + 1 for ages in found.waits.values())
    assert sum(one.counts["opened"] for one in found.slices) == counts.BUCKET_MAX
    assert sum(one.counts["failed"] for one in found.slices) == COUNT // 10
    with Queries(many, NAMESPACE, tenant="t2") as queries:
        assert sum(counts.counts(queries, T0_MS).statuses.values()) == 100
