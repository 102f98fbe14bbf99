"""Planted mistakes about versions, rollouts and repairs: see `mutants.py`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ...commands import repairs as repairing
from ...commands.check import Facts
from ...commands.identity import INSECURE
from ...commands.rollouts import NO_ROLLOUTS, Rollout, Rollouts, place_of
from ...events import evolve_repairs as folding
from ...events import records as r
from ...events.log.protocol import Record
from ...events.state import State
from ...processors import handler as sessions
from ...processors.rollouts import RolloutTable
from ...processors.session import WORKFLOW_ENDS
from ...processors.workflow import advance as advancing
from ...processors.workflow.choosing import Chosen, Position, Workflows, choose
from .planting import Mutant, plant

# What a mistake replaces is called by it: these are its own.
_TAKE, _REBUILD = RolloutTable._take, advancing._rebuild  # noqa: SLF001
_RESET = folding.reset


def _highest(workflows: Workflows, position: Position, _rollouts: Rollouts) -> Any:
    return choose(workflows, position, NO_ROLLOUTS)


def _nameless(workflows: Workflows, position: Position, rollouts: Rollouts) -> Any:
    found = choose(workflows, position, rollouts)
    return found if isinstance(found, r.SessionHeld) else (found[0], None)


def _any_loaded(
    workflows: Workflows, position: Position, rollouts: Rollouts
) -> Chosen | r.SessionHeld:
    """What is not loaded is passed over without a word."""
    found = choose(workflows, position, rollouts)
    return choose(workflows, position, NO_ROLLOUTS) if isinstance(found, r.SessionHeld) else found


def _asks_again(workflows: Any, position: Position, facts: Facts) -> Any:
    """A replay goes by what is rolled out by now."""
    found = choose(workflows, position, facts.rollouts)
    if not isinstance(found, r.SessionHeld):
        state = replace(position.state, workflow_version=found[0].version)
        position = replace(position, state=state)
    return _REBUILD(workflows, position, facts)


def _old_ones_too(self: RolloutTable, record: Record) -> str:
    self.in_force = {
        name: Rollout(replace(one.said, number=0), one.offset)
        for name, one in self.in_force.items()
    }
    return _TAKE(self, record)


def _anybodys(self: RolloutTable, record: Record) -> str:
    self.identity = INSECURE
    return _TAKE(self, record)


def _draws_anew(self: Rollout, tenant: str, session_id: str) -> int | None:
    """Another percentage is another draw: some that were on the new version leave it."""
    said = self.said
    if said.version is None:
        return None
    place = place_of(f"{said.workflow}{said.percent}", tenant, session_id)
    return said.version if place < said.percent else said.rest


def _counts_back(state: State, status: str, body: r.SessionReset) -> State:
    return replace(_RESET(state, status, body), turn=body.to_turn)


def _loses_the_message(state: State, status: str, body: r.SessionReset) -> State:
    return _RESET(state, status, replace(body, message_id=None))


def _keeps_its_state(state: State, status: str, body: r.SessionReset) -> State:
    after = _RESET(state, status, body)
    return replace(after, past_turns=(), data=state.data)


VERSION_MUTANTS: tuple[Mutant, ...] = (
    Mutant("begins turns on the highest version", plant((advancing, "choose", _highest)), seed=6),
    Mutant("names no rollout", plant((advancing, "choose", _nameless)), seed=6),
    Mutant(
        "passes over a version that is not loaded",
        plant((advancing, "choose", _any_loaded)),
        seed=108,
    ),
    Mutant("replays on the version of today", plant((advancing, "_rebuild", _asks_again)), seed=6),
    Mutant("goes back to an older rollout", plant((RolloutTable, "_take", _old_ones_too)), seed=48),
    Mutant("believes whoever sets a rollout", plant((RolloutTable, "_take", _anybodys)), seed=6),
    Mutant(
        "draws the canaries anew for each percentage",
        plant((Rollout, "version_for", _draws_anew)),
        seed=31,
    ),
    Mutant("forgets the pin", plant((folding, "pinned", lambda state, _: state)), seed=40),
    Mutant(
        "leaves open what a reset ends",
        plant((sessions, "_LETS_GO", (*WORKFLOW_ENDS, r.CompensationStarted))),
        seed=6,
    ),
    Mutant(
        "drops what was kept before a reset",
        plant((sessions, "_LETS_ON", (r.SessionReleased,))),
        seed=74,
    ),
    Mutant("counts turns anew after a reset", plant((folding, "reset", _counts_back)), seed=6),
    Mutant(
        "loses what a reset is to answer again",
        plant((folding, "reset", _loses_the_message)),
        seed=6,
    ),
    Mutant("resets all but the state", plant((folding, "reset", _keeps_its_state)), seed=184),
    Mutant(
        "goes back to a state that was never left",
        plant((repairing, "why_not", lambda *_: None)),
        seed=6,
    ),
)
