"""Planted mistakes about payloads that are recorded in parts: see `mutants.py`."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from ...events import evolve as fold
from ...events import records as r
from ...events.payloads import canonical_json
from ...events.sharing import PARTS, recorded
from ...events.state import State
from ...processors import handler as sessions
from ...processors.effects import task_of
from ...processors.session import Session
from .planting import Mutant, plant

_RECORDED, _TASK_OF = recorded, task_of


def _as_recorded(event: r.Event, requested: r.Event | None, state: State | None) -> Any:
    """A task has the parts, and leaves it to its worker."""
    asked = event if isinstance(event.body, r.ActivityRequested) else requested
    return _TASK_OF(event, asked, state)


def _kept(payload: r.Payload, _state: r.Payload | None) -> r.Payload:
    """The fold takes the parts for the state."""
    return payload


def _cut(body: r.EventBody, state: r.Payload | None) -> r.EventBody:
    """What is new at the end of a request is forgotten."""
    short = _RECORDED(body, state)
    if not isinstance(short, r.ActivityRequested) or short.arguments.encoding != PARTS:
        return short
    told = json.loads(short.arguments.inline or b"")
    inline = canonical_json({**told, "parts": told["parts"][:-1]})
    return replace(short, arguments=replace(short.arguments, inline=inline))


def _in_parts(self: Session, activity_id: str) -> r.Event:
    """An activity that is tried again has its request's parts."""
    requested = self.journal.request_of(activity_id)
    assert requested is not None
    return requested


SHARING_MUTANTS: tuple[Mutant, ...] = (
    Mutant("gives workers parts", plant((sessions, "task_of", _as_recorded)), seed=9),
    Mutant("gives workers parts again", plant((Session, "request_of", _in_parts)), seed=30),
    Mutant("keeps parts as a state", plant((fold, "expanded", _kept)), seed=18),
    Mutant("forgets the end of a request", plant((sessions, "recorded", _cut)), seed=9),
)
