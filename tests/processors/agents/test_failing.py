"""Errors of client libraries by name, and what endpoints say about when to come back."""

import subprocess
import sys

import pytest

from wakeful.agents import AnthropicModel, EndpointFailed, OpenAIModel, RateLimited
from wakeful.processors.agents.failing import RETRY_AFTER_MS_MAX, failure_of, masked, retry_after_ms

DATE = "Sun, 29 Nov 2026 20:00:00 GMT"


@pytest.mark.parametrize(
    ("headers", "ms"),
    [
        ({}, None),
        ({"retry-after": "7"}, 7_000),
        ({"retry-after": "0.5"}, 500),
        ({"retry-after-ms": "250", "retry-after": "1"}, 250),
        ({"retry-after": "-3"}, 0),
        ({"retry-after": "99999999999"}, RETRY_AFTER_MS_MAX),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "Sun, 29 Nov 2026 20:01:30 GMT", "date": DATE}, 90_000),
        ({"retry-after": "Sun, 29 Nov 2026 19:00:00 GMT", "date": DATE}, 0),
        ({"retry-after": "Sun, 29 Nov 2026 20:01:30 GMT"}, None),
        ({"retry-after": "Sun, 29 Nov 2026 20:01:30 -0000", "date": DATE}, None),
    ],
)
def test_retry_after_is_read_in_all_its_forms(headers, ms):
    assert retry_after_ms(headers) == ms


class Foreign(Exception):
    """As the client libraries' errors look from outside."""

    def __init__(self, **values) -> None:
        super().__init__("told")
        vars(self).update(values)


@pytest.mark.parametrize("body", [None, "text", b"x", [1], {"error": {"error": {"type": 3}}}])
def test_any_body_of_an_error_can_be_read(body):
    assert isinstance(failure_of(Foreign(status_code=503, body=body), "m"), EndpointFailed)


@pytest.mark.parametrize("word", ["rate_limit_error", "rate_limit_exceeded"])
def test_a_rate_limit_that_comes_as_an_event_is_one(word):
    body = {"type": "error", "error": {"type": word}}
    assert isinstance(failure_of(Foreign(status_code=200, body=body), "m", begun=True), RateLimited)


def test_long_words_of_an_endpoint_are_cut_short():
    assert len(failure_of(Exception("x" * 10_000), "m").message) < 600


def test_a_masked_failure_keeps_its_name_and_its_time():
    error = masked(RateLimited("key secret-key-1", retry_after_ms=5), "secret-key-1")
    assert (type(error), error.message, error.retry_after_ms) == (RateLimited, "key ***", 5)
    local = RateLimited("the model none")
    assert masked(local, "none") is local


@pytest.mark.parametrize("library", ["openai", "anthropic"])
def test_without_its_client_an_adapter_says_what_to_install(library, ask, monkeypatch):
    monkeypatch.setitem(sys.modules, library, None)
    model = OpenAIModel("m-1") if library == "openai" else AnthropicModel("m-1", tokens_max=9)
    failure = ask(model)
    assert failure.type == "wakeful.agents.ClientMissing"
    assert failure.message == f"m-1 needs {library}: pip install 'wakeful[models]'"


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: OpenAIModel(""), "has no name"),
        (lambda: OpenAIModel("m", options={"stream": False, "model": "n"}), "set model, stream:"),
        (lambda: OpenAIModel("m", idle_s=0), "more than 0 seconds"),
        (lambda: AnthropicModel("m", tokens_max=0), "at least 1"),
        (lambda: AnthropicModel("m", tokens_max=1, options={"system": "x"}), "set system:"),
    ],
)
def test_what_cannot_work_is_refused_when_the_model_is_made(make, told):
    with pytest.raises(ValueError, match=told):
        make()


def test_a_model_does_not_show_its_key():
    assert repr(OpenAIModel("m-1", api_key="secret-key-1")) == "<OpenAIModel 'm-1'>"


def test_no_client_library_is_loaded_before_it_is_used():
    program = """
import sys
from wakeful.agents import AnthropicModel, OpenAIModel, chat
chat(OpenAIModel("a")), chat(AnthropicModel("b", tokens_max=1), name="c")
print([m for m in ("openai", "anthropic", "httpx", "httpx2") if m in sys.modules])
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
