"""Leases on a real server, and on one that is absent, empty, frozen or no Redis at all."""

import os
import random
import signal
import socket
import threading
from collections import Counter
from contextlib import suppress

import pytest
import redis
from structlog.testing import capture_logs

from wakeful.deploy.stack.native_valkey import NativeValkey
from wakeful.deploy.stack.provider import Place
from wakeful.processors.activities import redis_leases as module
from wakeful.processors.activities.redis_leases import RedisLeases

from .conftest import DEADLINE_S, until


class Clock:
    """Monotonic seconds, moved by hand."""

    now = 100.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def connect(namespace, clock):
    made = []

    def to(url, worker_id="w1"):
        made.append(RedisLeases(url, namespace=namespace, worker_id=worker_id, monotonic=clock))
        return made[-1]

    yield to
    for leases in made:
        leases.close()


@pytest.fixture
def patient(monkeypatch):
    """A busy machine is not a dead server, so calls may take longer here."""
    monkeypatch.setattr(module, "CALL_MS", 2_000)


@pytest.fixture
def server(endpoints, patient):
    """The stack's server."""
    return endpoints.redis


@pytest.fixture
def own_server(tmp_path):
    """A server of this test's own, and its process: the stack's belongs to other tests, too."""
    place = Place(tmp_path, {"WAKEFUL_STACK": "native"}, "unused", lambda _: None)
    provider = NativeValkey()
    record = provider.start(place, None)
    yield record
    provider.stop(record)
    provider.remove(record)


def bounded(call):
    """What it gives, where it comes back by itself."""
    answers = []
    caller = threading.Thread(target=lambda: answers.append(call()), daemon=True)
    caller.start()
    caller.join(DEADLINE_S)
    assert answers, f"not back within {DEADLINE_S} s"
    return answers[0]


def test_others_see_a_lease_until_it_is_released(server, connect):
    mine, others = connect(server), connect(server, "w2")
    mine.hold({"a#1": 60_000, "b#1": 60_000})
    assert sorted(others.held(["a#1", "b#1", "c#1"])) == ["a#1", "b#1"]
    assert not mine.held(["a#1"])
    others.release(["a#1"])
    mine.release(["b#1"])
    assert set(others.held(["a#1", "b#1"])) == {"a#1"}, "only its holder releases it"


def test_a_lease_ends_by_itself(server, connect, namespace):
    mine, others = connect(server), connect(server, "w2")
    mine.hold({"a#1": 60_000})
    with redis.Redis.from_url(server, decode_responses=True) as client:
        key = f"{namespace}:lease:a#1"
        assert client.get(key) == "w1"
        assert 0 < client.pttl(key) <= 60_000
        client.pexpire(key, 1)
        until(lambda: not client.exists(key), "its time is over")
    assert not others.held(["a#1"])


@pytest.mark.slow
@pytest.mark.chaos
def test_a_flushed_server_holds_nothing_and_goes_on(own_server, patient, connect):
    server = own_server.address
    mine, others = connect(server), connect(server, "w2")
    mine.hold({"a#1": 60_000})
    with redis.Redis.from_url(server) as client:
        client.flushall()
    assert not others.held(["a#1"])
    mine.release(["a#1"])
    mine.hold({"b#1": 60_000})
    assert set(others.held(["b#1"])) == {"b#1"}


@pytest.mark.slow
@pytest.mark.chaos
def test_a_frozen_server_costs_one_short_wait_and_is_asked_again_later(
    own_server, connect, clock, monkeypatch
):
    leases = connect(own_server.address, "w2")
    leases.held(["a#1"])
    os.kill(own_server.pid, signal.SIGSTOP)
    try:
        clock.now += 10
        assert not bounded(lambda: leases.held(["a#1"]))
        asked = []
        with monkeypatch.context() as patched:
            patched.setattr(leases._threads, "run", asked.append)
            for _ in range(1_000):
                leases.hold({"a#1": 1_000})
                assert not leases.held(["a#1"])
        assert asked == [], "it is left alone"
    finally:
        os.kill(own_server.pid, signal.SIGCONT)
    with redis.Redis.from_url(own_server.address) as client:
        client.ping()
    other = connect(own_server.address)

    def seen():
        clock.now += 6  # past the rest after a failure
        other.hold({"a#1": 60_000})
        return set(leases.held(["a#1"])) == {"a#1"}

    until(seen, "it is asked again")


@pytest.mark.parametrize("url", ["redis://127.0.0.1:1/0", "redis://nowhere.invalid/0"])
def test_an_absent_server_holds_nothing(connect, url):
    leases = connect(url)
    assert not bounded(lambda: leases.held(["a#1"]))
    bounded(lambda: leases.hold({"a#1": 1_000}))
    bounded(lambda: leases.release(["a#1"]))


def test_a_port_where_something_else_answers_holds_nothing(connect):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(5)

        def answer():
            connection, _ = listener.accept()
            with connection:
                connection.recv(1_000)
                connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        stranger = threading.Thread(target=answer, daemon=True)
        stranger.start()
        leases = connect(f"redis://127.0.0.1:{listener.getsockname()[1]}/0")
        assert not bounded(lambda: leases.held(["a#1"]))
        stranger.join(5)


def test_a_call_that_never_ends_holds_up_nobody_and_no_other_call(connect, clock):
    leases = connect("redis://127.0.0.1:1/0")
    free = threading.Event()
    with capture_logs() as told:
        assert bounded(lambda: leases._ask(free.wait, "unknown")) == "unknown"
    assert [line["why"] for line in told] == ["no answer within 50 ms"]
    clock.now += 10
    assert bounded(lambda: leases._ask(lambda: "asked", "unknown")) == "unknown", "still busy"
    free.set()
    until(lambda: not leases._busy, "the call is over")
    assert leases._ask(lambda: "asked", "unknown") == "asked"


def test_a_failure_tells_neither_url_nor_password(connect):
    leases = connect("redis://:secret@127.0.0.1:1/0")
    with capture_logs() as told:
        leases.held(["a#1"])
    assert len(told) == 1
    assert "secret" not in repr(told)


def test_a_worker_without_its_redis_does_all_its_work(guarded, run, connect):
    sessions = [f"s{n}" for n in range(20)]
    guarded.put(*[guarded.task("find_order", {"order_id": "A"}, session) for session in sessions])
    run(leases=connect("redis://127.0.0.1:1/0"))
    until(lambda: len(guarded.results()) == 20, "all results of tasks that may have run before")


class Slow:
    """A server behind a line on which some answers take longer than anybody waits; a thread per connection."""

    def __init__(self, address, late_s):
        self._to, self._late_s = address, late_s
        self.server = socket.create_server(("127.0.0.1", 0))
        self.url = f"redis://127.0.0.1:{self.server.getsockname()[1]}/0"
        self._dice = random.Random(27)
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                near, _ = self.server.accept()
            except OSError:
                return
            far = socket.create_connection(self._to)
            threading.Thread(target=self._pass_on, args=(near, far), daemon=True).start()
            threading.Thread(target=self._answer, args=(far, near), daemon=True).start()

    def _pass_on(self, near, far):
        with suppress(OSError):
            while data := near.recv(65_536):
                far.sendall(data)
            far.shutdown(socket.SHUT_RDWR)

    def _answer(self, far, near):
        with suppress(OSError), near, far:
            while data := far.recv(65_536):
                if self._dice.random() < 0.05:
                    threading.Event().wait(self._late_s)
                near.sendall(data)


@pytest.mark.case("L27")
@pytest.mark.slow
def test_of_a_thousand_calls_that_nobody_waited_for_none_answers_anothers_question(
    endpoints, connect, clock, monkeypatch
):
    """Each tenant's attempts have leases of another holder's that the other tenant's have not: an answer that crosses shows."""
    with redis.Redis.from_url(endpoints.redis) as client:
        where = client.connection_pool.connection_kwargs
    slow = Slow((where["host"], where["port"]), late_s=0.008)
    monkeypatch.setattr(module, "CALL_MS", 2_000)
    other = connect(endpoints.redis, "w2")
    held = {tenant: f"{tenant}/s1/1/1#1" for tenant in ("acme", "beta")}
    free = {tenant: f"{tenant}/s1/1/2#1" for tenant in held}
    other.hold(dict.fromkeys(held.values(), 60_000))
    monkeypatch.setattr(module, "CALL_MS", 5)
    asking = connect(slow.url, "w1")
    answered = Counter()
    for number in range(1_000):
        until(lambda: not asking._busy, "the answer that nobody waited for has come")
        clock.now += 6  # past the rest after a failure
        tenant = ("acme", "beta")[number % 2]
        found = set(asking.held([held[tenant], free[tenant]]))
        assert found in (set(), {held[tenant]}), f"call {number} for {tenant}"
        answered[bool(found)] += 1
    slow.server.close()
    assert min(answered[True], answered[False]) >= 10
