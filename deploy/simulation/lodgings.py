"""What must hold of rooms: whoever looks into one holds it, what is gone is held by nobody, and what was held is given back."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...events import records as r
from ...events.evolve_resources import Attaches
from ...events.failures import RESOURCE_LOST
from ...events.holding import SESSION_ENDED
from ...events.records import Event
from ...processors.simulation.downstream import Rooms
from ...processors.simulation.lodgings import look_in
from ...processors.simulation.world import World

Load = Callable[[r.Payload], Any]

_HOLDS = r.SessionHeld | r.NondeterminismFound


@dataclass(slots=True)
class _Guest:
    """One session: the room that it holds, those that it held, and what it looked for in them."""

    held: Attaches | None = None
    at: int = 0
    """Where among its facts it came to hold that."""
    lost: int | None = None
    """The same of one that was lost, until it is said to whom."""
    looks: dict[str, tuple[int, str]] = field(default_factory=dict)
    """By activity: where it was asked for, and of which room."""
    was_held: bool = False
    to_give_back: list[str] = field(default_factory=list)
    ended: r.SessionFailed | r.SessionCancelled | None = None

    def overstays(self, now_ms: int) -> bool:
        """Whether its time is over, and nobody has said so; while a session is held nobody does."""
        held = self.held is not None and self.ended is None and not self.was_held
        return held and self.held is not None and self.held.expires_at_ms <= now_ms


def lodgings(world: World, events: Sequence[Event], load: Load, *, rested: bool) -> Iterator[str]:
    """By the log of all sessions, and by what became of the rooms themselves."""
    rooms, now_ms = world.downstream.rooms, world.scene.clock.ms
    guests: dict[str, _Guest] = defaultdict(_Guest)
    given: dict[tuple[str, str], bytes] = {}
    kept: set[str] = set()
    for at, event in enumerate(events):
        name, body = event.envelope.session_id, event.body
        guest = guests[name]
        if isinstance(body, r.ActivityCompleted):
            given[name, body.activity_id] = body.result.digest
        elif isinstance(body, Attaches):
            if given.get((name, body.resource_id)) != body.handle.digest:
                yield f"{name} holds {body.kind} ({body.resource_id}), which is not what its activity gave"
            guest.held, guest.at = body, at
            kept.add(load(body.handle))
        elif isinstance(body, r.ResourceExpired | r.ResourceReleased):
            yield from _over(guest, name, body, load)
        yield from _looked(guest, name, at, body, load)
    for name, guest in guests.items():
        yield from _judged(guest, name, rooms)
        if rested and guest.overstays(now_ms):
            yield f"{name} holds a room past its time"
    for handle in rooms.closed.keys() - kept:
        yield f"{handle} was cleared, and nobody had held it"


def _looked(guest: _Guest, name: str, at: int, body: r.EventBody, load: Load) -> Iterator[str]:
    match body:
        case r.ActivityRequested() if body.name == look_in.name:
            handle = load(body.arguments)["handle"]
            guest.looks[body.activity_id] = (at, handle)
            held = None if guest.held is None else load(guest.held.handle)
            if held != handle and not guest.was_held:
                yield f"{name} looks into {handle}, and holds {held}"
        case r.ActivityFailed() if body.failure.kind == RESOURCE_LOST:
            asked, handle = guest.looks.get(body.activity_id, (at, ""))
            lost, guest.lost = guest.lost, None
            if lost is not None and lost > asked:
                yield f"{name} has found {handle} gone, and lost what was set up since"
            if guest.held is not None and guest.at < asked:
                yield f"{name} has found {handle} gone, and holds {guest.held.resource_id} still"
        case r.SessionFailed() | r.SessionCancelled():
            guest.ended = body
        case _ if isinstance(body, _HOLDS):
            guest.was_held = True
        case _:
            pass


def _over(
    guest: _Guest, name: str, body: r.ResourceExpired | r.ResourceReleased, load: Load
) -> Iterator[str]:
    held, guest.held = guest.held, None
    if held is None or not isinstance(body, r.ResourceExpired):
        return
    handle = load(held.handle)
    guest.lost = None if body.failure is None else guest.at
    if body.reason == SESSION_ENDED and held.release is not None:
        guest.to_give_back.append(handle)
    if body.failure is not None and not any(room == handle for _, room in guest.looks.values()):
        yield f"{name} has lost {handle}, and nobody had looked into it"


def _judged(guest: _Guest, name: str, rooms: Rooms) -> Iterator[str]:
    if guest.ended is None or guest.ended.not_compensated:
        return
    for handle in guest.to_give_back:
        if handle not in rooms.closed:
            yield f"{name} ended as {type(guest.ended).__name__}, and {handle} was not given back"
