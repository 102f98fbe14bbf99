"""Queries over HTTP: lists in pages, one session, its events, files; each for its tenant alone."""

import csv
import io
import json
import threading
import time

import pytest

from wakeful.events import records as r
from wakeful.events.attributes import attributes_of
from wakeful.projections.counts import STATUSES
from wakeful.projections.queries import Queries

from .shelves import MINE, THEIRS, Shelves, secrets_of


@pytest.fixture(scope="module")
def shelves(postgres_url, tmp_path_factory):
    """A gateway whose views are full. No test changes what another looks at."""
    one = Shelves(tmp_path_factory.mktemp("gateway"), postgres_url, "shelves")
    one.fill()
    yield one
    one.close()


@pytest.fixture
def empty(postgres_url, tmp_path, namespace):
    """A gateway of this test's own."""
    one = Shelves(tmp_path, postgres_url, namespace)
    yield one
    one.close()


def of(shelves, what, tenant=MINE):
    with Queries(shelves.url, shelves.namespace) as all_of:
        return [row for row in getattr(all_of, what)(limit=1_000) if row["tenant"] == tenant]


def problem(answer, status, reason):
    assert (answer.status_code, answer.json()["type"]) == (
        status,
        f"urn:wakeful:problem:{reason}",
    ), answer.text
    return answer.json()["detail"]


@pytest.mark.parametrize(
    ("asked", "fits"),
    [
        ({}, lambda row: True),
        ({"status": "Suspended"}, lambda row: row["status"] == "Suspended"),
        ({"workflow": "desk", "status": "Waiting"}, lambda row: row["status"] == "Waiting"),
        ({"opened_by": "ann"}, lambda row: row["opened_by"] == "ann"),
        (
            {"waiting": "approval"},
            lambda row: "approval" in [w["kind"] for w in row["waiting_for"]],
        ),
        ({"id_prefix": "s1"}, lambda row: row["session_id"].startswith("s1")),
        ({"held": "true"}, lambda row: row["held_reason"]),
    ],
)
def test_sessions_are_listed_by_each_filter_in_pages(shelves, asked, fits):
    expected = {row["session_id"] for row in of(shelves, "sessions") if fits(row)}
    found = shelves.rows("sessions", params={**asked, "limit": 3})
    assert {row["session_id"] for row in found} == expected
    assert len(found) == len(expected)
    if "id_prefix" not in asked:
        assert [row["updated_at"] for row in found] == sorted(
            (row["updated_at"] for row in found), reverse=True
        )


def test_a_range_of_times_has_its_beginning_and_not_its_end(shelves):
    times = sorted(row["opened_at"] for row in of(shelves, "sessions"))
    params = {
        "opened_since": times[1].isoformat().replace("+00:00", "Z"),
        "opened_until": times[4].isoformat().replace("+00:00", "Z"),
    }
    assert len(shelves.rows("sessions", params=params)) == 3


def test_no_row_comes_twice_and_none_that_stays_is_lost_while_others_come_and_move(empty):
    for number in range(12):
        empty.scribe.add((MINE, f"s{number:02}"), r.SessionOpened("desk"))
    empty.project()
    first = empty.get("sessions", params={"limit": 4}).json()
    empty.scribe.add((MINE, "new"), r.SessionOpened("desk"))
    moved = r.MessageReceived("m", empty.scribe.payload("hi"))
    empty.scribe.add((MINE, "s03"), moved)
    empty.scribe.add((MINE, "s10"), moved)
    empty.project()
    rest = empty.rows("sessions", params={"limit": 4, "cursor": first["next_cursor"]})
    seen = [row["session_id"] for row in (*first["rows"], *rest)]
    assert len(seen) == len(set(seen))
    assert set(seen) == {f"s{number:02}" for number in range(12)} - {"s03"}


def test_one_session_says_where_it_stands_and_what_may_be_asked(shelves):
    answer = shelves.get("sessions/same-name")
    told = answer.json()
    assert answer.headers["etag"] == f'"{told["seq"]}"' == '"8"'
    assert (told["status"], told["tainted_by"], told["versions"]) == (
        "Waiting",
        ["refund"],
        {"workflow": "1"},
    )
    assert [w["id"] for w in told["waiting_for"]] == ["1.2-same"]
    assert told["next_valid"][1] == {
        "command": "ReleaseSession",
        "allowed": False,
        "reason": "it is not held",
    }
    assert told["next_valid_is_of_now"]
    assert [a["arguments"] for a in told["approvals"]] == [{"note": secrets_of(MINE)}]
    one = shelves.get("approvals/same-name/1.2-same").json()
    assert (one["action"], one["session_status"], one["session_seq"], one["tainted_by"]) == (
        "refund",
        "Waiting",
        8,
        ["refund"],
    )


def test_the_inbox_has_what_is_open_the_next_to_expire_first(shelves):
    found = shelves.rows("approvals", params={"limit": 2})
    expected = [a["proposal_id"] for a in of(shelves, "approvals") if a["status"] == "requested"]
    assert sorted(a["proposal_id"] for a in found) == sorted(expected) != []
    assert [a["expires_at"] for a in found] == sorted(a["expires_at"] for a in found)
    granted = shelves.rows("approvals", params={"status": "granted"})
    assert {a["status"] for a in granted} == {"granted"}
    assert len(shelves.rows("approvals", params={"session_id": "same-name"})) == 1


def test_the_ledger_is_a_list_and_a_file_of_the_same_rows(shelves):
    rows = shelves.rows("ledger", params={"limit": 7})
    assert {(s["session_id"], s["activity_id"]) for s in rows} == {
        (s["session_id"], s["activity_id"]) for s in of(shelves, "ledger")
    }
    answer = shelves.get("ledger.ndjson")
    assert answer.headers["content-type"] == "application/x-ndjson"
    assert [json.loads(line) for line in answer.text.splitlines()] == rows
    answer = shelves.get("ledger.csv")
    assert answer.headers["content-disposition"] == 'attachment; filename="ledger.csv"'
    table = list(csv.DictReader(io.StringIO(answer.text)))
    assert [(s["session_id"], s["status"]) for s in table] == [
        (s["session_id"], s["status"]) for s in rows
    ]
    failed = next(s for s in table if s["session_id"] == "same-name")
    assert failed["worker"] == f"'={secrets_of(MINE)}"
    assert failed["deadline_at"].endswith("Z")


def test_a_file_of_several_pages_has_every_row_once(shelves, monkeypatch):
    monkeypatch.setattr("wakeful.deploy.gateway.downloads.PAGE_ROWS", 3)
    lines = shelves.get("ledger.ndjson", params={"action": "refund"}).text.splitlines()
    assert len(lines) == len(set(lines)) == len(of(shelves, "ledger")) > 6


def test_refusals_are_listed_with_their_reasons(shelves):
    rows = shelves.rows("refusals", params={"reason": "too_old", "limit": 2})
    assert len(rows) == len(of(shelves, "refusals")) > 1
    (mine,) = shelves.rows("refusals", params={"session_id": "same-name"})
    assert (mine["failed_check"], mine["detail"]) == ("ordering", secrets_of(MINE))


def test_the_overview_counts_by_status_kind_of_wait_and_time(shelves):
    told = shelves.get("overview").json()
    rows = of(shelves, "sessions")
    assert told["statuses"] == {s: sum(row["status"] == s for row in rows) for s in STATUSES}
    assert told["held"] == 0
    waits = sum("approval" in [w["kind"] for w in row["waiting_for"]] for row in rows)
    assert sum(told["waits"]["approval"]) == waits > 0
    assert sum(one["counts"]["steps"] for one in told["slices"]) == len(of(shelves, "ledger"))
    assert sum(one["counts"]["refused"] for one in told["slices"]) == len(of(shelves, "refusals"))
    assert len(told["slices"]) == 30


def test_events_come_in_pages_from_the_stretches_in_which_they_lie(shelves):
    expected = [
        e.envelope.seq
        for e in shelves.scribe.events
        if (e.envelope.tenant, e.envelope.session_id) == (MINE, "s0")
    ]
    rows = shelves.rows("sessions/s0/events", params={"limit": 3})
    assert [row["seq"] for row in rows] == expected
    assert {(row["tenant"], row["session_id"]) for row in rows} == {(MINE, "s0")}
    assert rows[1]["body"]["message"] == {"text": "help 1 \N{SNOWMAN}"}
    behind = shelves.rows("sessions/s0/events", params={"after_seq": 4})
    assert behind == rows[4:]
    assert shelves.rows("sessions/s0/events", params={"after_seq": 1 << 40}) == []


def test_events_far_apart_are_read_without_those_between(empty, monkeypatch):
    monkeypatch.setattr("wakeful.projections.stretches.APART", 5)
    key = (MINE, "slow")
    empty.scribe.partitions = 1
    empty.scribe.add(key, r.SessionOpened("desk"))
    for number in range(4):
        for other in range(20):
            empty.scribe.add(
                (MINE, f"o{other}"),
                r.SessionOpened("desk")
                if not number
                else r.MessageReceived(f"m{number}", empty.scribe.payload(1)),
            )
        for _ in range(2):
            empty.scribe.add(
                key, r.MessageReceived(f"m{empty.scribe.now_ms}", empty.scribe.payload(number))
            )
    empty.project()
    with Queries(empty.url, empty.namespace, tenant=MINE) as queries:
        stretches = queries.stretches("slow", tenant=MINE)
    assert [(s["first_seq"], s["last_seq"]) for s in stretches] == [
        (1, 1),
        (2, 3),
        (4, 5),
        (6, 7),
        (8, 9),
    ]
    asked = []
    reader = type(empty.log.reader())
    poll = reader.poll

    def noting(self, records_max, timeout_ms):
        asked.append(records_max)
        return poll(self, records_max, timeout_ms)

    monkeypatch.setattr(reader, "poll", noting)
    monkeypatch.setattr("wakeful.deploy.telling.stretches.place_of", None, raising=False)
    rows = empty.rows("sessions/slow/events", params={"limit": 4})
    assert [row["seq"] for row in rows] == list(range(1, 10))
    assert sum(asked) <= 2 * len(rows)


@pytest.mark.parametrize(
    "path",
    [
        "sessions",
        "sessions/same-name",
        "sessions/same-name/events",
        "approvals",
        "ledger",
        "refusals",
        "overview",
    ],
)
def test_an_answer_says_its_position_and_waits_for_one(shelves, path):
    answer = shelves.get(path)
    position = answer.headers["wakeful-position"]
    assert position.count(":") == 2
    assert shelves.get(path, params={"at": position}).status_code == 200
    assert shelves.get(path, headers={"Wakeful-Position": position}).json() == answer.json()


def test_who_writes_reads_what_they_wrote(empty):
    empty.scribe.add((MINE, "s1"), r.SessionOpened("desk"))
    empty.write()
    (record,) = empty.scribe.records
    at = f"{record.partition}:{record.offset + 1}"
    late = threading.Thread(target=lambda: (time.sleep(0.3), empty.project()))
    late.start()
    answer = empty.get("sessions/s1", params={"at": at})
    late.join()
    assert answer.status_code == 200


def test_a_position_that_is_not_reached_is_a_problem_for_a_moment(empty, monkeypatch):
    monkeypatch.setattr("wakeful.deploy.gateway.viewing.WAIT_MS", 200)
    answer = empty.get("sessions", params={"at": "0:77"})
    assert "not at 77" in problem(answer, 503, "not_reached")
    assert answer.headers["retry-after"] == "1"
    for at in ("nonsense", "0:-1", "7:1", "0:1;DROP"):
        problem(empty.get("sessions", params={"at": at}), 422, "wrong_position")
        problem(empty.get("sessions", headers={"Wakeful-Position": at}), 422, "wrong_position")


def test_a_cursor_is_of_one_list_with_its_filters_for_one_tenant(shelves):
    cursor = shelves.get("sessions", params={"limit": 2}).json()["next_cursor"]
    wrong = [
        ("sessions", {"cursor": cursor, "status": "Waiting"}, MINE),
        ("sessions", {"cursor": cursor}, THEIRS),
        ("ledger", {"cursor": cursor}, MINE),
        ("ledger.csv", {"cursor": cursor}, MINE),
        ("sessions/s0/events", {"cursor": cursor}, MINE),
        ("sessions", {"cursor": cursor[:-1] + ("A" if cursor[-1] != "A" else "B")}, MINE),
        ("sessions", {"cursor": "A" + cursor[1:] if cursor[0] != "A" else "B" + cursor[1:]}, MINE),
        *(
            ("sessions", {"cursor": text}, MINE)
            for text in ("", "x", "é", "a" * 1_000, "====", "bm9uc2Vuc2U")
        ),
    ]
    for path, params, tenant in wrong:
        problem(shelves.get(path, params=params, tenant=tenant), 422, "wrong_cursor")
    events = shelves.get("sessions/s0/events", params={"limit": 1}).json()["next_cursor"]
    problem(shelves.get("sessions/s3/events", params={"cursor": events}), 422, "wrong_cursor")
    assert shelves.get("sessions", params={"cursor": cursor, "limit": 200}).status_code == 200


def test_what_is_not_offered_and_what_is_not_known_is_refused_with_what_there_is(shelves):
    told = problem(
        shelves.get("sessions", params={"held": "true", "workflow": "desk"}), 422, "not_offered"
    )
    assert "workflow and status" in told
    problem(
        shelves.get("ledger", params={"session_id": "s0", "status": "failed"}), 422, "not_offered"
    )
    for params in (
        {"sttus": "Waiting"},
        {"status": "Nonsense"},
        {"limit": 0},
        {"limit": 201},
        {"limit": "ten"},
        {"updated_since": "yesterday"},
        {"workflow": ""},
        {"workflow": "a\0b"},
        {"id_prefix": "x" * 300},
    ):
        problem(shelves.get("sessions", params=params), 422, "invalid_request")


def test_nothing_is_told_to_who_is_not_known_and_letters_to_operators_alone(shelves):
    for path in (
        "sessions",
        "approvals",
        "ledger.csv",
        "lag",
        "overview",
        "letters",
        "sessions/s0/events",
    ):
        answer = shelves.client.get(f"/v1/{path}")
        assert (answer.status_code, answer.json()["type"]) == (
            401,
            "urn:wakeful:problem:unauthenticated",
        )
        problem(shelves.get(path, role="hook"), 403, "not_permitted") if path != "letters" else None
    for role in ("viewer", "user", "approver", "hook"):
        problem(shelves.get("letters", role=role), 403, "not_permitted")


def test_sessions_are_found_by_an_attribute_and_by_two(empty):
    for number in range(3):
        found_by = attributes_of({"customer": "ivo", "order": number})
        empty.scribe.add((MINE, f"s{number}"), r.SessionOpened("desk", found_by))
    empty.scribe.add((THEIRS, "s9"), r.SessionOpened("desk", attributes_of({"customer": "ivo"})))
    empty.project()
    one = empty.rows("sessions", params={"attribute.customer": "ivo", "limit": 2})
    assert [row["session_id"] for row in one] == ["s2", "s1", "s0"]
    both = {"attribute.customer": "ivo", "attribute": "order=1"}
    (two,) = empty.rows("sessions", params=both)
    assert (two["session_id"], two["attributes"]) == ("s1", {"customer": "ivo", "order": 1})


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ("attribute.a-b=x", "attribute name 'a-b' is not allowed"),
        ("attribute.a=", "attribute"),
        ("attribute.a=1&attribute.a=2", "attribute 'a=2' is given twice"),
        ("attribute.a=1&attribute.b=2&attribute.c=3", "look for 2 of them at most"),
        ("attribute=customer", "attribute 'customer' is not name=value"),
        ("attribute.a=1&held=true", "no index gives that"),
        ("attributes=a", "attributes"),
    ],
)
def test_attributes_that_cannot_be_looked_for_are_named(shelves, asked, told):
    answer = shelves.get(f"/v1/sessions?{asked}")
    assert answer.status_code == 422
    assert told in answer.json()["detail"]
