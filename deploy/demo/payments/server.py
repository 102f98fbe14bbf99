"""The payment service over HTTP/1.1 on the loopback: framing, bounds, and what a fault does to a connection."""

from __future__ import annotations

import json
import os
import socket
import sys
from collections.abc import Mapping
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer
from threading import BoundedSemaphore
from time import sleep
from typing import Any

from .book import BookBroken
from .desk import Call, Desk, Refused

HOST = "127.0.0.1"
BODY_BYTES_MAX = 64 * 1024
CONNECTIONS_MAX = 1_000
"""Each has its thread; who comes when all are taken is hung up on."""

IDLE_LIMIT_S = 60.0
"""How long a connection may say nothing, between requests or within one."""

LINGER_READS_MAX = 64
LINGER_LIMIT_S = 1.0
"""What is read of a refused body, so that the client gets to read why: closing earlier would reset the connection."""


class PaymentServer(ThreadingHTTPServer):
    """Listens once it is made; `serve_forever` raises `SystemExit` when the process that started this one is gone."""

    daemon_threads = True  # a hanging request keeps nobody from ending
    request_queue_size = 256

    def __init__(self, port: int, desk: Desk) -> None:
        self.desk = desk
        self._places = BoundedSemaphore(CONNECTIONS_MAX)
        self._parent = os.getppid()
        super().__init__((HOST, port), _Handler)

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://{HOST}:{self.server_port}"

    def server_bind(self) -> None:
        """Binds without asking a name service for a name, which may take seconds."""
        TCPServer.server_bind(self)
        self.server_name, self.server_port = HOST, self.server_address[1]

    def service_actions(self) -> None:
        """Called between requests; for whoever started this process without a lifeline."""
        if os.getppid() != self._parent:
            raise SystemExit(0)

    def verify_request(self, request: Any, client_address: Any) -> bool:  # noqa: ARG002 the base's signature
        """Whether there is a thread for one more connection."""
        return self._places.acquire(blocking=False)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """One connection, in its thread."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._places.release()

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ARG002 the base's signature
        """One line for a fault of ours; a client that went away is none."""
        error = sys.exception()
        if not isinstance(error, OSError):
            sys.stderr.write(f"payments: {type(error).__name__}: {error}\n")


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "payments", ""
    timeout = IDLE_LIMIT_S
    disable_nagle_algorithm = True
    server: PaymentServer

    def serve(self) -> None:
        """One request, of any method."""
        try:
            body = self._body()
            fault = self.headers.get("X-Fault")
            self._perform(self.server.desk.read(self.command, self.path, body, fault))
        except Refused as refused:
            self._reply(refused.status, {"error": str(refused)}, refused.headers)
        except BookBroken as broken:
            self._reply(500, {"error": str(broken)})

    do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = do_OPTIONS = serve  # noqa: N815 the base looks for these

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:  # noqa: ARG002
        """What the base refuses by itself, as JSON; a method it has never heard of is like any wrong one."""
        self.close_connection = True
        status = 405 if code == 501 else code
        self._reply(status, {"error": message or self.responses[code][0]})

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Says nothing: the book is the record."""

    def _body(self) -> bytes:
        """The body, of any method, so that the next request begins where it should."""
        lengths = set(self.headers.get_all("Content-Length", ["0"]))
        length = lengths.pop()
        if "Transfer-Encoding" in self.headers:
            self.close_connection = True
            coding = self.headers["Transfer-Encoding"]
            raise Refused(400, f"Transfer-Encoding is {coding!r}: send a Content-Length instead")
        if lengths or not (length.isascii() and length.isdigit()):
            self.close_connection = True
            raise Refused(400, f"Content-Length is {length[:40]!r}: it must be one whole number")
        if len(length) > 18 or int(length) > BODY_BYTES_MAX:
            self.close_connection = True
            told = f"the body has {length[:40]} bytes: at most {BODY_BYTES_MAX} are taken"
            raise Refused(413, told)
        body = self.rfile.read(int(length))
        if len(body) < int(length):
            raise ConnectionResetError("the client went away within its request")
        return body

    def _perform(self, call: Call) -> None:
        """Acts and replies, in the order that the fault asks for; see `faults`."""
        plan = self.server.desk.plan
        match call.fault:
            case None:
                answer = call.act()
                sleep(call.slow_ms / 1000)
                self._reply(200, answer)
            case "error":
                self._reply(503, {"error": "fault error: nothing was done"})
            case "error-after":
                _act_unseen(call)
                self._reply(500, {"error": "fault error-after: see for yourself"})
            case "hang":
                self._wait_for_the_end(plan.hang_ms)
            case "drop":
                _act_unseen(call)
                self.close_connection = True
            case "late":
                self._hang_up()
                sleep(plan.late_ms / 1000)
                _act_unseen(call)

    def _reply(self, status: int, body: Any, headers: Mapping[str, str] | None = None) -> None:
        raw = json.dumps(body).encode() + b"\n"
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(raw)))
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(raw)
        if self.close_connection and status >= 400:
            self._linger()

    def _linger(self) -> None:
        with suppress(OSError):
            self.connection.shutdown(socket.SHUT_WR)
            self.connection.settimeout(LINGER_LIMIT_S)
            for _ in range(LINGER_READS_MAX):
                if not self.rfile.read1(BODY_BYTES_MAX):
                    return

    def _wait_for_the_end(self, limit_ms: int) -> None:
        """Returns when the client hangs up, says more than it may, or the time is over."""
        self.close_connection = True
        with suppress(OSError):
            self.connection.settimeout(max(limit_ms, 1) / 1000)
            self.connection.recv(1, socket.MSG_PEEK)

    def _hang_up(self) -> None:
        self.close_connection = True
        with suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)


def _act_unseen(call: Call) -> None:
    with suppress(Refused):  # nobody would hear of it
        call.act()
