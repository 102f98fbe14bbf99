"""Streams over a log in memory that commits, aborts and fails while they run: each event once, and everything freed."""

import asyncio
import random
import threading
import time
from contextlib import suppress

import pytest
from tests.deploy.gateway.log_rig import (
    DEADLINE_S,
    TOPICS,
    Client,
    SharedLog,
    Teller,
    has,
    nothing,
    running,
    stream_of,
    until,
)

from wakeful.deploy.gateway.live import hub as hub_module
from wakeful.deploy.gateway.live import streams
from wakeful.deploy.gateway.live.live import READERS_MAX, STREAMS_OF_TENANT_MAX, Live
from wakeful.deploy.gateway.live.of_tenant import TenantStream
from wakeful.deploy.gateway.live.subscriptions import EVENTS_MAX, Subscription, Wanted
from wakeful.deploy.gateway.problems import Problem
from wakeful.deploy.telling.stretches import Readers
from wakeful.events import records as r
from wakeful.projections.tokens import positions_of


@pytest.fixture
def shared():
    return SharedLog()


@pytest.fixture
def teller(shared):
    return Teller(shared)


@pytest.fixture
def live(shared):
    readers = Readers(shared)
    one = Live(shared, TOPICS, readers)
    yield one
    one.close()
    readers.close()


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(hub_module, "PAUSES_S", (0.001,))
    monkeypatch.setattr(streams, "AGAIN_S", 0.001)


def test_every_event_comes_once_wherever_a_stream_begins_between_commits(shared, teller, live):
    rng = random.Random(7)
    sessions = [("acme", f"s{n}") for n in range(3)]
    stopped = threading.Event()

    def tell():
        while not stopped.is_set():
            for one in sessions:
                teller.say(one, rng.randint(0, 3))
            teller.commit()
            time.sleep(0.001)
            shared.faults = rng.choice((0, 0, 0, 2))

    async def listen(session):
        client = Client()
        for _ in range(12):
            stream = stream_of(live, session, after=int(client.last or 0))
            with running(stream, client) as task:
                await until(has(client, len(client.events) + rng.randint(1, 9)))
            with suppress(asyncio.CancelledError):
                await task
        return client

    async def main():
        return await asyncio.gather(*(listen(one) for one in sessions * 3))

    thread = threading.Thread(target=tell)
    thread.start()
    try:
        clients = asyncio.run(main())
    finally:
        stopped.set()
        thread.join()
    for client in clients:
        assert client.seqs == list(range(1, len(client.seqs) + 1))
        assert len(client.seqs) > 10
    assert live.streams == 0


def test_a_tenants_stream_goes_on_from_its_position_without_gap_or_repeat(shared, teller, live):
    rng = random.Random(8)
    stopped = threading.Event()

    def tell():
        while not stopped.is_set():
            for n in range(4):
                teller.say((rng.choice(("acme", "other")), f"s{n}"), rng.randint(0, 2))
            teller.commit()
            time.sleep(0.001)
            shared.faults = rng.choice((0, 0, 0, 2))

    async def main():
        assert live._hub.is_ready(DEADLINE_S)
        client, after = Client(), None
        for _ in range(15):
            stream = TenantStream(live, Wanted("acme"), after=after, check=nothing)
            with running(stream, client) as task:
                await until(has(client, len(client.events) + rng.randint(1, 20)))
            with suppress(asyncio.CancelledError):
                await task
            after = positions_of(TOPICS.events, client.last)
        return client

    thread = threading.Thread(target=tell)
    thread.start()
    try:
        client = asyncio.run(main())
    finally:
        stopped.set()
        thread.join()
    by_session = {}
    for _, told in client.events:
        assert told["tenant"] == "acme"
        by_session.setdefault(told["session_id"], []).append(told["seq"])
    assert len(by_session) == 4
    for seqs in by_session.values():
        assert seqs == list(range(seqs[0], seqs[0] + len(seqs)))


def test_a_slow_client_is_told_that_it_lags_and_slows_nobody(teller, live):
    count = EVENTS_MAX + 50

    async def main():
        slow, quick = Client(), Client()
        blocked, goes_on = asyncio.Event(), asyncio.Event()

        async def send(data):
            await slow.send(data)
            if slow.events:
                blocked.set()
                await goes_on.wait()

        first = stream_of(live)
        task = asyncio.ensure_future(first.run(send))
        with running(stream_of(live), quick):
            await until(lambda: live.streams == 2)
            teller.say(("acme", "s1"))
            teller.commit()
            await blocked.wait()
            for n in range(count // 50):
                teller.say(("acme", "s1"), 50)
                teller.commit()
                await until(has(quick, 1 + 50 * (n + 1)))
            assert len(slow.events) == 1
            goes_on.set()
            await asyncio.wait_for(task, DEADLINE_S)
            assert slow.told[-1][0] == "lagging"
            assert len(slow.events) == 1
            with running(stream_of(live, after=int(slow.last)), slow):
                await until(lambda: len(slow.events) == 1 + count)
        return slow

    assert asyncio.run(main()).seqs == list(range(1, count + 2))


def test_a_subscription_keeps_no_more_than_its_bound(teller, live):
    async def main():
        one = Subscription(Wanted("acme", "s1"))
        assert live._hub.is_ready(DEADLINE_S)
        assert live.enter(one)
        teller.say(("acme", "s1"), 3 * EVENTS_MAX)
        teller.commit()
        await until(lambda: one.lagging)
        assert one.take() == ([], [])
        assert not live._hub._by_session
        live.leave(one)

    asyncio.run(main())


def test_history_is_read_from_its_beginning_where_the_views_are_wrong_about_its_place(teller, live):
    teller.say(("acme", "s1"), 5)
    teller.commit()

    async def main():
        for after, seq in ((0, 5), (2, 5), (5, 5), (4, 2)):
            client = Client()
            stream = stream_of(live, after=after, seq=seq, stretches=[(9, 9)], status="Completed")
            await asyncio.wait_for(stream.run(client.send), DEADLINE_S)
            assert client.seqs == list(range(after + 1, 6))
            assert client.told[-1][0] == "end"

    asyncio.run(main())


def test_while_the_log_does_not_answer_a_stream_stays_open_and_misses_nothing(
    shared, teller, live, monkeypatch
):
    monkeypatch.setattr(streams, "HEARTBEAT_S", 0.02)

    async def main():
        client = Client()
        with running(stream_of(live), client) as task:
            await until(lambda: live.streams == 1)
            shared.faults = 10**9
            teller.say(("acme", "s1"), 3)
            teller.commit()
            frames = client.frames
            await until(lambda: client.frames > frames + 3)
            assert not client.events
            shared.faults = 0
            await until(lambda: len(client.events) == 3)
            assert not task.done()
        return client

    assert asyncio.run(main()).seqs == [1, 2, 3]


def test_records_that_were_deleted_before_they_were_shown_end_the_stream_as_lagging(
    shared, teller, live
):
    async def main():
        client = Client()
        task = asyncio.ensure_future(stream_of(live).run(client.send))
        await until(lambda: live.streams == 1)
        teller.say(("acme", "s1"))
        teller.commit()
        await until(has(client, 1))
        shared.gone = True
        await asyncio.wait_for(task, DEADLINE_S)
        assert client.told[-1][0] == "lagging"
        with running(stream_of(live, after=int(client.last)), client):
            teller.say(("acme", "s1"))
            teller.commit()
            await until(has(client, 2))

    asyncio.run(main())


def test_whoever_may_not_listen_any_more_is_told_and_gets_nothing_more(teller, live, monkeypatch):
    monkeypatch.setattr(streams, "HEARTBEAT_S", 0.02)
    revoked = threading.Event()

    def check():
        if revoked.is_set():
            raise Problem(401, "unauthenticated", "the key is revoked")

    async def main():
        client = Client()
        task = asyncio.ensure_future(stream_of(live, check=check).run(client.send))
        await until(lambda: client.frames > 3)
        revoked.set()
        await asyncio.wait_for(task, DEADLINE_S)
        assert client.told == [
            (
                "problem",
                {"type": "urn:wakeful:problem:unauthenticated", "detail": "the key is revoked"},
            )
        ]

    asyncio.run(main())
    assert live.streams == 0


def test_the_end_of_the_process_ends_all_streams_at_once_and_lets_none_begin(live):
    async def main():
        client = Client()
        task = asyncio.ensure_future(stream_of(live).run(client.send))
        await until(lambda: live.streams == 1)
        live.end()
        await asyncio.wait_for(task, 1.0)
        assert client.told == [("closing", {})]
        with pytest.raises(Problem) as problem:
            live.check("acme")
        assert problem.value.status == 503

    asyncio.run(main())


def test_a_client_that_is_gone_leaves_nothing_behind(shared, teller, live):
    async def main():
        assert live._hub.is_ready(DEADLINE_S)
        for n in range(50):
            client = Client()
            with running(stream_of(live, ("acme", f"s{n}")), client) as task:
                await asyncio.sleep(0.001 * (n % 5))
            with suppress(asyncio.CancelledError):
                await task
        assert live.streams == 0
        assert not live._hub._by_session
        assert not live._of_tenant
        await until(lambda: shared.readers <= 1 + READERS_MAX)

    asyncio.run(main())
    live.close()
    live.readers.close()
    assert shared.readers == 0
    assert not [one.name for one in threading.enumerate() if one.name == "live"]


def test_one_tenant_cannot_take_all_streams(live):
    async def main():
        assert live._hub.is_ready(DEADLINE_S)
        for n in range(STREAMS_OF_TENANT_MAX):
            live.enter(Subscription(Wanted("acme", f"s{n}")))
        with pytest.raises(Problem) as problem:
            live.check("acme")
        assert problem.value.reason == "too_many_streams"
        live.check("other")

    asyncio.run(main())


def test_a_session_that_ends_sends_what_came_with_its_end(teller, live):
    teller.add(("acme", "s1"), r.SessionOpened("desk"))
    teller.add(("acme", "s1"), r.CancellationRequested("enough"))
    teller.commit()

    async def main():
        client = Client()
        task = asyncio.ensure_future(stream_of(live).run(client.send))
        await until(lambda: len(client.events) == 2)
        teller.add(("acme", "s1"), r.SessionCancelled((), (), ()))
        teller.commit()
        teller.add(("acme", "s1"), r.CommandRefused("SendMessage", "ended", "", ""))
        teller.commit()
        await asyncio.wait_for(task, DEADLINE_S)
        return client

    client = asyncio.run(main())
    assert client.seqs == [1, 2, 3, 4]
    assert client.told == [("end", {"status": "Cancelled", "seq": 4})]
