"""The same commands where there are views: older repeats and fates are told by them, and versions refused at once."""

from __future__ import annotations

import pytest

from wakeful.deploy.gateway.recent import Recent
from wakeful.events import records as r
from wakeful.events.log.protocol import Place
from wakeful.projections.database import drop, install

from .posting import Gateway, problem


@pytest.fixture(scope="module")
def gateway(postgres_url, tmp_path_factory):
    install(postgres_url, "desk")
    found = Gateway(tmp_path_factory.mktemp("gateway"), url=postgres_url)
    yield found
    found.close()
    drop(postgres_url, "desk")


def forgotten(gateway, monkeypatch):
    """A gateway that has seen nothing of late, and that no command has waited for all the while."""
    gateway.run(80)
    gateway.cluster.clock.ms += 3_600_000
    monkeypatch.setattr(
        gateway.services,
        "recent",
        Recent(
            gateway.services.log,
            gateway.cluster.topics.commands,
            gateway.cluster.identity,
            gateway.cluster.clock.now_ms,
        ),
    )


def test_the_views_tell_what_became_of_a_command(gateway):
    gateway.open("a1")
    answer = gateway.post("/sessions/a1/messages", {"message": "hi"})
    gateway.run(80)
    told = answer.json()
    bare = f"/sessions/a1/commands/{told['command_id']}"
    found = gateway.get(bare).json()
    assert (found["state"], found["command_position"]) == ("applied", told["command_position"])
    assert found["position"]
    assert gateway.get(told["status_url"]).json()["state"] == "applied"


def test_a_repeat_is_known_by_the_views_when_the_gateway_has_forgotten(gateway, monkeypatch):
    gateway.open("a2")
    first = gateway.post("/sessions/a2/messages", {"message": "hi"}, Idempotency_Key="k1")
    gateway.run(80)
    before = gateway.asked_of("a2")
    forgotten(gateway, monkeypatch)
    again = gateway.post("/sessions/a2/messages", {"message": "hi"}, Idempotency_Key="k1")
    assert (again.status_code, again.json()) == (202, first.json())
    assert again.headers["idempotency-replayed"] == "true"
    other = gateway.post("/sessions/a2/messages", {"message": "other"}, Idempotency_Key="k1")
    problem(other, 422, "idempotency_key_reused")
    assert gateway.asked_of("a2") == before


def test_a_repeat_is_no_other_tenants(gateway, monkeypatch):
    gateway.open("a3")
    mine = gateway.post("/sessions/a3/messages", {"message": "hi"}, Idempotency_Key="k1")
    gateway.run(80)
    stranger = gateway.key("user", tenant="other", actor="ann")
    theirs = gateway.post(
        "/sessions/a3/messages", {"message": "hi"}, key=stranger, Idempotency_Key="k1"
    )
    assert theirs.json()["command_id"] != mine.json()["command_id"]
    forgotten(gateway, monkeypatch)
    problem(gateway.get(mine.json()["status_url"], key=stranger), 404, "unknown_command")


def test_a_repeat_whose_first_is_kept_no_longer_is_answered_as_it(gateway, monkeypatch):
    gateway.open("a4")
    first = gateway.post("/sessions/a4/messages", {"message": "hi"}, Idempotency_Key="k1")
    gateway.run(80)
    partition, offset = map(int, first.json()["command_position"].split(":"))
    gateway.cluster.log.trim(Place(gateway.cluster.topics.commands, partition), offset + 1)
    forgotten(gateway, monkeypatch)
    again = gateway.post("/sessions/a4/messages", {"message": "hi"}, Idempotency_Key="k1")
    assert again.json() == first.json()
    assert gateway.cluster.facts("a4").count("MessageReceived") == 1


def test_a_version_that_the_views_know_to_be_stale_never_reaches_the_log(gateway):
    gateway.open("a5")
    gateway.post("/sessions/a5/messages", {"message": "hi"}, Prefer="wait=5")
    gateway.run(80)
    before = gateway.asked_of("a5")
    stale = gateway.post("/sessions/a5/messages", {"message": "b"}, If_Match='"1"')
    assert "the session is at" in problem(stale, 412, "stale")
    assert gateway.asked_of("a5") == before
    etag = gateway.get("/sessions/a5").headers["etag"]
    fresh = gateway.post("/sessions/a5/messages", {"message": "c"}, If_Match=etag)
    assert (fresh.status_code, fresh.json()["state"]) == (200, "applied")


def test_a_repeat_with_a_version_is_answered_as_the_first_though_the_session_has_moved_on(gateway):
    gateway.open("a6")
    gateway.run(80)
    etag = gateway.get("/sessions/a6").headers["etag"]
    said = {"message": "once"}
    first = gateway.post("/sessions/a6/messages", said, If_Match=etag, Idempotency_Key="k1")
    gateway.run(80)
    again = gateway.post("/sessions/a6/messages", said, If_Match=etag, Idempotency_Key="k1")
    assert (first.status_code, again.status_code) == (200, 200)
    assert again.json()["command_id"] == first.json()["command_id"]
    assert gateway.cluster.facts("a6").count("MessageReceived") == 1


def test_a_session_is_taken_back_to_the_state_that_a_turn_left(gateway):
    gateway.open("a9")
    for text in ("one", "two"):
        gateway.post("/sessions/a9/messages", {"message": text})
        for _ in range(3):  # an order is looked up, and paid back
            gateway.run(80)
            gateway.cluster.answer(cents=100)
    ends = [e.body for e in gateway.cluster.events("a9") if isinstance(e.body, r.TurnCompleted)]
    assert [end.turn for end in ends] == [1, 2]
    operator, where = gateway.key("operator", actor="olga"), "/sessions/a9/reset"
    wait = {"key": operator, "Prefer": "wait=5"}
    first = gateway.post(where, {"to_turn": 1}, Idempotency_Key="back", **wait)
    assert (first.status_code, first.json()["state"]) == (200, "applied")
    (back,) = [e.body for e in gateway.cluster.events("a9") if isinstance(e.body, r.SessionReset)]
    assert (back.turn, back.to_turn, back.state) == (2, 1, ends[0].state)
    again = gateway.post(where, {"to_turn": 1}, Idempotency_Key="back", **wait)
    assert again.headers["idempotency-replayed"] == "true"
    told = problem(gateway.post(where, {"to_turn": 9}, **wait), 422, "unknown_turn")
    assert "name one of turns 0, 1, 2" in told
    stranger = gateway.key("operator", tenant="other")
    problem(gateway.post(where, {"to_turn": 1}, key=stranger), 404, "unknown_session")
