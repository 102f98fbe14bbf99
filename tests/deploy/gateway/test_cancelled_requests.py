"""Whoever asks may go away at any moment: no connection to the views is lost, left in a transaction, or mixed up."""

import asyncio
import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import httpx
import psycopg
import pytest
import uvicorn

from wakeful.deploy.gateway.app import create_app
from wakeful.projections import pool
from wakeful.projections.pool import NOBODY
from wakeful.projections.queries import Queries

from .shelves import MINE, THEIRS, Shelves, secrets_of

REQUESTS = 200
LIMIT_S = 20.0

BUSY = """SELECT count(*) FROM pg_stat_activity
    WHERE datname = current_database() AND pid <> pg_backend_pid()
    AND (state LIKE 'idle in transaction%' OR state = 'active')"""


@pytest.mark.case("L24")
def test_of_two_hundred_requests_that_were_cancelled_none_keeps_or_spoils_a_connection(
    postgres_url, tmp_path, monkeypatch
):
    opened = []

    def counted(*given, **named):
        opened.append(Queries(*given, **named))
        return opened[-1]

    monkeypatch.setattr(pool, "Queries", counted)
    shelves = Shelves(tmp_path, postgres_url, "cancelled")
    lendable = shelves.services._pool._idle
    try:
        shelves.fill()
        with served(shelves) as url:
            assert 20 < asyncio.run(cancel_many(shelves, url)) < REQUESTS
        with psycopg.connect(postgres_url, autocommit=True) as watcher:
            until(lambda: watcher.execute(BUSY).fetchone() == (0,), "the end of all queries")
        until(lambda: lendable.qsize() == len(opened), "all connections to be lendable again")
        assert len(set(map(id, lendable.queue))) == len(opened)  # none is lent to two
        assert {(one.tenant, one.closed) for one in opened} == {(NOBODY, False)}
        for tenant, other in ((MINE, THEIRS), (THEIRS, MINE)):
            answer = shelves.get("sessions", tenant=tenant)
            assert answer.status_code == 200
            assert secrets_of(tenant) in answer.text
            assert secrets_of(other) not in answer.text
        assert lendable.qsize() == len(opened)
    finally:
        shelves.close()


def until(true, what):
    limit = time.monotonic() + LIMIT_S
    while not true():
        assert time.monotonic() < limit, f"waited {LIMIT_S:.0f} s for {what}"
        time.sleep(0.02)


@contextmanager
def served(shelves: Shelves) -> Iterator[str]:
    """The address of the gateway behind its server, as it is served to everybody."""
    config = uvicorn.Config(create_app(shelves.services), port=0, log_config=None, lifespan="off")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        until(lambda: server.started, "the server")
        host, port = server.servers[0].sockets[0].getsockname()[:2]
        yield f"http://{host}:{port}"
    finally:
        server.should_exit = True
        thread.join(LIMIT_S)


async def cancel_many(shelves: Shelves, url: str) -> int:
    """Asks for pages, and hangs up after a moment that chance chooses; gives how often nobody heard the answer."""
    chance = random.Random(24)
    async with httpx.AsyncClient(base_url=url, timeout=LIMIT_S) as client:
        tasks = []
        for number in range(REQUESTS):
            bearer = shelves.key((MINE, THEIRS)[number % 2], "viewer")
            path = f"/v1/{chance.choice(('sessions', 'ledger', 'approvals', 'overview'))}"
            asked = client.get(path, headers={"authorization": f"Bearer {bearer}"})
            tasks.append(asyncio.create_task(asked))
            await asyncio.sleep(chance.random() * 0.005)
            tasks[chance.randrange(max(0, number - 8), number + 1)].cancel()
        ends = await asyncio.gather(*tasks, return_exceptions=True)
    others = [e for e in ends if not isinstance(e, asyncio.CancelledError)]
    assert [e for e in others if not isinstance(e, httpx.Response)] == []
    assert {e.status_code for e in others} == {200}
    return len(ends) - len(others)
