"""Credentials on the worker as it runs: providers in loop and threads, late ones, hung ones, and what a stop leaves."""

import asyncio
import threading

import pytest

from wakeful import Access, Read, Write, activity, credentials
from wakeful.commands.models import CompleteActivity, FailActivity, ReturnActivity
from wakeful.processors.app import gather

from .conftest import DEADLINE_S, until

SECRET = "the secret of the bank"


class Bank:
    """Sync and async activities under a provider that may be either; `go_on` lets it answer."""

    def __init__(self):
        self.asked, self.paid, self.go_on, self.waits = [], [], threading.Event(), False
        self._lock = threading.Lock()

    def note(self, access):
        with self._lock:
            self.asked.append((access, threading.current_thread().name))

    def app(self, *, sync_provider):
        if sync_provider:

            @credentials
            def vault(access: Access) -> str:
                self.note(access)
                if self.waits:
                    self.go_on.wait(DEADLINE_S)
                return SECRET

        else:

            @credentials
            async def vault(access: Access) -> str:
                self.note(access)
                while self.waits and not self.go_on.is_set():  # noqa: ASYNC110 set by the test's thread
                    await asyncio.sleep(0.001)
                return SECRET

        def pay(name, given):
            assert given == SECRET
            with self._lock:
                self.paid.append((name, threading.current_thread().name))
            return name

        @activity(contract=Read())
        async def find(n: int, *, credentials: str) -> str:
            return pay("find", credentials)

        @activity(contract=Read())
        def find_sync(n: int, *, credentials: str) -> str:
            return pay("find_sync", credentials)

        @activity(contract=Write())
        async def wire(n: int, *, credentials: str) -> str:
            return pay("wire", credentials)

        @activity(contract=Write())
        def wire_sync(n: int, *, credentials: str) -> str:
            return pay("wire_sync", credentials)

        @activity(contract=Read())
        async def leaks(n: int, *, credentials: str) -> str:
            raise ValueError(f"refused: {credentials}")

        return gather([vault, find, find_sync, wire, wire_sync, leaks])


@pytest.fixture
def bank():
    made = Bank()
    yield made
    made.go_on.set()


def tasks(bench, name, count=1, **over):
    contract = "write_once" if name.startswith("wire") else "read"
    return [
        bench.task(name, {"n": n}, f"s{n + 1}", contract=contract, **over) for n in range(count)
    ]


def bodies(bench, kind):
    return [c.body for c in bench.results() if isinstance(c.body, kind)]


PROVIDER = pytest.mark.parametrize("sync_provider", [False, True])
NAMES = pytest.mark.parametrize("name", ["find", "find_sync", "wire", "wire_sync"])


@PROVIDER
@NAMES
def test_each_call_gets_them_in_loop_and_threads(guarded, run, bank, name, sync_provider):
    running = run(bank.app(sync_provider=sync_provider), sync_concurrency=2, concurrency=10)
    guarded.put(*tasks(guarded, name, 30))
    until(lambda: len(guarded.results()) == 30, "all results")
    assert len(bodies(guarded, CompleteActivity)) == len(bank.asked) == len(bank.paid) == 30
    asked_in = {thread.startswith("activity-") for _, thread in bank.asked}
    paid_in = {thread.startswith("activity-") for _, thread in bank.paid}
    assert (asked_in, paid_in) == ({sync_provider}, {name.endswith("_sync")})
    assert {access.writes for access, _ in bank.asked} == {name.startswith("wire")}
    assert running.stop() is None


@PROVIDER
def test_nothing_that_is_written_holds_them(guarded, run, bank, sync_provider):
    run(bank.app(sync_provider=sync_provider))
    guarded.put(
        *tasks(guarded, "find"),
        *tasks(guarded, "leaks", session_id="s9", idempotency_key="acme/s9/1/1"),
    )
    until(lambda: len(guarded.results()) == 2, "both results")
    (failed,) = bodies(guarded, FailActivity)
    assert failed.failure.message == "refused: ***"
    topics = [spec.name for spec in guarded.topics.specs(["default", "other"], 4)]
    written = [record for topic in topics for record in guarded.log.dump(topic)]
    assert written
    assert not any(SECRET.encode() in (record.value or b"") for record in written)


@NAMES
def test_a_late_async_provider_has_given_none(guarded, run, bank, name):
    bank.waits = True
    running = run(bank.app(sync_provider=False))
    guarded.put(*tasks(guarded, name, start_to_close_ms=20))
    until(lambda: guarded.results(), "its failure")
    (body,) = bodies(guarded, FailActivity)
    assert body.failure.kind == "no_credentials"
    assert "provider 'vault'" in body.failure.message
    assert "within 20 ms" in body.failure.message
    assert (bank.paid, running.stop()) == ([], None)


@NAMES
def test_a_hung_sync_provider_ends_the_process_and_has_given_none(guarded, run, bank, name):
    bank.waits = True
    running = run(bank.app(sync_provider=True), drain_ms=50)
    guarded.put(*tasks(guarded, name, start_to_close_ms=50))
    until(lambda: running.ended, "the process ends")
    (body,) = bodies(guarded, FailActivity)
    assert body.failure.kind == "no_credentials"
    assert "cannot be stopped" in body.failure.message
    assert "go_on.wait" in body.failure.detail
    bank.go_on.set()
    assert running.stop() is not None
    assert bank.paid == []


@PROVIDER
@pytest.mark.parametrize("name", ["wire", "wire_sync"])
def test_a_stop_while_the_provider_is_asked_gives_back_what_has_not_begun(
    guarded, run, bank, name, sync_provider
):
    bank.waits = True
    running = run(bank.app(sync_provider=sync_provider), drain_ms=50)
    guarded.put(*tasks(guarded, name))
    until(lambda: bank.asked, "the provider is asked")
    assert running.stop() is None
    assert len(bodies(guarded, ReturnActivity)) == len(guarded.results()) == 1
    bank.go_on.set()
    assert bank.paid == []


@PROVIDER
def test_no_more_that_run_once_are_taken_than_there_are_threads_for(
    guarded, run, bank, sync_provider
):
    bank.waits = True
    running = run(bank.app(sync_provider=sync_provider), sync_concurrency=2, concurrency=50)
    guarded.put(*tasks(guarded, "wire_sync", 20), partition=0)
    until(lambda: len(bank.asked) >= 2, "it is asked for as many as can start")
    assert running.lane.core.unbegun_once <= 3
    bank.go_on.set()
    until(lambda: len(guarded.results()) == 20, "all")
    assert len(bank.paid) == 20
