"""Tokens on a real server, and on one that is absent, empty or frozen: who speaks never waits, and nobody reads another's."""

import os
import signal
import time
from contextlib import contextmanager

import pytest
import redis
from structlog.testing import capture_logs

from wakeful.deploy.stack.native_valkey import NativeValkey
from wakeful.deploy.stack.provider import Place
from wakeful.events.errors import InvalidKey
from wakeful.processors.activities import redis_tokens as module
from wakeful.processors.activities.redis_tokens import (
    FIRST,
    KEPT_MS,
    TOKENS_MAX,
    WAITING_MAX,
    RedisTokens,
    TokenReader,
)
from wakeful.processors.activities.tokens import TEXT_MAX, Speaker, tokens_key

from .conftest import until

SPEAKER = Speaker("acme", "s1", "1.1", 1, "run-a")


@pytest.fixture
def connect(namespace):
    made = []

    def to(url):
        made.append(RedisTokens(url, namespace=namespace, monotonic=time.monotonic))
        return made[-1]

    yield to
    for tokens in made:
        tokens.close()


@pytest.fixture
def own_server(tmp_path):
    """A server of this test's own, and its process: the stack's belongs to other tests, too."""
    place = Place(tmp_path, {"WAKEFUL_STACK": "native"}, "unused", lambda _: None)
    provider = NativeValkey()
    record = provider.start(place, None)
    yield record
    provider.stop(record)
    provider.remove(record)


@contextmanager
def reading(url, namespace):
    reader = TokenReader(url, namespace=namespace, block_ms=50)
    try:
        yield reader
    finally:
        reader.close()


def all_of(url, namespace, tenant="acme", session="s1"):
    with reading(url, namespace) as reader:
        found, at = [], FIRST
        key = reader.key(tenant, session)
        while answer := reader.read({key: at}):
            assert {one[0] for one in answer} == {key}
            at = answer[-1][1]
            found += [token for _, _, token in answer]
        return found


def test_tokens_come_out_as_they_went_in(endpoints, connect, namespace):
    tokens = connect(endpoints.redis)
    for text in ("We ", "will \0 see: \N{GRINNING FACE}\n"):
        tokens.offer(SPEAKER, text)
        until(lambda: not tokens._pending, "it is taken")
    tokens.close()
    found = all_of(endpoints.redis, namespace)
    assert "".join(one.text for one in found) == "We will \0 see: \N{GRINNING FACE}\n"
    assert [one.index for one in found] == list(range(len(found)))
    assert {(one.activity_id, one.attempt, one.run) for one in found} == {("1.1", 1, "run-a")}


def test_pieces_that_come_fast_are_one_token_and_long_ones_are_several(
    endpoints, connect, namespace
):
    tokens = connect(endpoints.redis)
    for _ in range(2_000):
        tokens.offer(SPEAKER, "x")
    tokens.offer(SPEAKER, "y" * TEXT_MAX * 3)
    tokens.close()
    found = all_of(endpoints.redis, namespace)
    assert "".join(one.text for one in found) == "x" * 2_000 + "y" * TEXT_MAX * 3
    assert len(found) < 100
    assert all(len(one.text) <= TEXT_MAX for one in found)


def test_a_stream_is_bounded_in_length_and_time(endpoints, connect, namespace):
    tokens = connect(endpoints.redis)
    speakers = [Speaker("acme", "s1", "1.1", 1, f"run-{n}") for n in range(100)]
    for n in range(TOKENS_MAX // 50):
        for one in speakers:
            tokens.offer(one, f"{n}")
        until(lambda: not tokens._pending, "they are taken")
    tokens.close()
    key = tokens_key(namespace, "acme", "s1")
    with redis.Redis.from_url(endpoints.redis) as client:
        assert TOKENS_MAX <= client.xlen(key) <= TOKENS_MAX + 200
        assert KEPT_MS - 60_000 < client.pttl(key) <= KEPT_MS


def test_what_waits_is_bounded_and_a_gap_says_that_something_is_missing(
    endpoints, connect, namespace, monkeypatch
):
    monkeypatch.setattr(module, "GATHER_S", 0.3)
    tokens = connect(endpoints.redis)
    tokens.offer(SPEAKER, "first")
    until(lambda: not tokens._pending, "it is taken")
    for _ in range(100):
        tokens.offer(SPEAKER, "x" * TEXT_MAX)
    assert len(tokens._pending[SPEAKER]) <= WAITING_MAX
    tokens.close()
    found = all_of(endpoints.redis, namespace)
    assert len(found) == 1 + WAITING_MAX // TEXT_MAX
    indexes = [one.index for one in found]
    assert indexes[1] - indexes[0] > 1


def test_a_session_of_another_tenant_has_another_stream_and_no_name_leads_there(
    endpoints, connect, namespace
):
    tokens = connect(endpoints.redis)
    tokens.offer(Speaker("other", "s1", "1.1", 1, "r"), "theirs")
    tokens.offer(SPEAKER, "ours")
    tokens.close()
    assert [one.text for one in all_of(endpoints.redis, namespace)] == ["ours"]
    with reading(endpoints.redis, namespace) as reader:
        for tenant, session in (
            ("acme/../other", "s1"),
            ("acme", "../other/s1"),
            ("", "other/s1"),
            ("acme", ""),
            ("acme", "s1\n"),
            ("acme", "*"),
        ):
            with pytest.raises(InvalidKey):
                reader.key(tenant, session)


def test_what_is_no_token_is_passed_over(endpoints, namespace):
    key = tokens_key(namespace, "acme", "s1")
    with redis.Redis.from_url(endpoints.redis) as client:
        client.xadd(key, {"text": "no more than this"})
        client.xadd(key, {"activity": b"\xff", "attempt": "x", "run": "", "index": 0, "text": ""})
    with reading(endpoints.redis, namespace) as reader:
        found = reader.read({key: FIRST})
        assert [token for _, _, token in found] == [None, None]
        assert not reader.read({key: found[-1][1]})


@pytest.mark.parametrize("url", ["redis://:secret@127.0.0.1:1/0", "redis://nowhere.invalid/0"])
def test_an_absent_server_costs_nothing_and_is_left_alone(connect, url, monkeypatch):
    monkeypatch.setattr(module, "REST_S", 60.0)
    tokens = connect(url)
    with capture_logs() as told:
        for _ in range(1_000):
            tokens.offer(SPEAKER, "x")
        until(lambda: told, "it is noticed")
        began = time.monotonic()
        for n in range(10_000):
            tokens.offer(Speaker("acme", f"s{n}", "1.1", 1, "r"), "x" * 100)
        assert time.monotonic() - began < 2.0
        assert not tokens._pending
    assert "secret" not in repr(told)
    with reading(url, "t") as reader, pytest.raises(OSError, match=r"^\w+$"):
        reader.read({reader.key("acme", "s1"): FIRST})


@pytest.mark.slow
@pytest.mark.chaos
def test_a_frozen_server_holds_up_nobody_and_a_flushed_one_goes_on(
    own_server, connect, namespace, monkeypatch
):
    monkeypatch.setattr(module, "REST_S", 0.1)
    tokens = connect(own_server.address)
    tokens.offer(SPEAKER, "before ")
    until(lambda: all_of(own_server.address, namespace), "it is there")
    os.kill(own_server.pid, signal.SIGSTOP)
    try:
        began = time.monotonic()
        for n in range(5_000):
            tokens.offer(Speaker("acme", f"s{n}", "1.1", 1, "r"), "x" * 100)
        assert time.monotonic() - began < 1.0
    finally:
        os.kill(own_server.pid, signal.SIGCONT)
    with redis.Redis.from_url(own_server.address) as client:
        client.flushall()

    def is_heard():
        tokens.offer(SPEAKER, "after")
        return any(one.text.startswith("after") for one in all_of(own_server.address, namespace))

    until(is_heard, "it goes on")
