"""Planted mistakes about what has stalled: see `mutants.py`."""

from __future__ import annotations

from ...commands import decide as deciding
from ...commands import models as m
from ...commands import recovering
from ...events import records as r
from ...events.state import State
from .planting import Mutant, plant

# What a mistake replaces is called by it: these are its own.
_ATTEMPT, _RECOVERED = recovering._attempt_why_not, deciding._recovered  # noqa: SLF001


def _whatever_runs(state: State, body: m.RecoverSession) -> tuple[str, str] | None:
    """The newest attempt, whichever was seen to stand."""
    for running in state.activities:
        if running.activity_id == body.activity_id and running.runs(running.attempt):
            return None
    return _ATTEMPT(state, body)


def _never_tells(state: State, header: m.CommandHeader, *more: object) -> list[r.EventBody]:
    """What follows, without who asked for it."""
    return _RECOVERED(state, header, *more)[1:]  # type: ignore[arg-type]


RECOVERY_MUTANTS = (
    Mutant(
        "gives up another attempt than was named",
        plant((recovering, "_attempt_why_not", _whatever_runs)),
        seed=64,
    ),
    Mutant("drives a session again that waits", plant((recovering, "is_stalled", bool)), seed=45),
    Mutant(
        "gives up without saying who asked", plant((deciding, "_recovered", _never_tells)), seed=7
    ),
)
