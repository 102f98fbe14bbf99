"""Fixtures for the model port: a local endpoint, and the worker's runner as the way into the log."""

import asyncio
from collections.abc import Callable, Iterator

import pytest

from wakeful.agents import Answer, ChatMessage, Model, chat
from wakeful.commands.models import Command, CommandHeader, CompleteActivity, FailActivity
from wakeful.commands.wire import decode_command, encode_command
from wakeful.events.payloads import json_payload
from wakeful.events.records import ActivityTask, Failure
from wakeful.processors.activities.definitions import Action
from wakeful.processors.activities.performing import perform
from wakeful.processors.activities.runner import Call, Runner
from wakeful.processors.stored_json import read_json

from .fake_endpoint import Endpoint, serving

DIGEST_KEY = b"digest key"


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    with serving() as one:
        yield one


def task_of(action: Action) -> ActivityTask:
    activity = action.activity
    return ActivityTask(
        tenant="acme",
        session_id="s1",
        activity_id="1.1",
        attempt=1,
        name=activity.name,
        queue=activity.queue,
        contract=activity.contract.word,
        arguments=json_payload(action.arguments, DIGEST_KEY),
        idempotency_key="acme/s1/1/1",
        start_to_close_ms=activity.start_to_close_ms,
        deadline_ms=10**15,
        event_seq=1,
        actor="ann",
        on_behalf_of=None,
    )


async def attempt(action: Action) -> Answer | Failure:
    """One attempt as a worker makes it, and what a workflow would get: it has been in the log and back."""
    activity = action.activity
    runner = Runner({activity.name: activity}, worker_id="w1", digest_key=DIGEST_KEY)
    call = runner.prepare(task_of(action))
    assert isinstance(call, Call), call
    body = await perform(runner, call)
    header = CommandHeader("acme", "s1", "c", 0, "worker:w1", None, "worker", None)
    encoded = encode_command(Command(header, body))
    body = decode_command(encoded.value, [("wakeful_fingerprint", encoded.fingerprint)]).body
    if isinstance(body, CompleteActivity):
        return read_json(activity.result_type, body.result.inline)
    assert isinstance(body, FailActivity)
    return body.failure


@pytest.fixture
def ask() -> Callable[..., Answer | Failure]:
    """Asks a model through the activity: the answer, or the failure as recorded."""

    def asked(model: Model, *messages: ChatMessage, timeout: str = "30s") -> Answer | Failure:
        chosen = list(messages) or [ChatMessage("user", "hello")]
        return asyncio.run(attempt(chat(model, timeout=timeout).call(chosen)))

    return asked
