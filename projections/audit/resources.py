"""Checks of resources: of each kind one is held at a time, none expires early, and none is held once its session has ended."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ...events import records as r
from ...events.evolve_resources import Attaches
from ...events.verdicts import EXPIRED
from .evidence import Violation
from .history import Fact, History, of
from .invariants import RESOURCES

_ENDS = r.SessionCompleted | r.SessionFailed | r.SessionCancelled | r.CompensationStarted

_Held = dict[str, tuple[str, int]]
"""By kind: which, and until when."""


def resources(history: History) -> Iterator[Violation]:
    """Attached by an activity that gave a result, one of a kind at a time, over once, and not before its time."""
    for facts in history.sessions.values():
        held: _Held = {}
        last: set[str] = set()
        given: set[str] = set()
        for fact in facts:
            body = fact.event.body
            if isinstance(body, r.ActivityCompleted | r.ActivityResolved):
                given.add(body.activity_id)
            elif isinstance(body, Attaches):
                yield from _attached(fact, body, held, last)
                if body.resource_id not in given:
                    told = f"{_name(body)} is attached, and its activity has no result"
                    yield of(fact, RESOURCES, told)
                held[body.kind] = (body.resource_id, body.expires_at_ms)
                last.add(body.kind)
            elif isinstance(body, r.ResourceExpired | r.ResourceReleased):
                yield from _over(fact, body, held)
                held.pop(body.kind, None)
                if isinstance(body, r.ResourceReleased):
                    last.discard(body.kind)
            elif isinstance(body, _ENDS) and held:
                told = f"{', '.join(held)} held, and {type(body).__name__} ends whoever holds it"
                yield of(fact, RESOURCES, told)
                held.clear()


def _attached(fact: Fact, body: Attaches, held: _Held, last: set[str]) -> Iterator[Violation]:
    if body.kind in held:
        told = f"{_name(body)} is attached while {held[body.kind][0]} is held"
        yield of(fact, RESOURCES, told)
    if isinstance(body, r.ResourceReattached) and body.kind not in last:
        yield of(fact, RESOURCES, f"{_name(body)} is attached again, and none was before")


def _over(
    fact: Fact, body: r.ResourceExpired | r.ResourceReleased, held: Mapping[str, tuple[str, int]]
) -> Iterator[Violation]:
    resource_id, expires_at_ms = held.get(body.kind, ("", 0))
    if resource_id != body.resource_id:
        yield of(fact, RESOURCES, f"{_name(body)} is over, and is not what is held")
    left_ms = expires_at_ms - fact.event.envelope.at_ms
    if isinstance(body, r.ResourceExpired) and body.reason == EXPIRED and left_ms > 0:
        yield of(fact, RESOURCES, f"{_name(body)} expired {left_ms} ms early")


def _name(body: Attaches | r.ResourceExpired | r.ResourceReleased) -> str:
    return f"resource {body.kind} ({body.resource_id})"
