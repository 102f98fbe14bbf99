"""External jobs over HTTP: completed by an API key or a signed webhook, once, and of nobody else's session."""

from __future__ import annotations

import hmac
import json
from hashlib import sha256
from typing import Any

import pytest

from wakeful.deploy.exits import Stopped
from wakeful.deploy.gateway.hooks import Hooks
from wakeful.events import records as r
from wakeful.events.payloads import load_json

from .posting import Gateway, problem

SECRET = "s" * 32
HOOK = {"tenant": "acme", "job": "{/job}", "failure": "/error", "secret": SECRET}


@pytest.fixture
def gateway(tmp_path):
    """A gateway, and a session that waits for a job."""
    path = tmp_path / "hooks.json"
    path.write_text(json.dumps({"hooks": {"renderer": HOOK}}))
    found = Gateway(tmp_path, hooks=path)
    found.open("s1", "hires")
    found.post("/sessions/s1/messages", {"message": "go"}, Prefer="wait=5")
    yield found
    found.close()


@pytest.fixture
def job(gateway):
    (awaited,) = [e.body for e in gateway.cluster.events("s1") if isinstance(e.body, r.JobAwaited)]
    return awaited.job_id


def complete(gateway: Gateway, job_id: str, said: Any, *, role: str = "hook", **more: Any) -> Any:
    key = gateway.key(role, actor="renderer", tenant=more.pop("tenant", "acme"))
    return gateway.post(f"/jobs/{job_id}/complete", said, key=key, Prefer="wait=5", **more)


def deliver(gateway: Gateway, said: Any, *, delivery: str = "d1", secret: str = SECRET) -> Any:
    body, stamp = json.dumps(said).encode(), gateway.cluster.clock.ms // 1000
    signed = f"{stamp}.{delivery}.".encode() + body
    headers = {
        "content-type": "application/json",
        "prefer": "wait=5",
        "wakeful-delivery": delivery,
        "wakeful-timestamp": str(stamp),
        "wakeful-signature": "v1=" + hmac.new(secret.encode(), signed, sha256).hexdigest(),
    }
    return gateway.client.post("/v1/hooks/renderer", content=body, headers=headers)


def end(gateway: Gateway, kind: type) -> r.Event:
    return next(e for e in gateway.cluster.events("s1") if isinstance(e.body, kind))


def verdict(answer: Any) -> tuple[str, str | None]:
    assert answer.status_code == 200, answer.text
    return answer.json()["state"], answer.json().get("reason")


@pytest.mark.parametrize("role", ["hook", "operator"])
def test_a_job_is_completed_by_whoever_may_deliver(gateway, job, role):
    assert verdict(complete(gateway, job, {"result": {"frames": 24}}, role=role)) == (
        "applied",
        None,
    )
    told = end(gateway, r.JobCompleted)
    assert load_json(told.body.result) == {"frames": 24}
    assert (told.envelope.actor, told.envelope.channel) == ("renderer", "http")


@pytest.mark.parametrize("role", ["viewer", "user", "approver"])
def test_nobody_else_completes_a_job(gateway, job, role):
    answer = complete(gateway, job, {"result": 1}, role=role)
    assert "roles operator, hook" in problem(answer, 403, "not_permitted")


def test_a_job_fails_with_the_words_of_whoever_did_it(gateway, job):
    failure = {"message": "no disk left", "type": "DiskFull"}
    assert verdict(complete(gateway, job, {"failure": failure})) == ("applied", None)
    found = end(gateway, r.JobFailed).body.failure
    assert (found.kind, found.type, found.message) == ("job_failed", "DiskFull", "no disk left")


def test_a_second_completion_is_refused_and_told_why(gateway, job):
    complete(gateway, job, {"result": 1})
    again = complete(gateway, job, {"result": 1})
    assert verdict(again) == ("refused", "job_completed")
    assert "was completed by renderer, and that stands" in again.json()["detail"]


def test_a_repeat_under_its_key_is_the_first_answer(gateway, job):
    key = gateway.key("hook", actor="renderer")
    where = f"/jobs/{job}/complete"
    answers = [gateway.post(where, {"result": 1}, key=key, Idempotency_Key="k1") for _ in range(2)]
    assert answers[0].json() == answers[1].json()
    assert answers[1].headers["idempotency-replayed"] == "true"
    gateway.run()
    assert gateway.cluster.facts("s1").count("JobCompleted") == 1


def test_another_tenant_is_told_the_same_of_a_job_that_is_there_and_of_one_that_never_was(
    gateway, job
):
    never = job.replace("s1:", "s7:")
    told = [complete(gateway, one, {"result": 1}, tenant="other").json() for one in (job, never)]
    assert {(one["state"], one["reason"]) for one in told} == {("refused", "unknown_session")}
    assert told[0]["detail"].replace("'s1'", "'s7'") == told[1]["detail"]
    assert "JobCompleted" not in gateway.cluster.facts("s1")


def test_a_job_of_another_session_is_no_job_of_this_one(gateway, job):
    gateway.open("s2", "hires")
    answer = complete(gateway, job.replace("s1:", "s2:"), {"result": 1})
    assert verdict(answer) == ("refused", "unknown_job")
    assert "GET /v1/jobs" in answer.json()["next_step"]


@pytest.mark.parametrize(
    ("said", "reason", "told"),
    [
        ({}, "wrong_completion", "neither a result nor a failure"),
        (
            {"result": None, "failure": {"message": "x"}},
            "wrong_completion",
            "a result and a failure",
        ),
        ({"failure": {}}, "invalid_request", "failure/message"),
        ({"result": 1, "more": 2}, "invalid_request", "more"),
    ],
)
def test_what_says_nothing_that_can_be_recorded_is_named(gateway, job, said, reason, told):
    assert told in problem(complete(gateway, job, said), 422, reason)


@pytest.mark.parametrize(
    "job_id", ["s1", "1.2-0123456789abcdef", "s1:1.2", "s1:0.2-0123456789abcdef"]
)
def test_what_is_no_job_id_is_refused_before_the_log(gateway, job_id):
    answer = complete(gateway, job_id, {"result": 1})
    assert "pass it as the session handed it out" in problem(answer, 422, "rejected")


def test_a_signed_delivery_completes_the_job_that_it_names_once(gateway, job):
    said = {"job": job, "frames": 24}
    assert verdict(deliver(gateway, said)) == ("applied", None)
    again = deliver(gateway, said)
    assert again.headers["idempotency-replayed"] == "true"
    assert gateway.cluster.facts("s1").count("JobCompleted") == 1
    told = end(gateway, r.JobCompleted)
    assert load_json(told.body.result) == said
    assert (told.envelope.actor, told.envelope.channel) == ("hook:renderer", "webhook")
    assert verdict(deliver(gateway, said, delivery="d2")) == ("refused", "job_completed")


def test_a_delivery_with_a_failure_fails_the_job(gateway, job):
    assert verdict(deliver(gateway, {"job": job, "error": "no disk"})) == ("applied", None)
    assert end(gateway, r.JobFailed).body.failure.message == "no disk"


def test_a_delivery_that_nobody_vouches_for_or_that_names_no_job_is_refused(gateway, job):
    problem(deliver(gateway, {"job": job}, secret="t" * 32), 401, "unsigned")
    told = problem(deliver(gateway, {"frames": 24}), 422, "unknown_job")
    assert "takes the job from" in told
    problem(deliver(gateway, {"job": "s1"}), 422, "rejected")
    assert "JobCompleted" not in gateway.cluster.facts("s1")


@pytest.mark.parametrize(
    "hook",
    [
        {"session": "s1", "signal": "paid", "job": "{/job}"},
        {"session": "s1"},
        {"signal": "paid"},
        {},
        {"session": "s1", "signal": "paid", "failure": "/error"},
    ],
)
def test_a_hook_is_for_a_signal_or_for_a_job(tmp_path, hook):
    path = tmp_path / "hooks.json"
    path.write_text(json.dumps({"hooks": {"one": {"tenant": "acme", "secret": SECRET, **hook}}}))
    with pytest.raises(Stopped, match=r"give session and signal, or job|failure goes with job"):
        Hooks(path)
