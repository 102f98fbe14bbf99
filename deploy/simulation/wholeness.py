"""What must hold of payloads that are recorded in parts: put together they are what was asked for, and so are tasks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from ...events import records as r
from ...events.payloads import JSON, keyed_digest
from ...events.records import Event
from ...events.sharing import wholes
from ...processors.simulation.actors import DIGEST_KEY


def whole_events(events: Sequence[Event]) -> list[Event]:
    """The same events in the same order, each with all that it says."""
    sessions: dict[tuple[str, str], list[Event]] = defaultdict(list)
    for event in events:
        sessions[event.envelope.tenant, event.envelope.session_id].append(event)
    told = {key: wholes(own) for key, own in sessions.items()}
    return [next(told[e.envelope.tenant, e.envelope.session_id]) for e in events]


def payloads_are_whole(
    events: Sequence[Event], tasks: Iterable[tuple[object, r.ActivityTask]]
) -> Iterator[str]:
    """Bytes that are there have the digest that is told of them: in facts put together, and in what workers are given."""
    for event in events:
        match event.body:
            case r.ActivityRequested(arguments=payload):
                why = _why_not(payload)
            case r.TurnContinued(state=payload) | r.TurnCompleted(state=payload):
                why = _why_not(payload)
            case _:
                continue
        if why:
            yield f"{type(event.body).__name__} {event.envelope.seq} of {event.envelope.session_id}: {why}"
    for _, task in tasks:
        if why := _why_not(task.arguments):
            yield f"the task of {task.activity_id} of {task.session_id}: {why}"


def _why_not(payload: r.Payload) -> str:
    if payload.encoding != JSON:
        return f"a payload is {payload.encoding}, and nobody can put it together"
    if payload.inline is not None and keyed_digest(payload.inline, DIGEST_KEY) != payload.digest:
        return f"a payload of {payload.size} bytes has another digest than is told of it"
    return ""
