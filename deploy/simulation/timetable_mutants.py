"""Planted mistakes about runs and schedules: see `mutants.py`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ...commands import models as m
from ...events import records as r
from ...events.state import State
from ...processors import handler as sessions
from ...processors.between import commands_of
from ...processors.schedules import times
from ...processors.schedules import workflow as schedules
from .planting import Mutant, plant

_COMMANDS_OF, _LAST_UP_TO = commands_of, times.last_up_to


def _told_twice(event: r.Event, before: State | None) -> tuple[m.Command, ...]:
    """A run is asked for once more, under another id."""
    told = _COMMANDS_OF(event, before)
    again = [one for one in told if isinstance(one.body, m.StartRun)]
    return told + tuple(
        replace(one, header=replace(one.header, command_id=f"{one.header.command_id}/2"))
        for one in again
    )


def _told_nobody(event: r.Event, before: State | None) -> tuple[m.Command, ...]:
    """Of several runs in one go only some are asked for."""
    told = _COMMANDS_OF(event, before)
    lost = isinstance(event.body, r.RunStarted) and event.body.step % 2 == 0
    return () if lost else told


def _for_itself(event: r.Event, before: State | None) -> tuple[m.Command, ...]:
    """A run is asked for by the workflow of schedules, and by no person."""
    return tuple(
        replace(one, header=replace(one.header, actor=event.envelope.actor))
        if isinstance(one.body, m.StartRun)
        else one
        for one in _COMMANDS_OF(event, before)
    )


def _last_alone(cron: str, zone: str, first_ms: int, now_ms: int, _count: int) -> Any:
    """Whatever is to be caught up on, the last one is all that is looked for."""
    return _LAST_UP_TO(cron, zone, first_ms, now_ms, 1)


def _from_before(cron: str, zone: str, first_ms: int, now_ms: int, count: int) -> Any:
    """What is due is looked for from the time before it, too."""
    return _LAST_UP_TO(cron, zone, first_ms - 60_000, now_ms, count)


TIMETABLE_MUTANTS: tuple[Mutant, ...] = (
    Mutant("asks for a run twice", plant((sessions, "commands_of", _told_twice)), seed=31),
    Mutant("asks for some runs never", plant((sessions, "commands_of", _told_nobody)), seed=172),
    Mutant("has runs asked for by nobody", plant((sessions, "commands_of", _for_itself)), seed=31),
    Mutant(
        "catches up on the last alone", plant((schedules, "last_up_to", _last_alone)), seed=1723
    ),
    Mutant("runs what has run", plant((schedules, "last_up_to", _from_before)), seed=56),
)
