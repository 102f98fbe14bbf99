"""What a body emits: told at once, without its secrets, under its attempt, and no longer than that lives."""

import asyncio
from contextvars import copy_context
from functools import partial

import pytest
from pydantic import SecretStr

import wakeful
from wakeful.agents import ChatMessage, Cut, ScriptedModel, StreamCut, chat
from wakeful.processors.activities.contracts import Read
from wakeful.processors.activities.definitions import activity
from wakeful.processors.activities.hung import Attempt
from wakeful.processors.activities.inside import NotInActivity
from wakeful.processors.activities.jobs import Job
from wakeful.processors.activities.performing import perform, perform_sync
from wakeful.processors.activities.runner import Runner
from wakeful.processors.activities.running import Running
from wakeful.processors.testing.attempts import attempt as an_attempt

from .conftest import DIGEST_KEY


class Heard:
    """Tokens that go into a list."""

    def __init__(self):
        self.told = []

    def offer(self, speaker, text):
        self.told.append((speaker, text))

    @property
    def text(self):
        return "".join(text for _, text in self.told)


@pytest.fixture
def run(bench):
    """Runs a function as the body of an attempt: what came of it, and what was heard."""

    def go(function, *, stop=False, **task):
        heard = Heard()
        tool = activity(contract=Read(), name="tool")(function)
        runner = Runner({"tool": tool}, worker_id="w1", digest_key=DIGEST_KEY, tokens=heard)
        job = Job(bench.task("tool", {}, **task), "acme/s1/1/1#1", fresh=True)
        running = Running(runner, send=lambda _: None, monotonic=lambda: 100.0)
        call = runner.prepare(job.task)
        if tool.is_sync:

            def work():
                if stop:
                    running.stop(job.command_id)
                return perform_sync(runner, call)

            return copy_context().run(running.attend_sync, Attempt(job), work), heard
        return asyncio.run(running.attend(Attempt(job), partial(perform, runner, call))), heard

    return go


def test_what_is_emitted_is_told_under_its_attempt_from_bodies_of_both_kinds(run):
    async def waits() -> None:
        wakeful.emit("We ")
        await asyncio.to_thread(wakeful.emit, "will see.")

    def blocks() -> None:
        wakeful.emit("We ")
        wakeful.emit("will see.")

    for body in (waits, blocks):
        _, heard = run(body, attempt=3)
        assert heard.text == "We will see."
        (speaker,) = {speaker for speaker, _ in heard.told}
        assert (speaker.tenant, speaker.session_id, speaker.activity_id) == ("acme", "s1", "1.1")
        assert speaker.attempt == 3


def test_two_runs_of_an_attempt_are_told_apart(run):
    def blocks() -> None:
        wakeful.emit("x")

    assert run(blocks)[1].told[0][0].run != run(blocks)[1].told[0][0].run


def test_what_is_said_after_the_end_is_not_told(run):
    kept = []

    def blocks() -> None:
        wakeful.emit("in time")
        context = copy_context()
        kept.append(lambda: context.run(wakeful.emit, "too late"))

    _, heard = run(blocks)
    with pytest.raises(wakeful.AttemptCancelled):
        kept[0]()
    assert heard.text == "in time"


def test_an_attempt_that_is_to_stop_learns_it_when_it_emits(run):
    reached = []

    def blocks() -> None:
        wakeful.emit("x")
        reached.append("behind")

    body, heard = run(blocks, stop=True)
    assert (body, heard.text, reached) == (None, "", [])


def test_what_is_no_text_is_declined_and_an_empty_one_says_nothing(run):
    def blocks() -> None:
        wakeful.emit("")
        wakeful.emit(7)

    body, heard = run(blocks)
    assert body.failure.message == "emit() takes text, not int"
    assert heard.told == []


def test_outside_of_an_activity_it_is_told_where_it_may_be_called():
    with pytest.raises(NotInActivity, match=r"wakeful\.emit\(\) works in the body"):
        wakeful.emit("x")


def test_a_secret_over_two_tokens_is_masked_as_in_progress():
    with an_attempt() as one:
        one.beats.hidden.add(SecretStr("c4nary-0123456789"))
        for text in ("the token is c4nary-0", "123456789, and ", "so on c4n"):
            wakeful.emit(text)
        assert one.emitted == ["the token is ", "***, and ", "so on "]
    assert one.emitted[-1] == "c4n"


def test_a_model_is_heard_while_it_answers_and_what_was_cut_is_no_secret():
    ask = chat(ScriptedModel([Cut("We will ref"), "We will refund it."])).function
    question = [ChatMessage("user", "Where is my money?")]
    with an_attempt() as one, pytest.raises(StreamCut):
        asyncio.run(ask(question))
    assert "".join(one.emitted) == "We will ref"
    with an_attempt() as one:
        answer = asyncio.run(ask(question))
    assert "".join(one.emitted) == answer.text
    assert len(one.emitted) > 1
