"""The streams of the console's pages without a browser: whose they are, when they end, and how many there may be."""

import asyncio
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager

import httpx
import pytest

from wakeful.deploy.gateway.api_keys import changing, revoked

from .conftest import whole
from .running import Running, Visitor


def test_a_stream_is_for_whoever_is_signed_in_on_a_page_of_this_site(desk: Running) -> None:
    desk.ask("payments", "live-6", "x")
    desk.until(lambda views: views.session("live-6"), "a session")
    path = "/console/stream/sessions/live-6"
    with httpx.Client(base_url=desk.url, timeout=30.0) as nobody:
        assert nobody.get(path).status_code == 303
    visitor = desk.visitor("vic", "viewer")
    for away in ("cross-site", "same-site"):
        foreign = visitor.http.get(path, headers={"Sec-Fetch-Site": away})
        assert foreign.status_code == 403
    stranger = desk.visitor("eve", "operator", tenant="other")
    assert stranger.http.get(path).status_code == 404
    with opened(visitor, path) as lines:
        told = next(json.loads(line[6:]) for line in lines if line.startswith("data: "))
        assert told == {"at": "seq:1"}  # that it moved, and nothing of what it says


@whole
@pytest.mark.parametrize("how", ["revoked", "signed out"])
def test_a_stream_ends_with_its_sign_in(desk: Running, how: str) -> None:
    actor = f"leaves-{how[:2]}"
    visitor = desk.visitor(actor, "viewer")
    other_tab = Visitor(desk.url, desk.key(actor, "viewer"))
    desk.visitors.append(other_tab)
    other_tab.http.cookies = visitor.http.cookies
    with opened(other_tab, "/console/stream/approvals") as lines:
        if how == "revoked":
            with changing(desk.settings.home / "api_keys.json") as keys:
                keys[:] = [revoked(key) if key.actor == actor else key for key in keys]
        else:
            visitor.post("sign-out", "")
        assert any("the sign-in is over" in line for line in lines)  # within a heartbeat


@contextmanager
def opened(visitor: Visitor, path: str) -> Iterator[Iterator[str]]:
    with visitor.http.stream("GET", path) as answer:
        assert answer.status_code == 200, answer.read()
        yield answer.iter_lines()


@whole
def test_five_hundred_pages_are_open_at_once_and_all_move(desk: Running) -> None:
    desk.ask("payments", "live-7", "x")
    row = desk.until(lambda views: views.session("live-7"), "a session")[0]
    visitor = desk.visitor("vic", "viewer")
    path = f"/console/stream/sessions/live-7?after={row['seq']}"
    opened: asyncio.Queue[None] = asyncio.Queue()

    async def listen(http: httpx.AsyncClient) -> list[str]:
        async with http.stream("GET", path) as answer:
            assert answer.status_code == 200
            opened.put_nowait(None)
            return [line async for line in answer.aiter_lines() if line.startswith("event:")]

    def act() -> None:
        began = time.monotonic()
        assert visitor.get("sessions/live-7").status_code == 200
        assert time.monotonic() - began < 5
        with desk.client("sue") as client:
            client.cancel("live-7", "enough")

    async def main() -> list[list[str]]:
        limits = httpx.Limits(max_connections=None)
        async with (
            asyncio.timeout(120),
            httpx.AsyncClient(
                base_url=desk.url, cookies=visitor.http.cookies, limits=limits, timeout=120
            ) as http,
        ):
            listening = [asyncio.ensure_future(listen(http)) for _ in range(500)]
            for _ in listening:
                await opened.get()
            await asyncio.to_thread(act)
            return await asyncio.gather(*listening)

    heard = asyncio.run(main())
    assert all("event: moved" in lines and lines[-1] == "event: end" for lines in heard)
