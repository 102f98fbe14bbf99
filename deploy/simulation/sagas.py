"""What is taken back, as the world outside saw it: what was booked, in which order, and by which calls."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from ...events import records as r
from ...events.keys import effect_key
from ...events.records import Event

Booking = tuple[str, str, str]


@dataclass(slots=True)
class _Saga:
    """Of one session: what it may take back by key, in the order that it asked for it, and how it ended."""

    asked: list[str] = field(default_factory=list)
    kept: set[str] = field(default_factory=set)
    """What was said to stand."""
    began: bool = False
    ended: r.EventBody | None = None
    given_up: set[str] = field(default_factory=set)
    stopped: bool = False


def sagas(bookings: Sequence[Booking], events: Sequence[Event]) -> Iterator[str]:
    """Each effect of a session that failed or was cancelled is taken back once, the last first, and no other is."""
    told: dict[str, _Saga] = defaultdict(_Saga)
    for event in events:
        yield from _follow(told[event.envelope.session_id], event)
    owners = {key: saga for saga in told.values() for key in saga.asked}
    booked: dict[str, int] = {}
    back: dict[str, tuple[int, str]] = {}
    for at, (what, key, by) in enumerate(bookings):
        if what == "booked":
            booked[key] = at
            continue
        if key in back and back[key][1] != by:
            yield f"{key} was taken back by {back[key][1]}, and by {by}"
        back.setdefault(key, (at, by))
    for key, (at, by) in back.items():
        saga = owners.get(key)
        if saga is None or not saga.began or key in saga.kept:
            yield f"{key} was taken back by {by}, and was to stand"
        elif booked.get(key, -1) > at:
            yield f"{key} was booked after it had been taken back by {by}"
    for saga in told.values():
        yield from _judged(saga, booked, back)


def _follow(saga: _Saga, event: Event) -> Iterator[str]:
    body, envelope = event.body, event.envelope
    match body:
        case r.ActivityRequested():
            if saga.stopped and body.compensates is None:
                yield f"activity {body.activity_id} of {envelope.session_id} is dispatched after the stop"
            if body.compensation is not None:
                saga.asked.append(_key(event, body.activity_id))
        case r.ActivityRetried() | r.ActivityReturned() if saga.stopped and not saga.began:
            yield f"activity {body.activity_id} of {envelope.session_id} goes on after the stop"
        case r.CancellationRequested():
            saga.stopped = True
        case r.CompensationStarted():
            saga.began = saga.stopped = True
        case r.CompensationsReleased() | r.SessionCompleted():
            saga.kept.update(saga.asked)
        case r.SessionFailed() | r.SessionCancelled():
            saga.ended = body
            saga.given_up.update(_key(event, one) for one in body.not_compensated)
        case _:
            pass


def _judged(saga: _Saga, booked: dict[str, int], back: dict[str, tuple[int, str]]) -> Iterator[str]:
    if saga.ended is None:
        return
    due = [key for key in saga.asked if key not in saga.kept]
    for key in due:
        if key in booked and key not in back and key not in saga.given_up:
            yield f"{key} was booked, and its session ended without taking it back"
    at = [back[key][0] for key in reversed(due) if key in back]
    if at != sorted(at):
        yield f"{due} were taken back in another order than the last first"


def _key(event: Event, activity_id: str) -> str:
    return effect_key(event.envelope.tenant, event.envelope.session_id, activity_id)
