"""The client that activities use: one connection per call, explicit limits, and errors by what is known afterwards."""

from __future__ import annotations

import asyncio
import json
import re
from contextlib import suppress
from http import HTTPStatus
from typing import Any, TypeVar
from urllib.parse import quote, urlsplit

from pydantic import TypeAdapter, ValidationError

from .book import Charge
from .faults import Fault

CONNECT_LIMIT_S = 2.0
ANSWER_LIMIT_S = 10.0
"""From the request's first byte to the answer's last."""

ANSWER_BYTES_MAX = 4 * 1024 * 1024

_HEAD = re.compile(
    rb"HTTP/1\.[01] (?P<status>\d{3}) .*?\r\ncontent-length: *(?P<length>\d{1,9})\r\n",
    re.IGNORECASE | re.DOTALL,
)

T = TypeVar("T")

_CHARGE: TypeAdapter[Charge] = TypeAdapter(Charge)
_CHARGES: TypeAdapter[list[Charge]] = TypeAdapter(list[Charge])


class PaymentError(Exception):
    """The root, by what is known afterwards.

    ```
    PaymentError
    ├── PaymentRefused        nothing was done, and the same request will be refused again
    ├── PaymentsUnavailable   nothing was done; later it may be
    ├── PaymentUnknown        it may have been done, now or later: only a look-up tells
    └── SeveralCharges        a look-up found more than one
    ```
    """


class PaymentRefused(PaymentError):
    """The service says what is wrong with the request; `status` is HTTP's."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"refused with {status}: {message}")
        self.status = status


class PaymentsUnavailable(PaymentError):
    """No connection, or the service says that it did nothing."""


class PaymentUnknown(PaymentError):
    """The request went out, and no answer came that tells what became of it."""


class SeveralCharges(PaymentError):
    """A key was charged more than once; `charges` are all of them, undone or not."""

    def __init__(self, key: str, charges: list[Charge]) -> None:
        named = ", ".join(f"{one.id}{' (undone)' if one.undone else ''}" for one in charges)
        super().__init__(f"key {key} was charged {len(charges)} times: {named}")
        self.charges = charges


class Payments:
    """The service at this URL. `fault` asks the service to do this one request badly, see `faults`."""

    def __init__(
        self,
        url: str,
        *,
        connect_limit_s: float = CONNECT_LIMIT_S,
        answer_limit_s: float = ANSWER_LIMIT_S,
    ) -> None:
        parts = urlsplit(url)
        if parts.scheme != "http" or not parts.hostname or parts.port is None or parts.path:
            raise ValueError(f"{url} is no payment service: give a URL like http://127.0.0.1:8080")
        self._host, self._port = parts.hostname, parts.port
        self._connect_limit_s = connect_limit_s
        self._answer_limit_s = answer_limit_s

    async def refund(
        self, order_id: str, cents: int, *, key: str, fault: Fault | None = None
    ) -> Charge:
        """Pays back; again with the same key, and it is paid twice."""
        body = {"key": key, "order_id": order_id, "cents": cents}
        return await self._ask("POST", "/refunds", _CHARGE, body=body, fault=fault)

    async def find(self, key: str, *, fault: Fault | None = None) -> Charge | None:
        """The charge of this key, undone or not; raises `SeveralCharges`. None yet is no promise: it may be late."""
        target = f"/refunds?key={quote(key, safe='')}"
        charges = await self._ask("GET", target, _CHARGES, fault=fault)
        if len(charges) > 1:
            raise SeveralCharges(key, charges)
        return charges[0] if charges else None

    async def undo(self, of: str, *, key: str, fault: Fault | None = None) -> list[Charge]:
        """Takes back what was charged with the key `of`; gives its charges, none if there are none. May be repeated."""
        body = {"key": key, "of": of}
        return await self._ask("POST", "/refunds/undo", _CHARGES, body=body, fault=fault)

    async def _ask(
        self,
        method: str,
        target: str,
        answer: TypeAdapter[T],
        *,
        body: dict[str, Any] | None = None,
        fault: Fault | None = None,
    ) -> T:
        raw = b"" if body is None else json.dumps(body).encode()
        head = [
            f"{method} {target} HTTP/1.1",
            f"Host: {self._host}:{self._port}",
            f"Content-Length: {len(raw)}",
            "Connection: close",
            *([f"X-Fault: {fault}"] if fault else []),
        ]
        status, told = await self._exchange("\r\n".join([*head, "", ""]).encode() + raw)
        if status == HTTPStatus.OK:
            try:
                return answer.validate_json(told)
            except ValidationError as error:
                raise PaymentUnknown(
                    f"the answer is not one: {error.errors()[0]['msg']}"
                ) from error
        message = told.decode(errors="replace").strip()
        if 400 <= status < 500:
            raise PaymentRefused(status, message)
        if status == HTTPStatus.SERVICE_UNAVAILABLE:
            raise PaymentsUnavailable(f"the payment service answered 503: {message}")
        raise PaymentUnknown(f"the payment service answered {status}: {message}")

    async def _exchange(self, request: bytes) -> tuple[int, bytes]:
        try:
            async with asyncio.timeout(self._connect_limit_s):
                reader, writer = await asyncio.open_connection(self._host, self._port)
        except OSError as error:  # a time-out is one
            told = f"{self._host}:{self._port}: {_said(error)}"
            raise PaymentsUnavailable(
                f"no payment service at {told}: start it, or ask again once it answers"
            ) from error
        try:
            async with asyncio.timeout(self._answer_limit_s):
                writer.write(request)
                return await _read_answer(reader)
        except (OSError, EOFError, ValueError) as error:
            raise PaymentUnknown(f"no answer of the payment service: {_said(error)}") from error
        finally:
            writer.transport.abort()  # also when cancelled: who hangs notices that we went away
            with suppress(OSError):
                await writer.wait_closed()


async def _read_answer(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    """Status and body; `EOFError` or `ValueError` where there is no whole answer."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.LimitOverrunError as error:
        raise ValueError("its head is too long") from error
    found = _HEAD.match(head)
    if found is None or int(found["length"]) > ANSWER_BYTES_MAX:
        raise ValueError(f"its head is {head[:80]!r}")
    return int(found["status"]), await reader.readexactly(int(found["length"]))


def _said(error: Exception) -> str:
    if isinstance(error, EOFError):
        return "the connection was closed"
    return str(error) or type(error).__name__
