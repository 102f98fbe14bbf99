"""A worker fetches large arguments before the call and stores large results before it reports them, off the loop."""

import asyncio
import threading
import time
from dataclasses import replace
from typing import Any

import pytest

from wakeful.commands.models import CompleteActivity, FailActivity
from wakeful.events import blobs as rules
from wakeful.events.blobs import MemoryBlobs, fetched, put_payload
from wakeful.events.errors import BlobDamaged, BlobMissing, BlobUnavailable
from wakeful.events.limits import PAYLOAD_MAX
from wakeful.events.payloads import load_json
from wakeful.events.retries import NOTHING_RAN, RETRIED_KINDS
from wakeful.processors.activities.contracts import Read
from wakeful.processors.activities.definitions import activity
from wakeful.processors.activities.driving import Driver
from wakeful.processors.activities.hung import Attempts
from wakeful.processors.activities.jobs import Job
from wakeful.processors.activities.performing import perform, perform_sync
from wakeful.processors.activities.runner import Call, Runner
from wakeful.processors.activities.running import Running

KEY = b"k"
BIG = PAYLOAD_MAX + 1


@activity(contract=Read())
async def double(text: str) -> str:
    """Twice as much."""
    return text * 2


@activity(contract=Read())
def double_sync(text: str) -> str:
    """The same in a thread."""
    return text * 2


class Away(MemoryBlobs):
    """A store that raises what it is told."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.error = error

    def put(self, ref: str, data: bytes) -> None:
        raise self.error

    def get(self, ref: str) -> bytes:
        raise self.error


def runner(blobs: Any) -> Runner:
    tools = {tool.name: tool for tool in (double, double_sync)}
    return Runner(tools, worker_id="w1", digest_key=KEY, blobs=blobs)


def task(bench: Any, blobs: Any, text: str = "x", name: str = "double") -> Any:
    made = bench.task(name, {})
    return replace(made, arguments=put_payload({"text": text}, made.tenant, KEY, blobs))


def test_a_large_result_is_in_the_store_before_it_is_reported(bench: Any) -> None:
    store = MemoryBlobs()
    one = runner(store)
    for name, run in (
        ("double", lambda call: asyncio.run(perform(one, call))),
        ("double_sync", lambda call: perform_sync(one, call)),
    ):
        call = one.prepare(task(bench, store, "x" * BIG, name))
        assert isinstance(call, Call)
        body = run(call)
        assert isinstance(body, CompleteActivity)
        assert (body.result.inline, body.result.ref in store.held) == (None, True)
        tenant = call.task.tenant
        assert load_json(fetched(body.result, tenant, KEY, store)) == "x" * 2 * BIG


def test_two_workers_that_put_the_same_report_the_same(bench: Any) -> None:
    store = MemoryBlobs()
    asked = task(bench, store, "x" * BIG)
    bodies = []
    for _ in range(2):
        one = runner(store)
        bodies.append(asyncio.run(perform(one, one.prepare(asked))))
    assert bodies[0] == bodies[1]
    assert len(store.held) == 2  # the arguments, and one result


def test_the_event_loop_goes_on_while_the_store_is_slow(bench: Any) -> None:
    threads: set[int] = set()

    class Slow(MemoryBlobs):
        def put(self, ref: str, data: bytes) -> None:
            threads.add(threading.get_ident())
            super().put(ref, data)

        def get(self, ref: str) -> bytes:
            threads.add(threading.get_ident())
            return super().get(ref)

    store = Slow()
    asked = task(bench, store, "x" * BIG)
    threads.clear()

    async def attend() -> Any:
        attempts, one = Attempts(), runner(store)
        driver = Driver(
            one,
            attempts,
            Running(one, send=lambda _beat: None, monotonic=time.monotonic),
            monotonic=time.monotonic,
            hit=lambda _name: None,
            is_over=lambda _job: False,
            in_thread=lambda _run: None,
            is_stopping=lambda: False,
        )
        return await driver.drive(attempts.begin(Job(asked, "c1", fresh=True)))

    assert isinstance(asyncio.run(attend()), CompleteActivity)
    assert threads
    assert threading.get_ident() not in threads


@pytest.mark.parametrize(
    "error", [BlobMissing("gone"), BlobDamaged("bad"), BlobUnavailable("away")]
)
def test_arguments_that_cannot_be_had_are_a_failure_of_their_own(
    bench: Any, error: Exception
) -> None:
    body = runner(Away(error)).prepare(task(bench, MemoryBlobs(), "x" * BIG))
    assert isinstance(body, FailActivity)
    assert (body.failure.kind, body.failure.type) == (
        "arguments_unavailable",
        type(error).__name__,
    )
    assert str(error) in body.failure.message
    assert body.failure.kind in NOTHING_RAN & RETRIED_KINDS


def test_a_result_that_could_not_be_stored_is_a_failure_after_the_call(bench: Any) -> None:
    one = runner(Away(BlobUnavailable("away")))
    body = asyncio.run(perform(one, one.prepare(task(bench, None, "x" * (PAYLOAD_MAX - 100)))))
    assert isinstance(body, FailActivity)
    assert (body.failure.kind, body.failure.type) == ("result_not_stored", "BlobUnavailable")
    assert body.failure.kind in RETRIED_KINDS - NOTHING_RAN


@pytest.mark.case("U12")
def test_without_a_store_a_large_result_fails_with_the_settings_name(bench: Any) -> None:
    one = runner(None)
    body = asyncio.run(perform(one, one.prepare(task(bench, None, "x" * (PAYLOAD_MAX - 100)))))
    assert body.failure.kind == "result_too_large"
    assert "WAKEFUL_BLOBS" in body.failure.message


@pytest.mark.case("U12")
def test_over_the_limit_of_blobs_a_result_fails_once_and_by_name(
    bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rules, "BLOB_MAX", BIG)
    store = MemoryBlobs()
    one = runner(store)
    body = asyncio.run(perform(one, one.prepare(task(bench, store, "x" * 200_000))))
    assert (body.failure.kind, store.held) == ("result_too_large", {})
    assert body.failure.kind not in RETRIED_KINDS


def test_another_tenants_arguments_are_not_fetched(bench: Any) -> None:
    store = MemoryBlobs()
    made = bench.task("double", {})
    theirs = put_payload({"text": "x" * BIG}, "globex", KEY, store)
    body = runner(store).prepare(replace(made, arguments=theirs))
    assert (body.failure.kind, body.failure.type) == ("arguments_unavailable", "BlobDamaged")
