"""`wakeful serve` on real Kafka and Postgres: a refund over HTTP alone, several gateways, ends and wrong settings."""

from __future__ import annotations

import json
import os
import signal
import socket
import time
from pathlib import Path

import pytest

from wakeful.deploy.cli.context import kafka, queries
from wakeful.deploy.cli.main import invoke
from wakeful.deploy.exits import Exit, Stopped
from wakeful.deploy.gateway.serving import opened_services
from wakeful.deploy.gateway.settings import load_gateway_settings
from wakeful.deploy.settings import load_settings

from .running import LIMIT_S, Running, ask, running, serving

WAIT = {"Prefer": "wait=20"}


@pytest.fixture(scope="module")
def desk(endpoints, postgres_url, keys, tmp_path_factory):
    home = tmp_path_factory.mktemp("home")
    with running(endpoints, postgres_url, keys, home, f"http{os.getpid()}") as found:
        yield found


@pytest.fixture(scope="module")
def url(desk):
    with desk.gateway() as (found, _):
        yield found


@pytest.fixture
def cli(desk, monkeypatch, capsys):
    """Runs a command that ends by itself in this process; gives its code, its output, and what it told people."""

    def run(*words, **more):
        for name, value in {**desk.settings.to_environ(), "WAKEFUL_HTTP_PORT": "0", **more}.items():
            monkeypatch.setenv(name, value)
        code = invoke(words)
        return (code, *capsys.readouterr())

    return run


def wait_for_proposal(desk: Running, url: str, session_id: str, key: str) -> dict[str, str]:
    """The views are told about it; a command of no effect is waited for meanwhile."""
    for n in range(200):
        with queries(desk.settings) as views:
            found = views.approvals(session_id=session_id)
        if found:
            return found[0]
        ask(url, f"/v1/sessions/{session_id}/signals", key, {"name": f"tick-{n}"}, **WAIT)
    raise AssertionError("nothing was proposed")


def test_a_refund_is_asked_for_approved_and_paid_over_http(desk, url):
    user, approver = desk.key("user"), desk.key("approver", actor="sue")
    opened = ask(url, "/v1/sessions", user, {"workflow": "refund-desk", "session_id": "h1"}, **WAIT)
    assert (opened.status_code, opened.json()["state"]) == (200, "applied"), opened.text
    sent = ask(url, "/v1/sessions/h1/messages", user, {"message": "order-7"}, **WAIT)
    assert sent.json()["state"] == "applied"
    proposal = wait_for_proposal(desk, url, "h1", user)
    where = f"/v1/sessions/h1/approvals/{proposal['proposal_id']}/decision"
    said = {"decision": "approve", "digest": proposal["digest"], "comment": "fine"}
    assert ask(url, where, user, said).status_code == 403
    decided = ask(url, where, approver, said, **WAIT)
    assert (decided.status_code, decided.json()["state"]) == (200, "applied"), decided.text
    assert decided.headers["Wakeful-Position"] == decided.json()["position"]
    again = ask(url, where, approver, said, **WAIT)
    assert again.json()["reason"] in ("already_decided", "session_ended")


def test_a_film_is_rendered_elsewhere_told_of_over_http_and_found_by_its_name(desk, url, cli):
    user, renderer = desk.key("user"), desk.key("hook", actor="renderer")
    opening = {"workflow": "studio", "session_id": "film-1", "attributes": {"customer": "ivo"}}
    ask(url, "/v1/sessions", user, opening, **WAIT)
    sent = ask(url, "/v1/sessions/film-1/messages", user, {"message": "whales"}, **WAIT)
    at = sent.json()["position"]
    for _ in range(200):
        (job,) = ask(url, f"/v1/jobs?session_id=film-1&at={at}", user).json()["rows"] or (None,)
        if job is not None:
            break
    assert (job["name"], job["status"]) == ("render", "awaited")
    where = f"/v1/jobs/{job['job_id']}/complete"
    code, out, _ = cli("job", "list")
    assert (code, job["job_id"] in out) == (Exit.DONE, True)
    done = ask(url, where, renderer, {"result": 24}, **WAIT).json()
    assert done["state"] == "applied"
    again = ask(url, where, renderer, {"failure": {"message": "no disk"}}, **WAIT).json()
    assert (again["state"], again["reason"]) == ("refused", "job_completed")
    both = "/v1/sessions?attribute.film=whales&attribute.customer=ivo&at=" + again["position"]
    (row,) = ask(url, both, user).json()["rows"]
    assert row["attributes"] == {"customer": "ivo", "film": "whales", "turn": 1}
    code, out, _ = cli("session", "list", "--where", "film=whales", "--json")
    (found,) = json.loads(out)
    assert (code, found["session_id"]) == (Exit.DONE, "film-1")
    code, _, told = cli("job", "fail", job["job_id"], "no disk")
    assert (code, "was completed by renderer" in told) == (Exit.REFUSED, True)


def test_gateways_run_side_by_side_and_know_each_others_repeats(desk, url):
    key = desk.key("operator")
    said, keyed = {"workflow": "refund-desk"}, {"Idempotency_Key": "one"}
    first = ask(url, "/v1/sessions", key, said, **keyed)
    with desk.gateway() as (other, _):
        again = ask(other, "/v1/sessions", key, said, **keyed)
        assert (again.status_code, again.json()) == (202, first.json())
        assert again.headers["Idempotency-Replayed"] == "true"
        changed = ask(other, "/v1/sessions", key, {"workflow": "failing"}, **keyed)
        assert changed.json()["type"] == "urn:wakeful:problem:idempotency_key_reused"
        found = ask(other, first.json()["status_url"], key)
        assert found.json()["command_id"] == first.json()["command_id"]


def test_what_was_asked_of_nobody_is_told_by_its_status_url(desk, url):
    key = desk.key("operator")
    sent = ask(url, "/v1/sessions/none/messages", key, {"message": "hi"}, **WAIT)
    assert (sent.json()["state"], sent.json()["reason"]) == ("refused", "unknown_session")
    found = ask(url, sent.json()["status_url"], key)
    assert (found.json()["state"], found.json()["reason"]) == ("refused", "unknown_session")


def test_a_stale_version_is_refused(desk, url):
    key = desk.key("operator")
    ask(url, "/v1/sessions", key, {"workflow": "refund-desk", "session_id": "h2"}, **WAIT)
    stale = ask(url, "/v1/sessions/h2/messages", key, {"message": "x"}, If_Match='"0"')
    assert stale.json()["type"] == "urn:wakeful:problem:stale", stale.text
    assert stale.status_code == 412


def test_a_key_that_is_revoked_counts_no_more_at_once(desk, url):
    key = desk.key("user", days="1")
    assert ask(url, "/v1/sessions", key, {"workflow": "refund-desk"}).status_code == 202
    key_id = key.split("_")[1]
    assert desk.wakeful("apikeys", "revoke", key_id).returncode == Exit.DONE
    assert desk.wakeful("apikeys", "revoke", key_id).returncode == Exit.DONE
    assert ask(url, "/v1/sessions", key, {"workflow": "refund-desk"}).status_code == 401
    listed = json.loads(desk.wakeful("apikeys", "list", "--json").stdout)
    (row,) = [row for row in listed if row["id"] == key_id]
    assert (row["status"], row["roles"], "sha256" in row) == ("revoked", ["user"], False)
    assert row["not_after_ms"] > 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_ends_in_order_when_it_is_told_to(desk, number):
    with desk.gateway() as (_, process):
        process.send_signal(number)
        assert process.wait(LIMIT_S) == Exit.DONE


@pytest.mark.parametrize(
    ("more", "code", "told"),
    [
        ({"WAKEFUL_HTTP_PORT": "http"}, Exit.USAGE, "WAKEFUL_HTTP_PORT=http"),
        ({"WAKEFUL_HTTP_HOST": "192.0.2.1"}, Exit.UNAVAILABLE, "cannot listen on 192.0.2.1:0"),
        ({"WAKEFUL_HTTP_BODY_MAX": "1"}, Exit.USAGE, "WAKEFUL_HTTP_BODY_MAX=1"),
        ({"WAKEFUL_OIDC_ISSUER": "http://login.example.com"}, Exit.USAGE, "https address"),
        ({"WAKEFUL_OIDC_ISSUER": "https://login.example.com"}, Exit.USAGE, "WAKEFUL_OIDC_AUDIENCE"),
    ],
)
def test_settings_that_cannot_work_are_named(cli, more, code, told):
    ended, out, err = cli("serve", "--json", **more)
    assert (ended, out) == (code, ""), err
    assert told in err


@pytest.mark.parametrize(
    ("more", "code", "told"),
    [
        ({"WAKEFUL_NAMESPACE": "nobody"}, Exit.NOT_FOUND, "namespace nobody has no topics"),
        ({"WAKEFUL_KEYS": "/nowhere.json"}, Exit.USAGE, "/nowhere.json"),
    ],
)
def test_what_it_cannot_work_with_is_named(desk, more, code, told):
    environ = {**desk.settings.to_environ(), **more}
    given = load_settings(environ)
    with (
        kafka(given, may_be_empty=True) as log,
        pytest.raises(Stopped, match=told) as stopped,
        opened_services(given, load_gateway_settings(environ, given.home), log),
    ):
        pass
    assert stopped.value.code == code


def test_what_it_cannot_work_with_ends_it_with_a_code_of_its_own(desk):
    done = desk.wakeful("serve", "--json", WAKEFUL_HOOKS="/nowhere.json")
    assert (done.returncode, done.stdout) == (Exit.USAGE, ""), done.stderr
    assert "there is no such file" in done.stderr
    assert "started again" not in done.stderr


def test_what_dies_in_it_is_started_again_on_the_same_port(desk):
    key = desk.key("user")
    with desk.gateway() as (url, process):
        died = serving(process.pid)
        os.kill(died, signal.SIGKILL)
        answer = ask(url, "/v1/sessions", key)  # waits in the socket's queue
        assert answer.status_code == 200
        assert serving(process.pid) != died
        process.send_signal(signal.SIGTERM)
        assert process.wait(LIMIT_S) == Exit.DONE
        assert process.stdout.read() == ""  # the address is told once
    assert desk.told.read_text().count("the process died and is started again") == 1


def test_its_work_ends_with_it_whatever_it_dies_of(desk):
    with desk.gateway() as (_, process):
        child = serving(process.pid)
        process.kill()
        limit = time.monotonic() + LIMIT_S
        while Path(f"/proc/{child}").exists():
            assert time.monotonic() < limit
            time.sleep(0.05)


def test_a_port_that_is_taken_is_named(cli):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        ended, _, err = cli("serve", WAKEFUL_HTTP_PORT=port)
    assert ended == Exit.UNAVAILABLE
    assert f"cannot listen on 127.0.0.1:{port}" in err


def test_whoever_starts_it_without_keys_is_told_that_nobody_can_sign_in(desk, tmp_path):
    with desk.gateway(WAKEFUL_API_KEYS=str(tmp_path / "none.json")) as (url, process):
        assert ask(url, "/v1/sessions", "x", {"workflow": "refund-desk"}).status_code == 401
        process.send_signal(signal.SIGTERM)
        process.wait(LIMIT_S)
    assert "wakeful apikeys new --role operator" in desk.told.read_text()


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--role", "king"], "king"),
        (["--role", "user", "--days", "0"], "days"),
        (["--role", "user", "--tenant", "a/b"], "tenant 'a/b'"),
        ([], "role"),
    ],
)
def test_a_key_that_cannot_be_one_is_refused(cli, words, told):
    ended, out, err = cli("apikeys", "new", *words)
    assert (ended, out) == (Exit.USAGE, "")
    assert told in err


def test_what_is_no_http_is_answered_and_nothing_else_happens(url):
    host, _, port = url.removeprefix("http://").partition(":")
    with socket.create_connection((host, int(port)), timeout=LIMIT_S) as raw:
        raw.sendall(b"\x16\x03\x01 nonsense\r\n\r\n")
        assert raw.recv(1_000).startswith(b"HTTP/1.1 400")
