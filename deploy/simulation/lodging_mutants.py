"""Planted mistakes about resources that sessions hold: see `mutants.py`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ...commands import decide as deciding
from ...commands import resources
from ...events import evolve_compensations, evolve_resources
from ...events import records as r
from ...events.failures import RESOURCE_LOST
from ...events.holding import LOST
from ...events.replacing import replace as replaced
from ...events.state import OpenActivity, State
from ...processors import handler as sessions
from ...processors.workflow import advance as advancing
from ...processors.workflow.choosing import Position
from ...processors.workflow.holdings import Holdings
from ...processors.workflow.stepping import TurnContext
from .planting import Mutant, plant

_DUE, _CONTEXT = deciding.due, advancing.context_of


def _never_over(state: State, now_ms: int, **more: Any) -> r.EventBody | None:
    """Nobody looks at the clock for what is held."""
    return _DUE(replaced(state, resources=()), now_ms, **more)


def _whatever_is_held(
    state: State, activity: OpenActivity, failure: r.Failure
) -> list[r.ResourceExpired]:
    """A tool that looked into the last one takes the new one away."""
    del activity
    return [
        r.ResourceExpired(one.resource_id, one.kind, LOST, failure)
        for one in state.resources
        if failure.kind == RESOURCE_LOST and one.kind == failure.type and not one.gone
    ]


def _holds_nothing(position: Position, facts: Any) -> TurnContext:
    """Each turn sets up its own."""
    return replace(_CONTEXT(position, facts), resources=())


def _knows_what_comes(position: Position, facts: Any) -> TurnContext:
    """A replay is told what the session holds by now."""
    return replace(_CONTEXT(position, facts), resources=position.state.resources)


LODGING_MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        "lets no resource expire",
        plant((deciding, "due", _never_over), (sessions, "due", _never_over)),
        seed=17,
    ),
    Mutant(
        "does not hear that a resource is gone",
        plant((resources, "lost", lambda *_: [])),
        seed=32,
    ),
    Mutant(
        "loses what was set up since",
        plant((resources, "lost", _whatever_is_held)),
        seed=32,
    ),
    Mutant(
        "forgets between turns what it holds",
        plant((advancing, "context_of", _holds_nothing)),
        seed=71,
    ),
    Mutant(
        "tells a replay what the session holds by now",
        plant((advancing, "context_of", _knows_what_comes)),
        seed=17,
    ),
    Mutant(
        "learns of no expiry while a turn runs",
        plant((Holdings, "learn", lambda *_: None)),
        seed=32,
    ),
    Mutant("holds what nobody is left to hold", plant((resources, "ended", lambda _: [])), seed=32),
    Mutant(
        "gives nothing back",
        plant(
            (evolve_compensations, "given_back", lambda _: ()),
            (evolve_resources, "given_back", lambda _: ()),
        ),
        seed=32,
    ),
)
