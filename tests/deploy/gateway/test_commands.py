"""Commands over HTTP: what they become, who may ask, and that a repeat is one."""

from __future__ import annotations

import re

import pytest

from wakeful.events import records as r
from wakeful.events.payloads import load_json

from .posting import Gateway, problem


@pytest.fixture
def gateway(tmp_path):
    found = Gateway(tmp_path)
    yield found
    found.close()


def asked(gateway: Gateway, session_id: str = "s1") -> r.ApprovalRequested:
    """A session that waits for an approval, and its proposal."""
    gateway.open(session_id)
    gateway.post(f"/sessions/{session_id}/messages", {"message": "order"})
    for _ in range(3):
        gateway.run()
        gateway.cluster.answer(cents=20_000)
    return next(
        e.body
        for e in gateway.cluster.events(session_id)
        if isinstance(e.body, r.ApprovalRequested)
    )


def test_a_command_is_answered_with_where_it_lies_and_where_to_ask(gateway):
    gateway.working = False
    answer = gateway.post("/sessions", {"workflow": "desk"})
    told = answer.json()
    assert answer.status_code == 202
    assert set(told) == {"session_id", "command_id", "status_url", "command_position"}
    assert answer.headers["location"] == told["status_url"]
    assert gateway.fate(answer)["state"] == "undecided"
    gateway.working = True
    gateway.run()
    found = gateway.fate(answer)
    assert found["state"] == "applied"
    assert found["position"]
    assert gateway.cluster.facts(told["session_id"])[0] == "SessionOpened"


def test_one_that_waits_is_answered_with_the_verdict(gateway):
    answer = gateway.post("/sessions", {"workflow": "desk", "session_id": "s1"}, Prefer="wait=5")
    assert (answer.status_code, answer.json()["state"]) == (200, "applied")
    assert answer.headers["preference-applied"] == "wait=5"
    assert answer.headers["wakeful-position"] == answer.json()["position"]
    answer = gateway.post("/sessions/none/messages", {"message": "hi"}, Prefer="wait=5")
    told = answer.json()
    assert (answer.status_code, told["state"], told["reason"]) == (
        200,
        "refused",
        "unknown_session",
    )
    assert "POST /v1/sessions" in told["next_step"]


def test_what_was_turned_away_at_the_door_is_told_by_its_status_url(gateway):
    answer = gateway.post("/sessions/none/messages", {"message": "hi"})
    gateway.run()
    found = gateway.fate(answer)
    assert (found["state"], found["reason"]) == ("refused", "unknown_session")


def test_a_wait_that_ends_without_a_verdict_is_a_202(gateway):
    gateway.working = False
    answer = gateway.post("/sessions", {"workflow": "desk"}, Prefer="wait=1")
    assert answer.status_code == 202
    assert answer.headers["preference-applied"] == "wait=1"


def test_an_approval_is_decided_by_its_digest(gateway):
    proposal = asked(gateway)
    approver = gateway.key("approver", actor="sue")
    where = f"/sessions/s1/approvals/{proposal.proposal_id}/decision"
    other = gateway.post(
        where, {"decision": "approve", "digest": "0" * 64}, key=approver, Prefer="wait=5"
    )
    assert (other.json()["state"], other.json()["reason"]) == ("refused", "wrong_digest")
    said = {"decision": "approve", "digest": proposal.digest.hex(), "comment": "fine"}
    answer = gateway.post(where, said, key=approver, Prefer="wait=5")
    assert (answer.status_code, answer.json()["state"]) == (200, "applied")
    granted = next(e for e in gateway.cluster.events("s1") if isinstance(e.body, r.ApprovalGranted))
    assert (granted.envelope.actor, granted.envelope.channel) == ("sue", "http")


def test_every_other_command_is_let_in_as_it_is_meant(gateway):
    gateway.open()
    operator = gateway.key("operator", actor="olga")
    told = {}
    for where, body in (
        ("/sessions/s1/signals", {"name": "paid", "data": {"euro": 3}}),
        ("/sessions/s1/turns", {"trigger": "schedule", "reason": "monday", "data": [1]}),
        ("/sessions/s1/artifacts", {"artifact_id": "order-7", "version": "2"}),
        ("/sessions/s1/release", {"reason": "mended"}),
        ("/sessions/s1/recover", {"activity_id": "1.1", "attempt": 7}),
        ("/sessions/s1/pin", {"version": 1, "reason": "until it is mended"}),
        ("/sessions/s1/activities/1.1/resolution", {"resolution": "completed", "result": 7}),
        ("/sessions/s1/cancel", {"reason": "enough"}),
    ):
        answer = gateway.post(where, body, key=operator, Prefer="wait=5")
        assert answer.status_code == 200, answer.text
        told[where.rpartition("/")[2]] = (answer.json()["state"], answer.json().get("reason"))
    assert told == {
        "signals": ("applied", None),
        "turns": ("applied", None),
        "artifacts": ("refused", "unknown_artifact"),
        "release": ("refused", "not_held"),
        "recover": ("refused", "not_stalled"),
        "pin": ("applied", None),
        "resolution": ("refused", "not_uncertain"),
        "cancel": ("applied", None),
    }
    bodies = [e.body for e in gateway.cluster.events("s1")]
    signal = next(body for body in bodies if isinstance(body, r.SignalReceived))
    assert (signal.name, load_json(signal.data)) == ("paid", {"euro": 3})
    trigger = next(body for body in bodies if isinstance(body, r.TriggerReceived))
    assert (trigger.trigger, trigger.reason, load_json(trigger.data)) == ("schedule", "monday", [1])
    assert any(isinstance(body, r.CancellationRequested) for body in bodies)


def test_an_attempt_that_stalled_is_given_up(gateway):
    """The desk's first step is a read: another attempt is made."""
    gateway.open()
    gateway.post("/sessions/s1/messages", {"message": "order"})
    gateway.run()
    said = {"activity_id": "1.1", "attempt": 1, "reason": "its worker hangs"}
    operator = gateway.key("operator", actor="olga")
    answer = gateway.post("/sessions/s1/recover", said, key=operator, Prefer="wait=5")
    assert answer.json()["state"] == "applied"
    asked = [e for e in gateway.cluster.events("s1") if isinstance(e.body, r.RecoveryRequested)]
    assert [(e.body.activity_id, e.body.attempt, e.envelope.actor) for e in asked] == [
        ("1.1", 1, "olga")
    ]


def test_where_all_of_a_body_may_be_left_out_so_may_the_body(gateway):
    gateway.open()
    operator = gateway.headers(gateway.key("operator"), Prefer="wait=5")
    told = [
        gateway.client.post(f"/v1/sessions/s1/{what}", headers=operator).json()
        for what in ("recover", "release", "cancel")
    ]
    assert [(one["state"], one.get("reason")) for one in told] == [
        ("refused", "not_stalled"),
        ("refused", "not_held"),
        ("applied", None),
    ]


@pytest.mark.parametrize(
    ("role", "allowed"),
    [
        ("viewer", set()),
        ("user", {"messages", "signals", "turns", "artifacts", "sessions"}),
        ("approver", {"decision"}),
        ("hook", set()),
    ],
)
def test_a_role_may_ask_for_what_is_its_own_and_nothing_else(gateway, role, allowed):
    key = gateway.key(role)
    commands = {
        "sessions": ("/sessions", {"workflow": "desk"}),
        "messages": ("/sessions/s1/messages", {"message": "hi"}),
        "signals": ("/sessions/s1/signals", {"name": "paid"}),
        "turns": ("/sessions/s1/turns", {"trigger": "schedule"}),
        "artifacts": ("/sessions/s1/artifacts", {"artifact_id": "a", "version": "2"}),
        "decision": (
            "/sessions/s1/approvals/p/decision",
            {"decision": "approve", "digest": "0" * 64},
        ),
        "cancel": ("/sessions/s1/cancel", {}),
        "release": ("/sessions/s1/release", {}),
        "recover": ("/sessions/s1/recover", {}),
        "reset": ("/sessions/s1/reset", {"to_turn": 0}),
        "pin": ("/sessions/s1/pin", {"version": None}),
        "resolution": ("/sessions/s1/activities/1.1/resolution", {"resolution": "failed"}),
    }
    for name, (where, body) in commands.items():
        answer = gateway.post(where, body, key=key)
        if name in allowed:
            assert answer.status_code == 202, answer.text
        else:
            assert "ann may not" in problem(answer, 403, "not_permitted")


def test_the_tenant_is_that_of_the_credential_and_of_nothing_else(gateway):
    gateway.open("s1")
    stranger = gateway.key("operator", tenant="other")
    answer = gateway.post(
        "/sessions/s1/cancel", {}, key=stranger, Prefer="wait=5", Wakeful_Tenant="acme"
    )
    assert (answer.json()["state"], answer.json()["reason"]) == ("refused", "unknown_session")
    assert gateway.cluster.facts("s1") == ["SessionOpened", "SessionSuspended"] or (
        "CancellationRequested" not in gateway.cluster.facts("s1")
    )
    problem(
        gateway.post("/sessions", {"workflow": "desk", "tenant": "other"}), 422, "invalid_request"
    )


def test_a_strangers_command_and_one_that_never_was_are_told_alike(gateway):
    mine = gateway.post("/sessions", {"workflow": "desk", "session_id": "s1"})
    gateway.run()
    stranger = gateway.key("viewer", tenant="other")
    url = mine.json()["status_url"]
    theirs = problem(gateway.get(url, key=stranger), 404, "unknown_command")
    command_id = mine.json()["command_id"]
    never = problem(gateway.get(url.replace(command_id, "never")), 404, "unknown_command")
    assert theirs.replace(command_id, "never") == never


def test_a_repeat_is_answered_as_the_first_and_changes_nothing(gateway):
    gateway.open()
    before = len(gateway.cluster.log.dump(gateway.cluster.topics.commands))
    said = {"message": "once"}
    first = gateway.post("/sessions/s1/messages", said, Idempotency_Key="k1")
    again = gateway.post("/sessions/s1/messages", said, Idempotency_Key="k1")
    quoted = gateway.post("/sessions/s1/messages", said, Idempotency_Key='"k1"')
    assert "idempotency-replayed" not in first.headers
    for answer in (again, quoted):
        assert answer.headers["idempotency-replayed"] == "true"
        assert (answer.status_code, answer.json()) == (202, first.json())
    assert len(gateway.cluster.log.dump(gateway.cluster.topics.commands)) == before + 1
    gateway.run()
    waited = gateway.post("/sessions/s1/messages", said, Idempotency_Key="k1", Prefer="wait=5")
    assert (waited.status_code, waited.json()["state"]) == (200, "applied")
    assert waited.headers["idempotency-replayed"] == "true"
    assert gateway.cluster.facts("s1").count("MessageReceived") == 1


def test_a_gateway_that_knows_nothing_tells_a_repeat_all_the_same(gateway, tmp_path):
    gateway.open()
    first = gateway.post("/sessions/s1/messages", {"message": "once"}, Idempotency_Key="k1")
    gateway.services.recent.close()
    gateway.services.recent = type(gateway.services.recent)(
        gateway.services.log,
        gateway.cluster.topics.commands,
        gateway.cluster.identity,
        gateway.cluster.clock.now_ms,
    )
    again = gateway.post("/sessions/s1/messages", {"message": "once"}, Idempotency_Key="k1")
    assert again.json() == first.json()


def test_a_key_is_good_for_one_command_of_one_actor_at_one_address(gateway):
    gateway.open("s1")
    gateway.open("s2")
    bob = gateway.key("user", actor="bob")
    ids = {
        gateway.post(where, {"message": "hi"}, key=key, Idempotency_Key="k1").json()["command_id"]
        for where in ("/sessions/s1/messages", "/sessions/s2/messages")
        for key in (gateway.user, bob)
    }
    assert len(ids) == 4
    other = gateway.post("/sessions/s1/messages", {"message": "bye"}, Idempotency_Key="k1")
    assert "another command" in problem(other, 422, "idempotency_key_reused")


def test_a_session_is_opened_once_with_a_key(gateway):
    first = gateway.post("/sessions", {"workflow": "desk"}, Idempotency_Key="k1")
    again = gateway.post("/sessions", {"workflow": "desk"}, Idempotency_Key="k1")
    assert first.json() == again.json()
    other = gateway.post("/sessions", {"workflow": "sleeper"}, Idempotency_Key="k1")
    problem(other, 422, "idempotency_key_reused")


def test_what_was_opened_under_a_name_is_opened_again_by_nobody_else(gateway):
    gateway.open("s1")
    said = {"workflow": "desk", "session_id": "s1"}
    again = gateway.post("/sessions", said, Prefer="wait=5")
    assert again.json()["state"] == "applied"
    assert again.headers["idempotency-replayed"] == "true"
    bob = gateway.post("/sessions", said, key=gateway.key("user", actor="bob"), Prefer="wait=5")
    assert (bob.json()["state"], bob.json()["reason"]) == ("refused", "already_open")


def test_a_stale_version_is_refused_with_412(gateway):
    gateway.open()
    seq = len(gateway.cluster.facts("s1"))
    gateway.post("/sessions/s1/messages", {"message": "a"}, Prefer="wait=5")
    stale = gateway.post("/sessions/s1/messages", {"message": "b"}, If_Match=f'"{seq}"')
    assert "ask again with its ETag" in problem(stale, 412, "stale")
    gateway.run()
    seq = gateway.cluster.events("s1")[-1].envelope.seq
    fresh = gateway.post("/sessions/s1/messages", {"message": "c"}, If_Match=f'"{seq}"')
    assert (fresh.status_code, fresh.json()["state"]) == (200, "applied")


def test_who_asks_while_the_processors_are_behind_is_told_to_wait(tmp_path):
    gateway = Gateway(tmp_path, behind_max_s=60)
    gateway.open()
    gateway.run()
    gateway.working = False
    gateway.post("/sessions/s1/messages", {"message": "a"})
    gateway.cluster.clock.ms += 59_000
    gateway.services.backlog.look()
    assert gateway.post("/sessions/s1/messages", {"message": "b"}).status_code == 202
    gateway.cluster.clock.ms += 20_000
    gateway.services.backlog.look()
    answer = gateway.post("/sessions/s1/messages", {"message": "c"})
    assert "79 s" in problem(answer, 429, "behind")
    assert int(answer.headers["retry-after"]) == 19
    operator = gateway.key("operator")
    assert gateway.post("/sessions/s1/cancel", {}, key=operator).status_code == 202
    again = gateway.post("/sessions/s1/messages", {"message": "a"}, Idempotency_Key="late")
    problem(again, 429, "behind")
    gateway.working = True
    gateway.run()
    assert gateway.post("/sessions/s1/messages", {"message": "c"}).status_code == 202
    gateway.close()


def test_every_command_leaves_a_line_for_the_audit_without_a_secret(gateway, capsys):
    gateway.post("/sessions", {"workflow": "desk", "session_id": "s1"}, Prefer="wait=5")
    lines = [line for line in capsys.readouterr().out.splitlines() if "command " in line]
    (line,) = [line for line in lines if "OpenSession" in line]
    said = ("tenant=", "acme", "actor=", "ann", "via=", "key:", "verdict=", "applied", "status=200")
    for part in said:
        assert part in re.sub(r"\x1b\[[0-9;]*m", "", line)
    assert gateway.user not in line
    assert gateway.user.split("_", 2)[2] not in line


def test_what_is_kept_while_a_session_is_held_is_told_as_kept(gateway):
    gateway.open()
    gateway.post("/sessions/s1/messages", {"message": "order"})
    gateway.run()
    gateway.cluster.answer(cents="no number")
    gateway.run()
    assert gateway.cluster.facts("s1")[-1] == "SessionHeld"
    kept = gateway.post("/sessions/s1/messages", {"message": "more"}, Prefer="wait=5")
    assert (kept.status_code, kept.json()["state"]) == (200, "kept")
    operator = gateway.key("operator")
    said = gateway.post("/sessions/s1/release", {"reason": "mended"}, key=operator)
    gateway.run()
    found = gateway.fate(said, key=operator)
    assert (found["state"], bool(found["detail"])) == ("held", True)
    again = gateway.post("/sessions/s1/release", {}, key=operator, Prefer="wait=5")
    assert again.json()["state"] == "held"
