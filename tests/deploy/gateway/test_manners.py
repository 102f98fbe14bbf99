"""What HTTP clients take for granted: HEAD, Allow, bodies that may be left out, and parameters that mean what they say."""

from __future__ import annotations

import http.client
import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import uvicorn

from wakeful.deploy.gateway.serving import bound
from wakeful.deploy.gateway.settings import GatewaySettings
from wakeful.projections.database import drop, install

from .posting import PROBLEM, Gateway, problem

BODY_MAX = 64 * 1024


@pytest.fixture(scope="module")
def gateway(postgres_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    folder = tmp_path_factory.mktemp("gateway")
    install(postgres_url, "desk")
    found = Gateway(folder, url=postgres_url, body_max=BODY_MAX)
    found.open("s1")
    found.run(80)
    yield found
    found.close()
    drop(postgres_url, "desk")


@pytest.fixture(scope="module")
def port(gateway: Gateway, tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """The same application at a port of its own, for what only shows in sockets."""
    given = GatewaySettings(port=0, api_keys=tmp_path_factory.mktemp("keys") / "none.json")
    with bound(given) as listener:
        config = uvicorn.Config(gateway.client.app, log_config=None, lifespan="off")
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        yield listener.getsockname()[1]
        server.should_exit = True
        thread.join(10)


def ask(port: int, gateway: Gateway, *sizes: int, **more: str) -> list[tuple[int, Any]]:
    """Messages of these sizes over one connection, each answer read before the next: its status and JSON."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    told = []
    for size in sizes:
        body = json.dumps({"message": "x" * size})
        headers = {"content-type": "application/json", **gateway.headers(), **more}
        connection.request("POST", "/v1/sessions/s1/messages", body, headers)
        answer = connection.getresponse()
        told.append((answer.status, json.loads(answer.read())))
    connection.close()
    return told


def test_a_body_over_the_limit_is_answered_and_not_cut_off_on_a_connection_that_was_kept(
    gateway: Gateway, port: int
) -> None:
    for size in (BODY_MAX + 1, 4 * 1024 * 1024):
        first, second = ask(port, gateway, 1, size)
        assert first[0] == 202
        assert (second[0], second[1]["type"]) == (413, "urn:wakeful:problem:body_too_large")
    # after an answer that left nothing unread the connection goes on
    (refused,) = ask(port, gateway, 1, **{"x-long": "y" * 9_000})
    assert refused[0] == 431


def test_whoever_waits_to_be_told_to_send_a_large_body_is_told_at_once_not_to(
    gateway: Gateway, port: int
) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    connection.putrequest("POST", "/v1/sessions/s1/messages")
    for name, value in {
        **gateway.headers(),
        "expect": "100-continue",
        "content-length": "9" * 9,
    }.items():
        connection.putheader(name, value)
    connection.endheaders()
    assert connection.getresponse().status == 413
    connection.close()


@pytest.mark.parametrize(
    "path", ["/v1/sessions", "/v1/sessions/s1", "/v1/ledger.csv", "/v1/lag", "/openapi.json"]
)
def test_head_is_answered_as_get_without_its_body(gateway: Gateway, path: str) -> None:
    whole = gateway.client.get(path, headers=gateway.headers())
    bare = gateway.client.head(path, headers=gateway.headers())
    assert (bare.status_code, bare.content) == (whole.status_code, b"") == (200, b"")
    assert bare.headers.get("etag") == whole.headers.get("etag")
    assert bare.headers["content-type"] == whole.headers["content-type"]


def test_head_of_a_stream_ends_at_once(gateway: Gateway, port: int) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    connection.request("HEAD", "/v1/sessions/s1/stream", headers=gateway.headers())
    answer = connection.getresponse()
    assert (answer.status, answer.read()) == (200, b"")
    assert answer.headers["content-type"].startswith("text/event-stream")
    connection.request("GET", "/livez")
    assert connection.getresponse().read() == b"ok\n"
    connection.close()


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("DELETE", "/v1/sessions", "GET, HEAD, POST"),
        ("PUT", "/v1/sessions/s1/cancel", "POST"),
        ("POST", "/v1/lag", "GET, HEAD"),
    ],
)
def test_another_method_is_told_which_there_are(
    gateway: Gateway, method: str, path: str, allowed: str
) -> None:
    answer = gateway.client.request(method, path, headers=gateway.headers())
    problem(answer, 405, "unknown_method")
    assert answer.headers["allow"] == allowed


def test_it_lives_for_whoever_asks_without_a_key(gateway: Gateway) -> None:
    assert gateway.client.get("/livez").text == "ok\n"


@pytest.mark.parametrize(
    ("query", "told"),
    [
        ("sessions?status=Failed&status=Waiting", "'status' is given twice"),
        ("sessions?limit=1&limit=2", "as '1' and '2': give one"),
        ("sessions/s1?at=0:0&at=0:1", "'at' is given twice"),
        ("ledger?action=a&action=b", "'action' is given twice"),
        ("stream?kind=Nope", "kind 'Nope' is none: ActivityCancelled"),
        ("stream?knd=TurnStarted", "nothing is called 'knd' here: after, kind, session_id"),
        ("stream?after=&after=0:1", "'after' is given twice"),
        ("sessions/s1/stream?kind=TurnStarted", "nothing is called 'kind' here: after"),
        ("sessions/s1/commands/c1?at=0:1", "nothing is called 'at' here: position"),
    ],
)
def test_a_parameter_that_means_nothing_or_two_things_is_refused_by_its_name(
    gateway: Gateway, query: str, told: str
) -> None:
    assert told in problem(gateway.get(f"/{query}"), 422, "invalid_request")


def test_a_stream_of_what_no_session_can_be_called_is_refused(gateway: Gateway) -> None:
    problem(gateway.get("/stream?session_id=a%2Fb"), 422, "rejected")


def test_two_attributes_are_two_parameters_of_one_name(gateway: Gateway) -> None:
    for query in ("attribute=a=1&attribute=b=2", "attribute.a=1&attribute.b=2"):
        assert gateway.get(f"/sessions?{query}").status_code == 200


@pytest.mark.parametrize("what", ["cancel", "release"])
def test_a_reason_may_be_left_out_and_the_body_with_it(gateway: Gateway, what: str) -> None:
    key = gateway.key("operator")
    gateway.open(f"bare-{what}")
    answer = gateway.client.post(
        f"/v1/sessions/bare-{what}/{what}", headers=gateway.headers(key, Prefer="wait=5")
    )
    assert answer.status_code == 200, answer.text
    told = answer.json()
    assert (told["state"], told.get("reason")) in (("applied", None), ("refused", "not_held"))
    body = {"reason": "enough", "more": 1}
    problem(gateway.post(f"/sessions/bare-{what}/{what}", body, key=key), 422, "invalid_request")


@pytest.mark.parametrize("session_id", [".", ".."])
def test_no_session_is_opened_that_no_address_could_name(gateway: Gateway, session_id: str) -> None:
    answer = gateway.post("/sessions", {"workflow": "desk", "session_id": session_id})
    assert "session_id" in problem(answer, 422, "invalid_request")
    for fine in ("...", ".a", "..a", "a.", "-", "1:2"):
        said = {"workflow": "nothing", "session_id": fine}
        assert gateway.post("/sessions", said).status_code == 202


@pytest.mark.parametrize(
    ("value", "told"),
    [(None, '"x" is null'), ([1], '"x" is [1]'), ({"a": True}, '"x" is {"a": true}')],
)
def test_a_value_that_no_attribute_can_have_is_told_in_words_of_json(
    gateway: Gateway, value: Any, told: str
) -> None:
    answer = gateway.post("/sessions", {"workflow": "desk", "attributes": {"x": value}})
    detail = problem(answer, 422, "invalid_request")
    assert f"{told}: use a text, a number, true or false" in detail
    assert len(answer.json()["errors"]) == 1


def test_whoever_delivers_is_told_what_became_of_that_and_of_nothing_else(
    gateway: Gateway,
) -> None:
    mine, others = gateway.key("hook", actor="renderer"), gateway.key("hook", actor="painter")
    said = {"result": 1}
    sent = gateway.post("/jobs/s1:1.2-0123456789abcdef/complete", said, key=mine)
    gateway.run(40)
    where = sent.json()["status_url"]
    for bare in (where, where.partition("?")[0]):
        told = gateway.get(bare, key=mine).json()
        assert (told["state"], told["reason"]) == ("refused", "unknown_job")
        problem(gateway.get(bare, key=others), 404, "unknown_command")
        assert gateway.get(bare).status_code == 200
    for path in ("/sessions/s1", "/sessions", "/lag"):
        problem(gateway.get(path, key=mine), 403, "not_permitted")


def test_whoever_is_unknown_is_told_how_to_be_known(gateway: Gateway) -> None:
    answer = gateway.client.post("/v1/hooks/none", json={})
    problem(answer, 401, "unsigned")
    assert answer.headers["www-authenticate"] == "Wakeful-Signature, Bearer"
    assert answer.headers["content-type"] == PROBLEM
