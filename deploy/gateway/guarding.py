"""What every request passes first and every answer last, whatever it asks for.

Before: the sizes of address, headers and body, its time, its kind, and JSON that means one thing. After: headers that
browsers go by. Whatever fails inside and nobody has caught ends here as a problem with an id that the log has, too.
"""

from __future__ import annotations

import asyncio
import re
import secrets
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

import structlog
from starlette.requests import Request

from .problems import Problem, response_to
from .strict import load_strict

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

PREFIX = "/v1"

HEADER_BYTES_MAX = 8 * 1024
"""One header's value: a token of a large provider has 4 KiB."""

HEADERS_MAX = 100

TARGET_BYTES_MAX = 4 * 1024
"""Path and query."""

BODY_S = 30.0
"""How long a body may take to come."""

DISCARD_BYTES_MAX = 16 * 1024 * 1024
DISCARD_S = 5.0
"""What is read of a body that is not taken, and how long, so that its client has sent it and reads the answer."""

COUNT_ONCE = ("/console/enter/", "/console/oidc/")
"""Before what a GET uses up: a HEAD, with which links are looked at beforehand, is none."""

BODY = "wakeful.body"
"""Where the scope has the body in its very bytes, for what is signed."""

WRITES = frozenset({"POST", "PUT", "PATCH"})

HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
)

NO_STORE = (b"cache-control", b"no-store")

_JSON = re.compile(
    r'application/(?:[a-z0-9.-]+\+)?json\s*(?:;\s*charset="?utf-8"?\s*)?', re.ASCII | re.IGNORECASE
)

logger = structlog.get_logger("wakeful.gateway")


class Guard:
    """ASGI middleware; see the module. `unavailable` knows faults of the services, which will pass, from our own."""

    def __init__(
        self, app: ASGIApp, *, body_max: int, unavailable: Callable[[Exception], Problem | None]
    ) -> None:
        self._app = app
        self._body_max = body_max
        self._unavailable = unavailable

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request; lifespan and others go through."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        answer = _Answer(send, api=_is_api(scope), bare=scope["method"] == "HEAD")
        incoming = _Incoming(scope, receive)
        try:
            try:
                _check_sizes(scope)
                body = await self._body(scope, incoming)
            except Problem as problem:
                await _tell(problem, scope, _Discarding(answer, incoming))
                return
            scope = {**scope, "method": _method(scope), BODY: body}
            await self._app(scope, _Replayed(body, receive), answer)
        except Exception as error:
            await self._failed(error, scope, answer)

    async def _body(self, scope: Scope, incoming: _Incoming) -> bytes:
        """All of it, at most `body_max` bytes; for `/v1` it is JSON that means one thing."""
        headers = _headers(scope)
        said = headers.get(b"content-length", b"0")
        if not said.isdigit():
            raise Problem(400, "invalid_header", f"Content-Length {said[:40]!a} is no number")
        if int(said) > self._body_max:
            raise self._too_large(f"{int(said)} bytes")
        try:
            async with asyncio.timeout(BODY_S):
                body = await self._read(incoming)
        except TimeoutError:
            told = f"the body did not come within {BODY_S:.0f} s: send it again"
            raise Problem(408, "slow_body", told) from None
        if body and scope["method"] in WRITES and _is_api(scope):
            kind = headers.get(b"content-type", b"").decode("latin-1")
            if _JSON.fullmatch(kind.strip()) is None:
                told = f"Content-Type {kind[:80]!a} is not taken: send application/json in UTF-8"
                raise Problem(415, "not_json", told)
            load_strict(body)
        return body

    async def _read(self, incoming: _Incoming) -> bytes:
        body = bytearray()
        while incoming.more:
            body += await incoming.piece()
            if len(body) > self._body_max:
                raise self._too_large(f"more than {self._body_max} bytes")
        if incoming.gone:
            raise Problem(400, "incomplete", "the body did not come whole: send it again")
        return bytes(body)

    def _too_large(self, size: str) -> Problem:
        return Problem(
            413,
            "body_too_large",
            f"the body has {size} and the limit is {self._body_max}: send less, or store it elsewhere and refer to it",
            headers={"Connection": "close"},
        )

    async def _failed(self, error: Exception, scope: Scope, answer: _Answer) -> None:
        problem = self._unavailable(error)
        if problem is None:
            fault_id = secrets.token_hex(8)
            told = f"something failed here that should not: report it with the id {fault_id}"
            problem = Problem(500, "fault", told, fault_id=fault_id)
            logger.error(
                "a request failed", fault_id=fault_id, path=scope["path"][:200], exc_info=error
            )
        if answer.begun:
            raise error  # the status is out already: the connection is cut, so that nobody takes it for an answer
        await _tell(problem, scope, answer)


class _Answer:
    """Adds the headers that every answer has."""

    def __init__(self, send: Send, *, api: bool, bare: bool) -> None:
        """`bare` for one without a body."""
        self._send = send
        self._api, self._bare = api, bare
        self.begun = False

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.begun = True
            given = list(message.get("headers", ()))
            names = {name.lower() for name, _ in given}
            added = (*HEADERS, *((NO_STORE,) if self._api else ()))
            message["headers"] = given + [one for one in added if one[0] not in names]
            await self._send(message)
            if (
                self._bare
            ):  # whole now: whatever would make a body, or a stream, is told that nobody listens
                await self._send({"type": "http.response.body", "body": b"", "more_body": False})
        elif not self._bare:
            await self._send(message)


class _Incoming:
    """The body as it comes. `more` may come; `gone` is a client that hung up before all of it had."""

    def __init__(self, scope: Scope, receive: Receive) -> None:
        self._receive = receive
        self._waits = b"100-continue" in _headers(scope).get(b"expect", b"").lower()
        self.more, self.gone = True, False

    async def piece(self) -> bytes:
        """The next piece."""
        self._waits = False
        message = await self._receive()
        self.gone = message["type"] == "http.disconnect"
        self.more = not self.gone and message.get("more_body", False)
        found: bytes = message.get("body", b"")
        return found

    async def discard(self) -> None:
        """Reads what is under way, up to a limit: closed on, a client that still sends would see no answer, but a reset."""
        left = 0 if self._waits else DISCARD_BYTES_MAX  # it sends nothing before it is told to
        with suppress(TimeoutError):
            async with asyncio.timeout(DISCARD_S):
                while self.more and left > 0:
                    left -= len(await self.piece())


class _Discarding:
    """An answer that is out before the body is in: it ends once no more of that is under way."""

    def __init__(self, send: Send, incoming: _Incoming) -> None:
        self._send, self._incoming = send, incoming

    async def __call__(self, message: Message) -> None:
        if message["type"] != "http.response.body" or not self._incoming.more:
            await self._send(message)
            return
        await self._send({**message, "more_body": True})
        await self._incoming.discard()
        await self._send({"type": "http.response.body", "body": b"", "more_body": False})


class _Replayed:
    """The body once more, then whatever comes: that the client is gone."""

    def __init__(self, body: bytes, receive: Receive) -> None:
        self._body: bytes | None = body
        self._receive = receive

    async def __call__(self) -> Message:
        if self._body is None:
            return await self._receive()
        body, self._body = self._body, None
        return {"type": "http.request", "body": body, "more_body": False}


def _check_sizes(scope: Scope) -> None:
    target = len(scope.get("raw_path") or scope["path"].encode()) + len(scope["query_string"])
    if target > TARGET_BYTES_MAX:
        told = f"the address has {target} bytes and the limit is {TARGET_BYTES_MAX}: ask for less at once"
        raise Problem(414, "address_too_long", told)
    if len(scope["headers"]) > HEADERS_MAX:
        told = f"the request has {len(scope['headers'])} headers and the limit is {HEADERS_MAX}"
        raise Problem(431, "headers_too_large", told)
    for name, value in scope["headers"]:
        if len(name) + len(value) > HEADER_BYTES_MAX:
            told = f"the header {name[:40].decode('latin-1')!a} has {len(value)} bytes and the limit is {HEADER_BYTES_MAX}"
            raise Problem(431, "headers_too_large", told)


def _method(scope: Scope) -> str:
    """What the application is asked: of a GET, for HEAD, whose body the server leaves out."""
    method: str = scope["method"]
    looks = method == "HEAD" and not scope["path"].startswith(COUNT_ONCE)
    return "GET" if looks else method


def _headers(scope: Scope) -> dict[bytes, bytes]:
    return dict(scope["headers"])


def _is_api(scope: Scope) -> bool:
    path: str = scope["path"]
    return path == PREFIX or path.startswith(f"{PREFIX}/")


async def _tell(problem: Problem, scope: Scope, answer: Send) -> None:
    response = response_to(problem, Request(scope))
    await response(scope, _Replayed(b"", _nothing), answer)


async def _nothing() -> Message:
    return {"type": "http.disconnect"}
