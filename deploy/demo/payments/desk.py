"""What is asked of the payment service and what it answers, without HTTP's framing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from threading import Lock
from typing import Annotated, Any, TypeVar
from urllib.parse import parse_qsl, urlsplit

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from .book import OpenBook
from .faults import FAULTS, Fault, Plan

KEY_LENGTH_MAX = 1_000
ORDER_LENGTH_MAX = 200
CENTS_MAX = 100_000_000
SHOWN_LENGTH_MAX = 80
"""Of a wrong value, in the message about it."""

Key = Annotated[str, Field(min_length=1, max_length=KEY_LENGTH_MAX)]


class Refused(Exception):
    """The request cannot be served; the message is for the client."""

    def __init__(self, status: int, message: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.headers = headers or {}


class Refund(BaseModel):
    """Body of `POST /refunds`."""

    model_config = ConfigDict(strict=True, extra="forbid")

    key: Key
    order_id: Annotated[str, Field(min_length=1, max_length=ORDER_LENGTH_MAX)]
    cents: Annotated[int, Field(ge=1, le=CENTS_MAX)]


class TakeBack(BaseModel):
    """Body of `POST /refunds/undo`."""

    model_config = ConfigDict(strict=True, extra="forbid")

    key: Key
    of: Key


@dataclass(frozen=True, slots=True)
class Call:
    """A request that makes sense: `act` does it and gives the answer's body, or raises `Refused`."""

    act: Callable[[], Any]
    fault: Fault | None = None
    slow_ms: int = 0


@dataclass(slots=True)
class Desk:
    """Serves requests from one book; for several threads.

    `once`: charges a key once, as a service does that honours idempotency keys. This one does not by default.
    """

    book: OpenBook
    plan: Plan = field(default_factory=Plan)
    once: bool = False
    _numbers: Counter[str] = field(default_factory=Counter)
    _lock: Lock = field(default_factory=Lock)

    def read(self, method: str, target: str, body: bytes, fault: str | None) -> Call:
        """What is asked for, with the fault that will hit it: its own, or the plan's; raises `Refused`."""
        url = urlsplit(target)
        routes = _ROUTES.get(url.path)
        if routes is None:
            known = ", ".join(_ROUTES)
            raise Refused(404, f"there is no {_shown(url.path)}: there are {known}")
        route = routes.get(method)
        if route is None:
            told = f"{_shown(method)} is no method of {url.path}: {' or '.join(routes)}"
            raise Refused(405, told, {"Allow": ", ".join(routes)})
        own = _fault(fault)
        call = route(self, url.query, body)
        hit = Call(call.act, own or call.fault, call.slow_ms)
        if hit.fault:
            self._count(hit.fault)
        return hit

    def refund(self, query: str, body: bytes) -> Call:
        """`POST /refunds`."""
        _no_query(query)
        refund = _parse(Refund, body)
        fault = self.plan.for_refund(self._count("refunds"))
        return Call(lambda: self._charge(refund), fault, self.plan.slow_ms)

    def look_up(self, query: str, _body: bytes) -> Call:
        """`GET /refunds?key=K`."""
        fields = parse_qsl(query, keep_blank_values=True)
        if [name for name, _ in fields] != ["key"] or not fields[0][1]:
            raise Refused(400, f"the query is {_shown(query)}: it must be key=K, and nothing more")
        key = fields[0][1]
        fault = self.plan.for_look_up(self._count("look_ups"))
        return Call(lambda: [one.model_dump() for one in self.book.find(key)], fault)

    def undo(self, query: str, body: bytes) -> Call:
        """`POST /refunds/undo`."""
        _no_query(query)
        asked = _parse(TakeBack, body)
        self._count("undo_requests")
        return Call(
            lambda: [one.model_dump() for one in self.book.undo(of=asked.of, key=asked.key)]
        )

    def summary(self, query: str, _body: bytes) -> Call:
        """`GET /summary`: counts of the book, of this process's requests, and of the faults that hit them."""
        _no_query(query)
        return Call(self._summary)

    def _charge(self, refund: Refund) -> dict[str, Any]:
        asked = refund.model_dump()
        if not self.once:
            return self.book.charge(**asked).model_dump()
        charge = self.book.charge_once(**asked)
        if (charge.order_id, charge.cents) != (refund.order_id, refund.cents):
            told = f"{charge.id}, {charge.cents} cents for {charge.order_id}"
            raise Refused(409, f"key {_shown(refund.key)} was used for another refund: {told}")
        return charge.model_dump()

    def _summary(self) -> dict[str, Any]:
        with self._lock:
            numbers = Counter(self._numbers)
        asked = {name: numbers[name] for name in ("refunds", "look_ups", "undo_requests")}
        return {
            **self.book.counts(),
            "requests": asked,
            "faults": {fault: numbers[fault] for fault in FAULTS},
        }

    def _count(self, name: str) -> int:
        with self._lock:
            self._numbers[name] += 1
            return self._numbers[name]


_ROUTES: Mapping[str, Mapping[str, Callable[[Desk, str, bytes], Call]]] = {
    "/refunds": {"GET": Desk.look_up, "POST": Desk.refund},
    "/refunds/undo": {"POST": Desk.undo},
    "/summary": {"GET": Desk.summary},
}

M = TypeVar("M", bound=BaseModel)


def _parse(model: type[M], body: bytes) -> M:
    try:
        return model.model_validate_json(body)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        where = ".".join(map(str, first["loc"])) or "the body"
        told = "is missing" if first["type"] == "missing" else f"is {_shown(first['input'])}"
        raise Refused(400, f"{where} {told}: {first['msg']}") from error


def _fault(name: str | None) -> Fault | None:
    if name is None:
        return None
    for fault in FAULTS:
        if fault == name:
            return fault
    raise Refused(400, f"X-Fault is {_shown(name)}: it must be one of {', '.join(FAULTS)}")


def _no_query(query: str) -> None:
    if query:
        raise Refused(400, f"the query is {_shown(query)}: none is expected here")


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= SHOWN_LENGTH_MAX else f"{text[:SHOWN_LENGTH_MAX]}…"
