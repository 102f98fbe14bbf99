"""The scripted model, and the port to an OpenAI-compatible endpoint."""

import asyncio
import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from wakeful.deploy.demo.messages import own_messages
from wakeful.deploy.demo.model import (
    EndpointModel,
    ModelFailed,
    ScriptedModel,
    model_from,
    read_verdict,
)


def response(content: str) -> bytes:
    return json.dumps({"choices": [{"message": {"content": content}}]}).encode()


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("I was charged twice.", "refund"),
        ("返金してください", "refund"),
        ("This is unacceptable!", "complaint"),
        ("Where is my card?", "question"),
        ("I cannot make transactions with my virtual card.", "question"),
        ("hi", "other"),
        ("", "other"),
        ("\ud83d\x00", "other"),
    ],
)
def test_the_script_sorts_by_what_is_written(text: str, kind: str) -> None:
    first = asyncio.run(ScriptedModel().judge(text))
    assert first.kind == kind
    assert asyncio.run(ScriptedModel().judge(text)) == first


@pytest.mark.parametrize(
    ("text", "earlier", "order_id"),
    [
        ("Refund order 1003, please.", "", "1003"),
        ("Bestellung Nr. 1006 erstatten", "", "1006"),
        ("注文 1008 を返金してください", "", "1008"),
        ("refund #1009", "", "1009"),
        ("I want my 1500 back", "", None),
        ("Sorry, of course: 1011", "I want my money back", "1011"),
        ("the blue one", "I want my money back", None),
    ],
)
def test_the_script_reads_the_order_s_number(text: str, earlier: str, order_id) -> None:
    assert ScriptedModel.verdict(text, earlier).order_id == order_id


def test_a_number_answers_what_was_asked_back() -> None:
    assert ScriptedModel.verdict("1011", "I want my money back").kind == "refund"
    assert ScriptedModel.verdict("1011").kind == "other"
    assert ScriptedModel.verdict("Thank you!", "I want my money back").kind == "other"


def test_the_demo_s_own_messages_are_of_every_kind() -> None:
    kinds = [ScriptedModel.verdict(message.text).kind for message in own_messages()]
    assert min(kinds.count(kind) for kind in ("refund", "complaint", "question", "other")) >= 3


def test_a_fenced_answer_is_read() -> None:
    verdict = read_verdict(response('```json\n{"kind": "refund", "answer": "ok"}\n```'))
    assert (verdict.kind, verdict.answer) == ("refund", "ok")


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"[]",
        b'{"choices": []}',
        b'{"choices": [{"message": {"content": null}}]}',
        response("no object"),
        response('{"kind": "gift", "answer": "x"}'),
        response('{"kind": "refund", "answer": ""}'),
        response('{"kind": "refund"'),
    ],
)
def test_an_answer_that_is_none_fails_the_call(raw: bytes) -> None:
    with pytest.raises(ModelFailed):
        read_verdict(raw)


def test_the_environment_chooses_the_model() -> None:
    assert model_from({}).name == "scripted-1"
    chosen = model_from({"WAKEFUL_MODEL": "http://localhost:1/v1/", "WAKEFUL_MODEL_NAME": "m"})
    assert isinstance(chosen, EndpointModel)
    assert (chosen.url, chosen.name) == ("http://localhost:1/v1/chat/completions", "m")
    with pytest.raises(ValueError, match="WAKEFUL_MODEL=file"):
        model_from({"WAKEFUL_MODEL": "file:///etc/passwd"})
    with pytest.raises(ValueError, match="WAKEFUL_MODEL_NAME is not"):
        model_from({"WAKEFUL_MODEL": "http://localhost:1"})


class Endpoint(BaseHTTPRequestHandler):
    """Answers what its server was given, and remembers what it was asked."""

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.asked.append((self.path, self.headers["Authorization"], json.loads(body)))
        status, answer = self.server.answer
        self.send_response(status)
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_args) -> None:
        pass


@pytest.fixture
def endpoint():
    server = HTTPServer(("127.0.0.1", 0), Endpoint)
    server.asked, server.answer = [], (200, response('{"kind": "question", "answer": "42"}'))
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def test_an_endpoint_is_asked_in_its_own_words(endpoint) -> None:
    model = EndpointModel(f"http://127.0.0.1:{endpoint.server_port}/v1", "some-model", "secret")
    assert asyncio.run(model.judge("what?")).answer == "42"
    asyncio.run(model.judge("7", "what was before"))
    path, authorization, body = endpoint.asked[0]
    assert (path, authorization) == ("/v1/chat/completions", "Bearer secret")
    assert body["model"] == "some-model"
    assert body["messages"][1:] == [{"role": "user", "content": "what?"}]
    assert [said["content"] for said in endpoint.asked[1][2]["messages"][1:]] == [
        "what was before",
        "7",
    ]


def test_an_endpoint_that_refuses_fails_the_call(endpoint) -> None:
    model = EndpointModel(f"http://127.0.0.1:{endpoint.server_port}", "m", "")
    endpoint.answer = (429, b"slow down")
    with pytest.raises(ModelFailed, match="answered 429"):
        asyncio.run(model.judge("what?"))


def test_an_endpoint_that_is_not_there_fails_the_call() -> None:
    with pytest.raises(ModelFailed, match="cannot be reached"):
        asyncio.run(EndpointModel("http://127.0.0.1:9", "m", "").judge("what?"))
