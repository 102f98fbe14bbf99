"""The chat activity: one attempt is one whole answer, or a failure with a name and its evidence."""

import asyncio

import pytest

from wakeful.agents import (
    Answer,
    ChatMessage,
    Chunk,
    Cut,
    EndpointFailed,
    Evidence,
    FunctionModel,
    RateLimited,
    ScriptedModel,
    Usage,
    chat,
    evidence_of,
)
from wakeful.events.records import Failure
from wakeful.processors.activities.contracts import Read
from wakeful.processors.activities.definitions import Declined
from wakeful.processors.agents.chat import ANSWER_BYTES_MAX
from wakeful.processors.agents.errors import EVIDENCE_BYTES_MAX, _written
from wakeful.processors.app import AppError, gather


class Streaming:
    """A model of the test's own: yields these parts, raises those that are exceptions."""

    name = "own-1"

    def __init__(self, *parts) -> None:
        self.parts = parts
        self.closed = 0

    async def stream(self, messages):
        try:
            for part in self.parts:
                if isinstance(part, BaseException):
                    raise part
                if part is ...:
                    await asyncio.Event().wait()
                yield part
        finally:
            self.closed += 1


def test_an_answer_comes_back_out_of_the_log_as_it_was(ask):
    whole = Answer("Good morning, \U0001f600\x00 world", "scripted-1-0612", Usage(3, 5), "length")
    assert ask(ScriptedModel([whole])) == whole


def test_a_text_is_enough_of_a_script(ask):
    answer = ask(ScriptedModel(["two words"]), ChatMessage("user", "one two three"))
    assert answer == Answer("two words", "scripted-1", Usage(3, 2))


def test_the_activity_says_how_it_may_run():
    ask = chat(ScriptedModel([]), timeout="20s")
    assert ask.name == "chat"
    assert ask.queue == "models"
    assert ask.contract == Read()
    assert ask.start_to_close_ms == 20_000
    assert ask.call([ChatMessage("user", "hi")]).arguments == {
        "messages": [{"role": "user", "content": "hi"}]
    }


def test_messages_that_are_none_are_refused_in_the_workflow():
    ask = chat(ScriptedModel([]))
    with pytest.raises(TypeError, match=r"messages\.0\.role"):
        ask.call([{"role": "robot", "content": "hi"}])


def test_two_models_in_one_app_need_two_names():
    one, two = chat(ScriptedModel([])), chat(ScriptedModel([]))
    with pytest.raises(AppError, match="'chat' is declared twice"):
        gather([one, two])
    assert gather([one, chat(ScriptedModel([]), name="second")]).queues == ["models"]


@pytest.mark.parametrize("timeout", ["0s", "soon", -1])
def test_a_time_out_that_is_none_is_declined_by_name(timeout):
    with pytest.raises(Declined, match="activity 'chat'"):
        chat(ScriptedModel([]), timeout=timeout)


def test_a_cut_stream_is_a_failed_attempt_with_its_evidence(ask):
    model = Streaming(Chunk("", Usage(11, 1)), Chunk("The refund "), Chunk("is"))
    failure = ask(model)
    assert (failure.kind, failure.type) == ("raised", "wakeful.agents.StreamCut")
    assert "own-1 stopped in the middle of its answer" in failure.message
    assert evidence_of(failure) == Evidence("own-1", "The refund is", 13, 2, 11, 1)
    assert model.closed == 1


def test_a_retry_begins_from_nothing(ask):
    model = ScriptedModel([Cut("We will ref"), "We will refund it."])
    assert ask(model).type == "wakeful.agents.StreamCut"
    assert ask(model).text == "We will refund it."
    assert len(model.calls) == 2


@pytest.mark.parametrize(
    "error",
    [EndpointFailed("overloaded"), RateLimited("slowly", retry_after_ms=7_000), OSError("reset")],
)
def test_whatever_ends_a_stream_that_has_begun_has_cut_it(ask, error):
    failure = ask(Streaming(Chunk("half"), error))
    assert failure.type == "wakeful.agents.StreamCut"
    evidence = evidence_of(failure)
    assert evidence.partial == "half"
    assert evidence.retry_after_ms == getattr(error, "retry_after_ms", None)


def test_what_fails_before_the_first_word_keeps_its_name(ask):
    failure = ask(Streaming(RateLimited("slowly", retry_after_ms=7_000)))
    assert failure.type == "wakeful.agents.RateLimited"
    assert evidence_of(failure) == Evidence("own-1", retry_after_ms=7_000)


def test_a_tools_own_error_stays_its_own(ask):
    failure = ask(FunctionModel(lambda _: LookupError("no such prompt")))
    assert (failure.type, evidence_of(failure)) == ("LookupError", None)
    assert ask(Streaming(FileNotFoundError("prompt.txt"))).type == "FileNotFoundError"


def test_a_slow_answer_ends_itself_before_the_worker_cancels_it(ask):
    model = Streaming(Chunk("so far"), ...)
    failure = ask(model, timeout="400ms")
    assert failure.type == "wakeful.agents.StreamCut"
    assert "no whole answer within 0.36 s" in failure.message
    assert evidence_of(failure).partial == "so far"
    assert model.closed == 1


def test_an_answer_without_a_word_is_named(ask):
    failure = ask(ScriptedModel([Answer(" \n", "m-1", Usage(4, 900), "length")]))
    assert failure.type == "wakeful.agents.EmptyAnswer"
    assert failure.message == "m-1 answered without a word (finish: length)"
    assert evidence_of(failure).output_tokens == 900


def test_a_refusal_is_named_and_its_tokens_are_booked(ask):
    failure = ask(ScriptedModel([Answer("I cannot.", "m-1", Usage(4, 3), "refusal")]))
    assert failure.type == "wakeful.agents.Refused"
    assert failure.message == "m-1 declined to answer: I cannot."
    assert evidence_of(failure) == Evidence("m-1", "I cannot.", 9, 2, 4, 3)


def test_a_model_that_never_stops_is_cut(ask):
    many = (Chunk("x" * 10_000) for _ in range(ANSWER_BYTES_MAX))
    failure = ask(Streaming(*(next(many) for _ in range(40))))
    assert failure.type == "wakeful.agents.StreamCut"
    assert "limit its tokens" in failure.message
    evidence = evidence_of(failure)
    assert evidence.characters == 250_000
    assert len(evidence.partial) == 2_000


@pytest.mark.parametrize("text", ["a", "\n", '"', "\x00", "é", "\u2028", "\U0001f600", "\ud800"])
def test_the_evidence_always_fits(ask, text):
    failure = ask(Streaming(Chunk(text * 100_000)))
    evidence = evidence_of(failure)
    assert evidence.characters == 100_000
    assert len(evidence.partial) >= 200
    assert set(evidence.partial) == {"?" if text == "\ud800" else text}


def test_long_names_do_not_push_the_evidence_out():
    written = _written(Evidence("\U0001f600" * 5_000, "\U0001f600" * 5_000, 10**9, 10**9, 10**9))
    assert len(written) <= EVIDENCE_BYTES_MAX


@pytest.mark.parametrize(
    "detail", ["", "evidence: ", "evidence: {}", 'evidence: {"model": 3}', "evidence: [1", "x\ny"]
)
def test_other_failures_have_no_evidence(detail):
    assert evidence_of(Failure("raised", "X", "x", detail)) is None


def test_rules_are_tried_in_order_on_the_last_message(ask):
    model = ScriptedModel({"refund|money": "Refunded.", ".*": "Thank you."}, name="rules-2")
    first = ask(model, ChatMessage("system", "refund"), ChatMessage("user", "My MONEY back"))
    assert (first.text, first.model) == ("Refunded.", "rules-2")
    assert ask(model, ChatMessage("user", "hello")).text == "Thank you."


def test_a_script_that_has_nothing_to_say_says_so(ask):
    assert "is at its end" in ask(ScriptedModel([])).message
    assert "end with the rule '.*'" in ask(ScriptedModel({"refund": "yes"})).message
    with pytest.raises(TypeError, match="give a list"):
        ScriptedModel("one text")


def test_functions_may_be_plain_or_async(ask):
    async def later(messages):
        return messages[-1].content.upper()

    assert ask(FunctionModel(later)).text == "HELLO"
    assert ask(FunctionModel(lambda messages: messages[0].role)).text == "user"
