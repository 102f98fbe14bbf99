"""Requests and flags that will not do: the payment service names what is wrong, and goes on."""

import http.client
import signal
import socket

import pytest

from wakeful.deploy.demo.payments import Service
from wakeful.deploy.demo.payments import __main__ as program
from wakeful.deploy.exits import Exit

from .paying import LIMIT_S, ask, port, refund


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """One service for all of them."""
    with Service(tmp_path_factory.mktemp("payments") / "book") as service:
        yield service


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"", "the body is b'': Invalid JSON"),
        (b"{", "the body is b'{': Invalid JSON"),
        (b"[" * 60_000, "the body is b'[[["),
        (b'{"key": "\xff"}', "Invalid JSON"),
        (b"[]", "the body is []: Input should be an object"),
        (b'{"key": "k", "cents": 5}', "order_id is missing"),
        (refund("k", cents=0), "cents is 0: Input should be greater"),
        (refund("k", cents=2.5), "cents is 2.5"),
        (refund("k", cents="5"), "cents is '5'"),
        (refund("k", cents=True), "cents is True"),
        (refund("k", cents=10**4_000), "cents is 1000"),
        (refund("k").replace(b"2500", b"9" * 20_000), "number out of range"),
        (refund("k").replace(b"2500", b"NaN"), "cents is nan"),
        (refund(""), "key is '': String should have at least 1"),
        (refund("k" * 1_001), "key is 'kkk"),
        (refund("k", order_id="\ud83d"), "Invalid JSON"),
        (refund("k").replace(b"cents", b"euros"), "cents is missing"),
        (refund("k").replace(b"}", b', "gift": 1}'), "gift is 1: Extra"),
    ],
)
def test_a_body_that_will_not_do_is_named(body: bytes, said: str, shared: Service) -> None:
    before = shared.file.read_bytes()
    status, _, told = ask(shared, "POST", "/refunds", body)
    assert status == 400
    assert said in told["error"]
    assert len(told["error"]) < 300
    assert shared.file.read_bytes() == before


@pytest.mark.parametrize(
    ("method", "target", "status", "said"),
    [
        ("GET", "/", 404, "there is no '/': there are /refunds"),
        ("GET", "/refunds/ch_1", 404, "there is no '/refunds/ch_1'"),
        ("DELETE", "/refunds", 405, "'DELETE' is no method of /refunds: GET or POST"),
        ("BREW", "/refunds", 405, "'BREW'"),
        ("GET", "/refunds", 400, "the query is '': it must be key=K"),
        ("GET", "/refunds?key=", 400, "the query is 'key='"),
        ("GET", "/refunds?key=a&key=b", 400, "the query is 'key=a&key=b'"),
        ("GET", "/refunds?id=a", 400, "the query is 'id=a'"),
        ("POST", "/refunds/undo?of=k", 400, "the query is 'of=k'"),
        ("POST", "/refunds/undo", 400, "the body is b''"),
        ("GET", f"/refunds?key={'k' * 70_000}", 414, "URI Too Long"),
    ],
)
def test_a_request_that_will_not_do_is_named(method, target, status, said, shared) -> None:
    answered, headers, told = ask(shared, method, target)
    assert (answered, headers["Content-Type"]) == (status, "application/json")
    assert said.lower() in told["error"].lower()
    if (method, answered) == ("DELETE", 405):
        assert headers["Allow"] == "GET, POST"


def test_a_fault_that_does_not_exist_is_named(shared: Service) -> None:
    status, _, told = ask(shared, "POST", "/refunds", refund("k"), **{"X-Fault": "gift"})
    assert (status, "X-Fault is 'gift': it must be one of error," in told["error"]) == (400, True)


def test_a_body_over_64_kib_is_refused_before_it_is_read(shared: Service) -> None:
    status, headers, told = ask(shared, "POST", "/refunds", b" " * (64 * 1024 + 1))
    assert (status, headers["Connection"]) == (413, "close")
    assert "65537 bytes: at most 65536" in told["error"]
    status, _, told = ask(shared, "POST", "/refunds", **{"Content-Length": "9" * 30})
    assert status == 413
    fitting = refund("k").ljust(64 * 1024)
    assert ask(shared, "POST", "/refunds", fitting)[0] == 200


@pytest.mark.parametrize(
    ("head", "said"),
    [
        (b"Content-Length: -1", b"Content-Length is '-1'"),
        (b"Content-Length: 1\r\nContent-Length: 2", b"Content-Length is"),
        (b"Transfer-Encoding: chunked", b"Transfer-Encoding is 'chunked'"),
    ],
)
def test_a_length_that_cannot_be_told_ends_the_connection(head, said, shared: Service) -> None:
    with socket.create_connection(("127.0.0.1", port(shared)), timeout=LIMIT_S) as client:
        client.sendall(b"POST /refunds HTTP/1.1\r\n" + head + b"\r\n\r\n")
        client.shutdown(socket.SHUT_WR)
        answer = b"".join(iter(lambda: client.recv(65_536), b""))
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert said in answer


def test_a_connection_serves_many_requests_also_after_a_refused_one(shared: Service) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", port(shared), timeout=LIMIT_S)
    statuses = []
    for method, target, body in [
        ("POST", "/refunds", b"{"),
        ("GET", "/nowhere", b"a body that nobody asked for"),
        ("HEAD", "/refunds", b""),
        ("POST", "/refunds", refund("kept-alive")),
        ("GET", "/refunds?key=kept-alive", b""),
    ]:
        connection.request(method, target, body)
        answer = connection.getresponse()
        answer.read()
        statuses.append((answer.status, connection.sock is not None))
    connection.close()
    assert statuses == [(400, True), (404, True), (405, True), (200, True), (200, True)]


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--errors", "1.5"], "the share of error is 1.5: it must be 0 to 1"),
        (["--drop", "nan"], "the share of drop is nan"),
        (["--drop", ".6", "--late", ".6"], "add up to 1.2: at most 1"),
        (["--slow", "-1"], "slow is -1 ms"),
        (["--port", "99999"], "port 99999 cannot be listened at"),
        (["--file", "no/such/folder/book"], "no/such/folder"),
        (["--gift"], "unrecognized arguments: --gift"),
    ],
)
def test_flags_that_cannot_work_are_named(flags, said, tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    monkeypatch.delenv("WAKEFUL_LIFELINE", raising=False)
    try:
        code = program.main(["--file", "book", *flags])
    except SystemExit as ended:
        code = ended.code
    shown = capsys.readouterr()
    assert (code, shown.out) == (Exit.USAGE, "")
    assert said in shown.err
    assert "Traceback" not in shown.err
