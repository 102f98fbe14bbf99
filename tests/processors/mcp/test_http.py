"""Tools of a server over streamable HTTP: called with the headers that the worker asks for, and again after a restart."""

import asyncio
import importlib.util
import socket
import threading
from pathlib import Path

import pytest
import uvicorn

from wakeful.deploy.exits import Stopped
from wakeful.deploy.mcp.describing import describe
from wakeful.mcp import Disconnected, McpServer, NotConnected
from wakeful.processors.mcp.manifest import write

from .conftest import LIMIT_S, call

EXAMPLE = Path(__file__).parents[3] / "examples" / "mcp_server.py"


class Served:
    """The server of the examples on a port of its own, for those who know the password."""

    def __init__(self, port=0):
        spec = importlib.util.spec_from_file_location("mcp_server", EXAMPLE)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        inner = module.shop.streamable_http_app()

        async def app(scope, receive, send):
            if scope["type"] == "http" and (b"authorization", b"Bearer 7") not in scope["headers"]:
                await send({"type": "http.response.start", "status": 401, "headers": []})
                await send({"type": "http.response.body", "body": b""})
                return
            await inner(scope, receive, send)

        self.socket = socket.socket()
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(("127.0.0.1", port))
        self.socket.listen()  # who comes before the server runs waits for it
        self.port = self.socket.getsockname()[1]
        config = uvicorn.Config(app, log_level="error", timeout_graceful_shutdown=1)
        self.server = uvicorn.Server(config)
        self.thread = threading.Thread(target=self.server.run, kwargs={"sockets": [self.socket]})
        self.thread.start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}/mcp"

    def stop(self):
        self.server.should_exit = True
        self.thread.join(LIMIT_S)
        assert not self.thread.is_alive()
        self.socket.close()


@pytest.fixture
def served():
    made = [Served()]
    yield made
    made[-1].stop()


def test_it_is_described_called_and_called_again_after_a_restart(served, tmp_path):
    headers = {"Authorization": "Bearer 7"}
    manifest = tmp_path / "desk.toml"
    found = describe("desk", command=(), url=served[0].url, headers=headers)
    manifest.write_text(write(found), encoding="utf-8")
    shop = McpServer("desk", manifest=manifest, url=served[0].url, headers=lambda: headers)

    async def work():
        first = await call(shop["find_order"], order_id="7")
        await asyncio.to_thread(served[0].stop)
        with pytest.raises((Disconnected, NotConnected)):
            await call(shop["find_order"], order_id="8")
        served.append(await asyncio.to_thread(Served, served[0].port))
        return first, await call(shop["find_order"], order_id="9")

    first, second = asyncio.run(work())
    assert (first["id"], second["id"]) == ("7", "9")


def test_who_is_not_let_in_is_told_so(served, tmp_path):
    with pytest.raises(Stopped, match="mcp server 'desk' cannot be asked"):
        describe("desk", command=(), url=served[0].url, headers={})
