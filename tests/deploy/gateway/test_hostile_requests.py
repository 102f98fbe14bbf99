"""Whatever is wrong with a request, its answer is a problem that says so, and nothing of it reaches the log."""

from __future__ import annotations

import json

import pytest

from wakeful.deploy import logs
from wakeful.deploy.gateway.guarding import HEADER_BYTES_MAX, TARGET_BYTES_MAX

from .posting import Gateway, problem

BODY_MAX = 8_192

WHERE = "/v1/sessions/s1/messages"


@pytest.fixture(scope="module")
def gateway(tmp_path_factory):
    found = Gateway(tmp_path_factory.mktemp("gateway"), body_max=BODY_MAX)
    found.open()
    found.run()
    yield found
    found.close()


@pytest.fixture(autouse=True)
def nothing_arrives(gateway):
    topic = gateway.cluster.topics.commands
    before = len(gateway.cluster.log.dump(topic))
    yield
    assert len(gateway.cluster.log.dump(topic)) == before


def post(gateway, content, *, where=WHERE, **headers):
    told = {"content-type": "application/json", **gateway.headers(**headers)}
    return gateway.client.post(where, content=content, headers=told)


DEEP = b'{"message":' + b"[" * 70 + b"]" * 70 + b"}"
BOTTOMLESS = b"[" * 4_000


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (b"{", "line 1, column 2"),
        (b"not json", "line 1, column 1"),
        (b'{"message": 1} {}', "extra data"),
        (b'{"message": "a", "message": "b"}', "'message' is given twice"),
        (b'{"message": {"a": {"x": 1, "x": 2}}}', "'x' is given twice"),
        (b'{"message": NaN}', "nan is no json"),
        (b'{"message": -Infinity}', "infinity is no json"),
        (b'{"message": 1e999}', "the number at /message is too large"),
        (b'{"message": ' + b"9" * 5_000 + b"}", "exceeds the limit (4300 digits)"),
        (
            b'{"message": {"a": ["x", "\\ud800"]}}',
            "the text at /message/a/1 has half of a character",
        ),
        (b'{"message": {"\\udfff": 1}}', "half of a character"),
        (b'{"message": "\xff"}', "not UTF-8 at byte 13"),
        ('{"message": "a"}'.encode("utf-16"), "not UTF-8"),
        (DEEP, "nested deeper than 66 levels"),
        (BOTTOMLESS, "nested deeper than 66 levels"),
        (b"\xef\xbb\xbf{}", "line 1, column 1"),
    ],
)
def test_json_that_means_two_things_or_none_is_refused_with_its_place(gateway, body, told):
    detail = problem(post(gateway, body), 400, "malformed_json")
    assert told in detail


@pytest.mark.parametrize(
    "body",
    [
        {},
        [],
        "text",
        None,
        {"message": "a", "messages": "b"},
        {"message": "a", "x" * 3_000: "b"},
    ],
)
def test_a_body_of_another_shape_is_refused_with_what_is_wrong(gateway, body):
    answer = post(gateway, json.dumps(body).encode())
    detail = problem(answer, 422, "invalid_request")
    assert "body" in detail
    assert len(answer.content) < 3_000
    assert answer.json()["errors"][0]["what"]


@pytest.mark.parametrize(
    ("where", "body", "at"),
    [
        ("/v1/sessions", {"workflow": ""}, "workflow"),
        ("/v1/sessions", {"workflow": 7}, "workflow"),
        ("/v1/sessions", {"workflow": "desk", "session_id": "a/b"}, "session_id"),
        ("/v1/sessions", {"workflow": "desk", "session_id": "a" * 129}, "session_id"),
        (
            "/v1/sessions/s1/approvals/p/decision",
            {"decision": "allow", "digest": "0" * 64},
            "decision",
        ),
        (
            "/v1/sessions/s1/approvals/p/decision",
            {"decision": "approve", "digest": "xyz"},
            "digest",
        ),
        ("/v1/sessions/s1/approvals/p/decision", {"decision": "approve"}, "digest"),
        ("/v1/sessions/s1/turns", {"trigger": "schedule", "reason": "x" * 20_000}, "reason"),
        ("/v1/sessions/s1/activities/1.1/resolution", {"resolution": "done"}, "resolution"),
        ("/v1/sessions/s1/recover", {"activity_id": "1.1", "attempt": 2**63}, "attempt"),
        ("/v1/sessions/s1/recover", {"activity_id": "1.1", "attempt": True}, "attempt"),
        ("/v1/sessions/s1/reset", {}, "to_turn"),
        ("/v1/sessions/s1/reset", {"to_turn": -1}, "to_turn"),
        ("/v1/sessions/s1/reset", {"to_turn": 1, "answers_again": "no"}, "answers_again"),
        ("/v1/sessions/s1/pin", {}, "version"),
        ("/v1/sessions/s1/pin", {"version": 0}, "version"),
    ],
)
def test_a_value_that_cannot_be_one_is_refused_by_its_name(tmp_path, where, body, at):
    gateway = Gateway(tmp_path)
    answer = post(gateway, json.dumps(body).encode(), where=where, key=gateway.key("operator"))
    assert at in problem(answer, 422, "invalid_request")
    gateway.close()


@pytest.mark.parametrize(
    ("where", "body"),
    [
        ("/v1/sessions", {"workflow": "a\nb"}),
        ("/v1/sessions/s1/signals", {"name": "\u0000"}),
        ("/v1/sessions/s1/turns", {"trigger": "message"}),
        ("/v1/sessions/s1/approvals/p/decision", {"decision": "edit", "digest": "0" * 64}),
        ("/v1/sessions/s1/activities/1/resolution", {"resolution": "failed"}),
        ("/v1/sessions/s1/activities/1.1/resolution", {"resolution": "failed", "result": 1}),
    ],
)
def test_what_no_record_could_hold_is_refused_in_the_words_of_the_client(gateway, where, body):
    key = gateway.key("operator")
    answer = post(gateway, json.dumps(body).encode(), where=where, key=key)
    problem(answer, 422, "rejected")


def test_a_body_over_the_limit_is_refused_before_it_is_read(gateway):
    large = json.dumps({"message": "x" * BODY_MAX}).encode()
    assert f"the limit is {BODY_MAX}" in problem(post(gateway, large), 413, "body_too_large")


def test_one_that_comes_in_pieces_is_refused_where_it_passes_the_limit(gateway):
    sent = []

    def pieces():
        for _ in range(1_000):
            sent.append(b"x" * 1_000)
            yield sent[-1]

    problem(post(gateway, pieces()), 413, "body_too_large")


@pytest.mark.parametrize(
    "kind",
    ["text/plain", "application/x-www-form-urlencoded", "application/json; charset=latin-1", ""],
)
def test_another_kind_of_content_is_refused(gateway, kind):
    answer = post(gateway, b'{"message": "a"}', content_type=kind)
    assert "application/json" in problem(answer, 415, "not_json")


@pytest.mark.parametrize(
    ("headers", "told"),
    [
        ({"Idempotency_Key": ""}, "Idempotency-Key"),
        ({"Idempotency_Key": "x" * 201}, "of 201 characters"),
        ({"Idempotency_Key": "a\tb"}, "printable"),
        ({"If_Match": "*"}, "If-Match"),
        ({"If_Match": 'W/"5"'}, "If-Match"),
        ({"If_Match": '"-1"'}, "If-Match"),
        ({"If_Match": '"1", "2"'}, "If-Match"),
        ({"If_Match": '"' + "9" * 30 + '"'}, "If-Match"),
    ],
)
def test_a_header_that_cannot_be_one_is_refused_by_its_name(gateway, headers, told):
    answer = post(gateway, b'{"message": "a"}', **headers)
    assert told in problem(answer, 400, "invalid_header")


@pytest.mark.parametrize("name", ["idempotency-key", "if-match", "authorization"])
def test_a_header_that_is_given_twice_is_refused(gateway, name):
    known = gateway.headers()
    headers = [*known.items(), (name, known.get(name, '"1"')), (name, '"2"')]
    answer = gateway.client.post(WHERE, json={"message": "a"}, headers=headers)
    assert "given twice" in problem(answer, 400, "invalid_header")


def test_headers_and_addresses_without_end_are_refused(gateway):
    long = {**gateway.headers(), "x-long": "x" * HEADER_BYTES_MAX}
    problem(gateway.client.post(WHERE, json={}, headers=long), 431, "headers_too_large")
    many = {**gateway.headers(), **{f"x-{n}": "1" for n in range(120)}}
    problem(gateway.client.post(WHERE, json={}, headers=many), 431, "headers_too_large")
    answer = gateway.get("/sessions/" + "x" * TARGET_BYTES_MAX)
    problem(answer, 414, "address_too_long")
    answer = gateway.get("/sessions/s1?q=" + "x" * TARGET_BYTES_MAX)
    problem(answer, 414, "address_too_long")


@pytest.mark.parametrize(
    ("session_id", "status", "reason"),
    [
        ("a%2Fb", 404, "unknown_address"),
        ("..%2F..%2Fetc", 404, "unknown_address"),
        ("a%00b", 422, "rejected"),
        ("%ff%fe", 422, "rejected"),
        ("s%201", 422, "rejected"),
        ("x" * 2_000, 422, "rejected"),
        ("x" * 10_000, 414, "address_too_long"),
        ("%F0%9F%98%80", 422, "rejected"),
    ],
)
def test_an_id_that_cannot_be_one_is_refused(gateway, session_id, status, reason):
    answer = post(gateway, b'{"message": "a"}', where=f"/v1/sessions/{session_id}/messages")
    problem(answer, status, reason)
    assert len(answer.content) < 12_000


@pytest.mark.parametrize(
    ("query", "status", "reason"),
    [
        ("position=0", 422, "wrong_position"),
        ("position=0:-1", 422, "wrong_position"),
        ("position=99:1", 422, "wrong_position"),
        ("position=0:999999999999", 404, "unknown_command"),
        ("", 404, "unknown_command"),
    ],
)
def test_a_position_that_cannot_be_one_is_refused(gateway, query, status, reason):
    problem(gateway.get(f"/sessions/s1/commands/none?{query}"), status, reason)


@pytest.mark.parametrize(
    ("method", "where", "status", "reason"),
    [
        ("GET", "/v1", 404, "unknown_address"),
        ("GET", "/v1/nothing", 404, "unknown_address"),
        ("DELETE", "/v1/sessions/s1", 405, "unknown_method"),
        ("PUT", "/v1/sessions", 405, "unknown_method"),
        ("FOO", "/v1/sessions", 405, "unknown_method"),
        ("POST", "/v1/sessions/", 404, "unknown_address"),
    ],
)
def test_what_is_not_there_is_a_problem_too(gateway, method, where, status, reason):
    answer = gateway.client.request(method, where, headers=gateway.headers())
    problem(answer, status, reason)


@pytest.mark.parametrize(
    "authorization",
    [
        None,
        "",
        "Bearer",
        "Bearer ",
        "Basic YW5uOnNlY3JldA==",
        "Bearer wk_00000000_" + "A" * 43,
        "Bearer wk_zz",
        "Bearer a.b.c",
        "Bearer " + "x" * 7_000,
        "Bearer é",
    ],
)
def test_whoever_shows_nothing_that_counts_is_unknown(gateway, authorization):
    headers = {} if authorization is None else {"authorization": authorization.encode("latin-1")}
    answer = gateway.client.post(WHERE, json={"message": "a"}, headers=headers)
    detail = problem(answer, 401, "unauthenticated")
    assert answer.headers["www-authenticate"].startswith("Bearer")
    token = (authorization or "").partition(" ")[2]
    assert not token or token not in detail


def test_a_key_that_is_over_or_revoked_counts_no_more(gateway):
    now_ms = gateway.cluster.clock.now_ms()
    over = gateway.key("user", not_after_ms=now_ms - 1)
    problem(
        gateway.post("/sessions/s1/messages", {"message": "a"}, key=over), 401, "unauthenticated"
    )


def test_a_fault_of_ours_is_told_with_an_id_that_the_log_has(tmp_path, capsys):
    logs.configure("info", "text")
    gateway = Gateway(tmp_path)

    def broken(*_arguments, **_more):
        raise RuntimeError("a secret detail")

    gateway.services.client = broken
    answer = gateway.post("/sessions", {"workflow": "desk"})
    detail = problem(answer, 500, "fault")
    assert "a secret detail" not in answer.text
    fault_id = answer.json()["fault_id"]
    assert fault_id in detail
    logged = capsys.readouterr().err
    assert fault_id in logged
    assert "a secret detail" in logged
    gateway.close()


def test_nothing_is_allowed_to_other_sites(gateway):
    headers = {"origin": "https://elsewhere.example", "access-control-request-method": "POST"}
    answer = gateway.client.options(WHERE, headers=headers)
    assert not [name for name in answer.headers if name.startswith("access-control")]
