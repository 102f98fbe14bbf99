"""Whatever is asked, and however: a tenant is told nothing of another one's, and nothing that is asked is run."""

import re

import pytest

from wakeful.events import records as r
from wakeful.events.headers import dead_letter_headers
from wakeful.events.log.protocol import Isolation, Place

from .shelves import MINE, THEIRS, Shelves, secrets_of


@pytest.fixture(scope="module")
def shelves(postgres_url, tmp_path_factory):
    """A gateway whose views are full."""
    one = Shelves(tmp_path_factory.mktemp("gateway"), postgres_url, "shelves-apart")
    one.fill()
    yield one
    one.close()


INJECTIONS = (
    "'",
    "' OR '1'='1",
    "t1",
    "x' UNION SELECT * FROM sessions --",
    "'; SET wakeful.tenant = 't1'; --",
    "'); SELECT set_config('wakeful.tenant', 't1', false); --",
    "%(tenant)s",
    "%s%%",
    "{tables}",
    "\\",
    "$1",
    "%",
    "_",
    "a\0b",
    "\N{SNOWMAN}" * 40,
    "same-name' AND tenant = 't1",
    "t1/same-name",
    "../t1/same-name",
    "2026-01-01T00:00:00Z' OR true --",
)

LISTS = {
    "sessions": (
        *("status", "workflow", "opened_by", "held", "waiting", "id_prefix"),
        *("updated_since", "updated_until", "opened_since", "opened_until"),
    ),
    "approvals": (
        *("status", "approver", "action", "session_id"),
        *("expires_since", "expires_until", "requested_since", "requested_until"),
    ),
    "ledger": ("status", "action", "session_id", "requested_since", "requested_until"),
    "ledger.csv": ("action", "session_id"),
    "ledger.ndjson": ("action", "session_id"),
    "refusals": ("reason", "session_id", "refused_since", "refused_until"),
    "sessions/same-name/events": ("after_seq",),
    "letters": ("handled",),
    "lag": (),
    "overview": (),
    "sessions/same-name": (),
    "approvals/same-name/1.2-same": (),
}


def every():
    for path, names in LISTS.items():
        for name in (*names, "at", "limit", "cursor", "tenant"):
            yield path, name


def check_apart(answer):
    told = answer.text
    assert answer.status_code in (200, 404, 422, 503), (answer.url, told)
    assert secrets_of(THEIRS) not in told
    assert not re.search(r"syntax error|psycopg|Traceback|LINE 1|relation ", told), told


@pytest.mark.parametrize(("path", "name"), list(every()))
def test_nothing_asked_in_any_parameter_crosses_to_another_tenant(shelves, path, name, monkeypatch):
    monkeypatch.setattr("wakeful.deploy.gateway.viewing.WAIT_MS", 50)
    for text in INJECTIONS:
        check_apart(shelves.get(path, params={name: text}, role="operator"))


@pytest.mark.parametrize("text", [*INJECTIONS, "s" * 129, "", "nowhere"])
def test_nothing_asked_in_any_path_crosses_to_another_tenant(shelves, text):
    from urllib.parse import quote

    one = quote(text, safe="")
    for path in (
        f"sessions/{one}",
        f"sessions/{one}/events",
        f"approvals/{one}/1.2-same",
        f"approvals/same-name/{one}",
    ):
        check_apart(shelves.get(path))


def test_another_tenants_session_is_as_unknown_as_nobodys(shelves):
    theirs = next(
        row["session_id"]
        for row in shelves.rows("sessions", tenant=THEIRS)
        if row["session_id"] != "same-name"
    )
    assert theirs not in {row["session_id"] for row in shelves.rows("sessions")}
    nobodys = "s" + "9" * (len(theirs) - 1)
    for path in ("sessions/{}", "sessions/{}/events", "approvals/{}/1.1"):
        found = [shelves.get(path.format(name)) for name in (theirs, nobodys)]
        assert [one.status_code for one in found] == [404, 404]
        assert found[0].text.replace(theirs, "X") == found[1].text.replace(nobodys, "X")
        assert dict(found[0].headers) == dict(found[1].headers)
    for path in ("approvals", "ledger", "refusals"):
        found = [shelves.get(path, params={"session_id": name}) for name in (theirs, nobodys)]
        assert [one.json() for one in found] == [{"rows": [], "next_cursor": None}] * 2


@pytest.mark.parametrize("path", ["sessions", "approvals", "ledger", "refusals"])
def test_each_list_has_the_rows_of_its_tenant_and_all_of_them(shelves, path):
    mine, theirs = (shelves.rows(path, tenant=tenant) for tenant in (MINE, THEIRS))
    assert mine != theirs != []
    for rows, tenant in ((mine, THEIRS), (theirs, MINE)):
        assert secrets_of(tenant) not in str(rows)
    for tenant in (MINE, THEIRS):
        for name in ("ledger.csv", "ledger.ndjson"):
            told = shelves.get(name, tenant=tenant).text
            assert secrets_of(tenant) in told
            assert secrets_of(THEIRS if tenant == MINE else MINE) not in told


def test_an_operator_sees_the_letters_of_its_tenant_and_of_nobody_else(shelves):
    producer, topics = shelves.log.producer(), shelves.settings.topics
    for key in (
        b"t0/s0",
        b"t1/s1",
        b"t01/s1",
        b"nobody",
        None,
        b"t0/s0/more",
        b"\xff/x",
        b"t0/\xff",
    ):
        record = shelves.scribe.append(0, key, b"secret-of-t1")
        del shelves.scribe.records[-1]
        producer.produce(
            topics.dead_letters,
            key=key,
            value=record.value,
            headers=dead_letter_headers(record, "not_open", "open it"),
            partition=0,
        )
    producer.flush(1_000)
    (mine,) = shelves.get("letters", role="operator").json()["rows"]
    assert mine["id"].startswith("0@")
    assert (mine["key"], mine["reason"], mine["detail"]) == ("t0/s0", "not_open", "open it")
    (theirs,) = shelves.get("letters", role="operator", tenant=THEIRS).json()["rows"]
    assert theirs["key"] == "t1/s1"
    assert "secret-of" not in str((mine, theirs))


def test_letters_come_in_pages_the_newest_first_and_a_cursor_is_good_for_its_list_alone(shelves):
    topics, producer = shelves.settings.topics, shelves.log.producer()
    ends = shelves.log.ends([Place(topics.dead_letters, n) for n in (0, 1)], Isolation.COMMITTED)
    first = {place.partition: end for place, (_, end) in ends.items()}
    record = shelves.scribe.append(0, b"t0/s0", b"bytes")
    del shelves.scribe.records[-1]
    for n in range(7):
        producer.produce(
            topics.dead_letters,
            key=(b"t8/s0", b"t9/s1")[n == 3],
            value=record.value,
            headers=dead_letter_headers(record, "not_open", "open it"),
            partition=n % 2,
        )
        producer.flush(1_000)
        shelves.scribe.now_ms += 1
    one = shelves.get("letters", role="operator", tenant="t8", params={"limit": 4}).json()
    asked = {"limit": 4, "cursor": one["next_cursor"]}
    two = shelves.get("letters", role="operator", tenant="t8", params=asked).json()
    seen = [
        [(int(row["id"][0]), int(row["id"][2:]) - first[int(row["id"][0])]) for row in page["rows"]]
        for page in (one, two)
    ]
    assert seen == [[(0, 3), (1, 2), (0, 2), (0, 1)], [(1, 0), (0, 0)]]
    assert two["next_cursor"] is None
    for tenant, handled in (("t8", "true"), ("t9", "false")):
        told = {**asked, "handled": handled}
        wrong = shelves.get("letters", role="operator", tenant=tenant, params=told)
        assert (wrong.status_code, wrong.json()["type"]) == (
            422,
            "urn:wakeful:problem:wrong_cursor",
        )


def test_lag_is_told_in_records_and_seconds_per_partition(shelves):
    commands = shelves.settings.topics.commands
    producer = shelves.log.producer()
    for _ in range(3):
        producer.produce(commands, key=b"t1/s1", value=b"secret-of-t1", partition=1)
    producer.flush(1_000)
    shelves.committed.update({Place(commands, 0): 0, Place(commands, 1): 1})
    shelves.scribe.now_ms += 90_000
    told = shelves.get("lag").json()
    assert told["processors"] == [
        {"partition": 0, "records": 0, "seconds": 0.0},
        {"partition": 1, "records": 2, "seconds": 90.0},
    ]
    assert [one["partition"] for one in told["projector"]] == [0, 1]
    shelves.committed[Place(commands, 1)] = 3
    shelves.scribe.now_ms += 2_000
    assert shelves.get("lag").json()["processors"][1] == {
        "partition": 1,
        "records": 0,
        "seconds": 0.0,
    }


def test_the_lag_of_a_projector_that_is_stopped_grows_with_the_log(
    postgres_url, tmp_path, namespace
):
    """It says itself what it sees, and says nothing while it is stopped: so the gateway looks."""
    one = Shelves(tmp_path, postgres_url, namespace)
    try:
        one.scribe.add((MINE, "s1"), r.SessionOpened("desk"))
        one.project()
        assert {row["records"] for row in one.get("lag").json()["projector"]} == {0}
        for number in range(3):
            one.scribe.add((MINE, "s1"), r.MessageReceived(f"m{number}", one.scribe.payload("hi")))
        one.write()
        one.scribe.now_ms += 90_000
        told = sorted(row["records"] for row in one.get("lag").json()["projector"])
        assert told == [0, 3]
        assert max(row["seconds"] for row in one.get("lag").json()["projector"]) >= 90
    finally:
        one.close()
