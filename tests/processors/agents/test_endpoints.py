"""Both adapters, against a local endpoint that answers as theirs do, and as they should not."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from wakeful.agents import Answer, AnthropicModel, ChatMessage, Evidence, OpenAIModel, Usage
from wakeful.agents import evidence_of as heard_of
from wakeful.processors.activities.hidden import OUTPUT

from .conftest import attempt, chat
from .fake_endpoint import Says, events

KEY = "key-that-nobody-may-read"
FAILS = "wakeful.agents."


def openai_events(*texts: str, finish: str | None = "stop", whole: bool = True) -> list[str]:
    def chunk(delta: dict, reason: str | None = None) -> dict:
        choice = {"index": 0, "delta": delta, "finish_reason": reason}
        return {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m-1-0612"} | {
            "choices": [choice]
        }

    told = [chunk({"role": "assistant", "content": ""})]
    told += [chunk({"content": text}) for text in texts]
    if not whole:
        return events(*told)
    usage = {"prompt_tokens": 9, "completion_tokens": 4, "total_tokens": 13}
    last = chunk({}) | {"choices": [], "usage": usage}
    return events(*told, chunk({}, finish), last, "[DONE]")


def anthropic_events(*texts: str, finish: str = "end_turn", whole: bool = True) -> list[str]:
    message = {"id": "m", "type": "message", "role": "assistant", "model": "m-1-0612"}
    message |= {"content": [], "stop_reason": None, "stop_sequence": None}
    message |= {"usage": {"input_tokens": 2, "cache_read_input_tokens": 7, "output_tokens": 1}}
    block = {"type": "text", "text": ""}
    told: list[dict] = [
        {"type": "message_start", "message": message},
        {"type": "content_block_start", "index": 0, "content_block": block},
        {"type": "ping"},
    ]
    for text in texts:
        delta = {"type": "text_delta", "text": text}
        told.append({"type": "content_block_delta", "index": 0, "delta": delta})
    if whole:
        end = {"stop_reason": finish, "stop_sequence": None}
        told += [
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": end, "usage": {"output_tokens": 4}},
            {"type": "message_stop"},
        ]
    return events(*told, names=True)


@dataclass(frozen=True)
class Kind:
    """One adapter, and how its endpoint speaks."""

    library: str
    path: str
    make: Callable[..., OpenAIModel | AnthropicModel]
    tells: Callable[..., list[str]]
    filtered: str
    limit: str
    overloaded: str
    counted: Usage
    """What is known of the tokens where a stream is cut."""
    names: str
    """The endpoint's id of its answer."""


KINDS = [
    Kind(
        "openai",
        "/chat/completions",
        lambda url, **more: OpenAIModel("m-1", base_url=url, **more),
        openai_events,
        filtered="content_filter",
        limit="length",
        overloaded=events({"error": {"message": "Overloaded", "type": "server_error"}})[0],
        counted=Usage(),
        names="c",
    ),
    Kind(
        "anthropic",
        "/v1/messages",
        lambda url, **more: AnthropicModel("m-1", tokens_max=500, base_url=url, **more),
        anthropic_events,
        filtered="refusal",
        limit="max_tokens",
        overloaded=events(
            {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}},
            names=True,
        )[0],
        counted=Usage(9, 1),
        names="m",
    ),
]


@pytest.fixture(params=KINDS, ids=lambda kind: kind.library)
def kind(request) -> Kind:
    pytest.importorskip(
        request.param.library, reason="without the extra 'models' there is no such client"
    )
    return request.param


@pytest.fixture
def asked(kind, endpoint):
    """Asks the endpoint once for each message, in one event loop, and closes the connections."""

    def ask(*texts: str, **more):
        async def all_of_them():
            model = kind.make(endpoint.url, **({"api_key": KEY, "idle_s": 20} | more))
            ask_model = chat(model, timeout="30s")
            try:
                return [await attempt(ask_model.call([ChatMessage("user", t)])) for t in texts]
            finally:
                await model.aclose()

        found = asyncio.run(all_of_them())
        return found if len(texts) > 1 else found[0]

    return ask


def test_a_stream_becomes_one_answer(kind, endpoint, asked):
    endpoint.says(Says(kind.tells("Good ", "morn", "ing \U0001f600")))
    wanted = Answer("Good morning \U0001f600", "m-1-0612", Usage(9, 4), "stop", (), kind.names)
    assert asked("hi") == wanted


def test_the_request_is_what_the_endpoint_documents(kind, endpoint, asked):
    endpoint.says(Says(kind.tells("yes")))
    asked("hi", options={"temperature": 0})
    (sent,) = endpoint.asked
    assert sent["path"] == kind.path
    assert (sent["model"], sent["stream"], sent["temperature"]) == ("m-1", True, 0)
    assert sent["messages"] == [{"role": "user", "content": "hi"}]
    assert KEY in {endpoint.headers[0].get("x-api-key")} | {
        endpoint.headers[0].get("authorization", "").removeprefix("Bearer ")
    }


def test_system_messages_go_where_the_protocol_wants_them(kind, endpoint):
    endpoint.says(Says(kind.tells("yes")))
    messages = [ChatMessage("system", "Be kind."), ChatMessage("user", "hi")]

    async def once():
        model = kind.make(endpoint.url, api_key=KEY)
        await attempt(chat(model).call(messages))
        await model.aclose()

    asyncio.run(once())
    (sent,) = endpoint.asked
    if kind.library == "anthropic":
        assert (sent["system"], len(sent["messages"]), sent["max_tokens"]) == ("Be kind.", 1, 500)
    else:
        assert sent["messages"][0] == {"role": "system", "content": "Be kind."}
        assert sent["stream_options"] == {"include_usage": True}


def test_a_character_cut_in_two_is_put_together_again(kind, endpoint, asked):
    endpoint.says(Says(kind.tells("so \ud83d", "\ude00 and \ud83d")))
    assert asked("hi").text == "so \U0001f600 and \ud83d"


def test_an_answer_at_the_limit_of_tokens_says_so(kind, endpoint, asked):
    endpoint.says(Says(kind.tells("Once upon", finish=kind.limit)))
    assert asked("hi").finish == "length"


def test_reasons_that_are_not_known_yet_are_no_error(kind, endpoint, asked):
    endpoint.says(Says(kind.tells("fine", finish="of_2031")))
    assert asked("hi").finish == "other"


def test_a_filter_is_a_refusal(kind, endpoint, asked):
    endpoint.says(Says(kind.tells("I will", finish=kind.filtered)))
    failure = asked("hi")
    assert failure.type == FAILS + "Refused"
    assert heard_of(failure) == Evidence("m-1-0612", "I will", 6, 1, 9, 4)


def test_an_empty_answer_is_named(kind, endpoint, asked):
    endpoint.says(Says(kind.tells()))
    assert asked("hi").type == FAILS + "EmptyAnswer"


@pytest.mark.parametrize("cut", [True, False], ids=["the connection breaks", "the body just ends"])
def test_a_stream_cut_in_the_middle_fails_with_what_was_heard(kind, endpoint, asked, cut):
    endpoint.says(Says(kind.tells("The ref", "und", whole=False), cut=cut))
    failure = asked("hi")
    assert failure.type == FAILS + "StreamCut"
    counted = kind.counted
    assert heard_of(failure) == Evidence(
        "m-1", "The refund", 10, 2, counted.input_tokens, counted.output_tokens
    )


def test_the_attempt_after_a_cut_begins_from_nothing(kind, endpoint, asked):
    endpoint.says(
        Says(kind.tells("The ref", whole=False), cut=True), Says(kind.tells("The refund."))
    )
    cut, answer = asked("hi", "hi")
    assert cut.type == FAILS + "StreamCut"
    assert answer.text == "The refund."


@pytest.mark.slow
def test_a_stream_that_stalls_is_cut(kind, endpoint, asked):
    endpoint.says(Says(kind.tells("The ref", whole=False), stall=True))
    failure = asked("hi", idle_s=0.3)
    assert failure.type == FAILS + "StreamCut"
    assert heard_of(failure).partial == "The ref"


def test_an_error_in_the_middle_cuts_the_stream(kind, endpoint, asked):
    endpoint.says(Says([*kind.tells("The ref", whole=False), kind.overloaded]))
    failure = asked("hi")
    assert failure.type == FAILS + "StreamCut"
    assert "Overloaded" in failure.message
    assert heard_of(failure).partial == "The ref"


def test_an_error_before_the_first_word_keeps_its_name(kind, endpoint, asked):
    endpoint.says(Says([kind.overloaded]))
    assert asked("hi").type == FAILS + "EndpointFailed"


@pytest.mark.parametrize(
    "junk",
    ["{half", '"a text"', "[1]", '{"type": "message_start"}', '{"choices": [{"delta": {}}]}'],
)
def test_what_is_not_the_protocol_is_a_named_failure(kind, endpoint, asked, junk):
    endpoint.says(Says([f"event: message_start\ndata: {junk}\n\n"]))
    failure = asked("hi")
    assert failure.type in {FAILS + "Unreadable", FAILS + "StreamCut"}
    assert failure.type == FAILS + "Unreadable" or "ended before its answer did" in failure.message


def test_text_that_is_no_text_is_unreadable(kind, endpoint, asked):
    pieces = [piece.replace('"Good"', "17") for piece in kind.tells("Good")]
    endpoint.says(Says(pieces))
    assert asked("hi").type == FAILS + "Unreadable"


def test_a_page_instead_of_a_stream_is_no_answer(kind, endpoint, asked):
    endpoint.says(Says(["<html>Sign in</html>"], kind="text/html"))
    assert asked("hi").type == FAILS + "StreamCut"


def test_too_many_requests_say_when_to_come_back(kind, endpoint, asked):
    says = Says(['{"error": {"message": "slow down"}}'], status=429, kind="application/json")
    says.headers = {"Retry-After": "7"}
    endpoint.says(says)
    failure = asked("hi")
    assert failure.type == FAILS + "RateLimited"
    assert "slow down" in failure.message
    assert "try again after 7000 ms" in failure.message
    assert heard_of(failure).retry_after_ms == 7_000
    assert len(endpoint.asked) == 1, "the client library must not retry by itself"


@pytest.mark.parametrize(
    ("status", "name"),
    [
        (400, "RequestRejected"),
        (401, "RequestRejected"),
        (404, "RequestRejected"),
        (408, "EndpointFailed"),
        (500, "EndpointFailed"),
        (503, "EndpointFailed"),
        (529, "EndpointFailed"),
    ],
)
def test_each_status_has_its_name_and_is_asked_once(kind, endpoint, asked, status, name):
    body = '{"error": {"message": "because", "type": "some_error"}}'
    endpoint.says(Says([body], status=status, kind="application/json"))
    failure = asked("hi")
    assert failure.type == FAILS + name
    assert "because" in failure.message
    assert len(endpoint.asked) == 1


def test_a_quota_that_is_spent_is_no_rate_limit(kind, endpoint, asked):
    body = '{"error": {"message": "spent", "code": "insufficient_quota"}}'
    endpoint.says(Says([body], status=429, kind="application/json"))
    assert asked("hi").type == FAILS + "RequestRejected"


def test_the_key_stays_out_of_what_is_recorded(kind, endpoint, asked):
    body = f'{{"error": {{"message": "no such key: {KEY}"}}}}'
    endpoint.says(Says([body], status=401, kind="application/json"))
    failure = asked("hi")
    assert "no such key: ***" in failure.message
    assert KEY not in failure.message + failure.detail


def test_nobody_there_is_named(kind):
    async def once():
        model = kind.make("http://127.0.0.1:9", api_key=KEY)
        try:
            return await attempt(chat(model).call([ChatMessage("user", "hi")]))
        finally:
            await model.aclose()

    failure = asyncio.run(once())
    assert failure.type == FAILS + "Unreachable"


@pytest.mark.slow
def test_a_stream_without_a_first_word_is_cut_too(kind, endpoint, asked):
    endpoint.says(Says(status=200, stall=True))
    failure = asked("hi", idle_s=0.3)
    assert failure.type == FAILS + "StreamCut"


@pytest.mark.slow
def test_no_response_in_time_is_named(kind, endpoint, asked):
    endpoint.says(Says(silent=True))
    failure = asked("hi", idle_s=0.3)
    assert failure.type == FAILS + "Unreachable"
    assert "Timeout" in failure.message


def test_a_missing_key_is_the_callers(kind, endpoint, asked, monkeypatch):
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    failure = asked("hi", api_key=None)
    assert failure.type == FAILS + "RequestRejected"
    assert "cannot be asked" in failure.message


def test_each_event_loop_has_connections_of_its_own(kind, endpoint):
    model = kind.make(endpoint.url, api_key=KEY)
    endpoint.says(Says(kind.tells("one")), Says(kind.tells("two")))

    async def once():
        try:
            return await attempt(chat(model).call([ChatMessage("user", "hi")]))
        finally:
            await model.aclose()

    assert [asyncio.run(once()).text for _ in range(2)] == ["one", "two"]


def test_the_key_of_a_model_that_was_asked_is_not_printed_by_its_worker(kind, endpoint, asked):
    key = f"a-key-for-{kind.library}-alone"
    assert OUTPUT.hide(f"sends {key}") == f"sends {key}"
    endpoint.says(Says(kind.tells("yes")))
    assert asked("hi", api_key=key).text == "yes"
    assert OUTPUT.hide(f"sends {key} and {key!r}") == "sends *** and '***'"
