"""What a body may ask: it finds its attempt, and progress comes back as the type it went in as."""

import asyncio
import threading
from contextvars import copy_context
from datetime import date
from functools import partial
from typing import Any

import pytest
from pydantic import BaseModel

import wakeful
from wakeful.events.limits import PAYLOAD_MAX
from wakeful.events.payloads import json_payload
from wakeful.processors.activities.contracts import Read
from wakeful.processors.activities.definitions import activity
from wakeful.processors.activities.hung import Attempt
from wakeful.processors.activities.inside import NotInActivity
from wakeful.processors.activities.jobs import Job
from wakeful.processors.activities.performing import perform, perform_sync
from wakeful.processors.activities.runner import Runner
from wakeful.processors.activities.running import Running

from .conftest import DIGEST_KEY


class Page(BaseModel):
    number: int
    day: date


@pytest.fixture
def attempt(bench):
    """Runs a function as the body of one attempt: its words, and the progress that it sent."""
    now = [100.0]

    def go(function, **task):
        sent = []
        tool = activity(contract=Read(), name="tool")(function)
        runner = Runner({"tool": tool}, worker_id="w1", digest_key=DIGEST_KEY)
        job = Job(bench.task("tool", {}, **task), "acme/s1/1/1#1", fresh=True)
        running = Running(runner, send=sent.append, monotonic=lambda: now[0])
        call = runner.prepare(job.task)
        if tool.is_sync:
            context = copy_context()
            body = context.run(
                running.attend_sync, Attempt(job), partial(perform_sync, runner, call)
            )
        else:
            body = asyncio.run(running.attend(Attempt(job), partial(perform, runner, call)))
        return body, [beat.body.progress.inline for beat in sent if beat.body.progress]

    return go


@pytest.mark.parametrize(
    "ask", [wakeful.heartbeat, wakeful.cancelled, lambda: wakeful.progress(int)]
)
def test_outside_of_an_activity_it_is_told_where_it_may_be_asked(ask):
    with pytest.raises(NotInActivity, match="works in the body of an activity that a worker runs"):
        ask()


def test_progress_is_told_from_async_and_sync_bodies(attempt):
    async def waits() -> None:
        wakeful.heartbeat({"page": 7})

    def blocks() -> None:
        wakeful.heartbeat(Page(number=7, day=date(2030, 1, 2)))

    assert attempt(waits)[1] == [b'{"page":7}']
    assert attempt(blocks)[1] == [b'{"day":"2030-01-02","number":7}']


def test_tasks_and_threads_of_an_activity_speak_for_it(attempt):
    async def waits() -> None:
        await asyncio.gather(asyncio.to_thread(wakeful.heartbeat, "from its thread"))

    assert attempt(waits)[1] == [b'"from its thread"']


def test_a_thread_without_its_context_has_no_attempt(attempt):
    found = []

    def look():
        try:
            wakeful.heartbeat("from nowhere")
        except NotInActivity as error:
            found.append(error)

    def blocks() -> None:
        thread = threading.Thread(target=look)
        thread.start()
        thread.join()

    assert attempt(blocks)[1] == []
    assert len(found) == 1


def test_progress_is_taken_as_it_is_when_it_is_told(attempt):
    def blocks() -> None:
        seen = [1]
        wakeful.heartbeat(seen)
        seen.append(2)
        wakeful.heartbeat(seen)
        seen.append(3)
        raise LookupError

    assert attempt(blocks)[1] == [b"[1]", b"[1,2]"]


def test_progress_with_a_number_that_json_does_not_have_is_declined(attempt):
    class Loose(BaseModel):
        share: Any

    def blocks() -> None:
        wakeful.heartbeat(Loose(share=float("nan")))

    body, sent = attempt(blocks)
    assert "field 'share' holds a number that JSON does not have" in body.failure.message
    assert sent == []


def test_an_earlier_attempts_progress_comes_back_typed(attempt):
    def blocks() -> str:
        page = wakeful.progress(Page)
        return f"{type(page).__name__} {page.number} {page.day.year}"

    left = json_payload({"number": 7, "day": "2030-01-02"}, DIGEST_KEY)
    assert attempt(blocks, attempt=2, progress=left)[0].result.inline == b'"Page 7 2030"'


def test_the_first_attempt_finds_none(attempt):
    def blocks() -> bool:
        return wakeful.progress(dict[str, int]) is None

    assert attempt(blocks)[0].result.inline == b"true"


def test_progress_that_does_not_fit_any_more_is_told_as_such(attempt):
    def blocks() -> None:
        wakeful.progress(Page)

    failure = attempt(blocks, progress=json_payload([1], DIGEST_KEY))[0].failure
    assert (failure.kind, failure.type) == ("raised", "ValueError")
    assert (
        "the progress that an earlier attempt of tool left does not fit its type" in failure.message
    )


@pytest.mark.parametrize(
    ("progress", "why"),
    [
        ("x" * PAYLOAD_MAX, "has 262146 bytes, the limit is 262144: store it elsewhere"),
        (object(), "cannot be stored as JSON"),
        ({1: 2.5, "n": float("nan")}, "cannot be stored as JSON"),
    ],
)
def test_progress_that_cannot_be_stored_is_refused_where_it_is_told(attempt, progress, why):
    def blocks() -> None:
        wakeful.heartbeat(progress)

    body, sent = attempt(blocks)
    assert (body.failure.type, sent) == ("ValueError", [])
    assert why in body.failure.message


def test_a_cancellation_that_a_tool_makes_up_is_its_failure(attempt):
    def blocks() -> None:
        raise wakeful.AttemptCancelled("by itself")

    async def waits() -> None:
        raise wakeful.AttemptCancelled("by itself")

    assert attempt(blocks)[0].failure.type.endswith("AttemptCancelled")
    assert attempt(waits)[0].failure.type.endswith("AttemptCancelled")
