"""Planted mistakes about what is taken back: see `mutants.py`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ...commands import compensating
from ...commands import decide as deciding
from ...events import evolve as evolving
from ...events import evolve_compensations as compensations
from ...events import records as r
from ...events.state import State, Status
from ...events.undoing import Undoing
from ...processors import handler as sessions
from ...processors.proposals import OpenProposals
from ...processors.workflow.advance import Advanced, advance
from ...processors.workflow.choosing import Position
from .planting import Mutant, plant

# What a mistake replaces is called by it: these are its own.
_REQUEST, _ENDED = compensating._request, compensating._ended  # noqa: SLF001
_UNDONE, _LATE = compensations._undone, compensations._late  # noqa: SLF001
_FOR_WITHHELD = OpenProposals.for_withheld
_FOLLOWING, _BEGIN = compensating.following, compensating.begin
_TURN_ENDED, _RELEASED = evolving._turn_ended, compensations.released  # noqa: SLF001


def _first_first(
    state: State, undoing: Undoing, _last: Any, place: tuple[str, str], now_ms: int
) -> r.ActivityRequested:
    return _REQUEST(state, undoing, state.registered[0], place, now_ms)


def _all_but_one(state: State, *where: Any) -> r.EventBody | None:
    undoing = state.undoing
    if undoing is None or undoing.current or len(state.registered) != 1 or state.hold:
        return _FOLLOWING(state, *where)
    return _ENDED(state, undoing)


def _without_waiting(state: State, *where: Any) -> r.EventBody | None:
    undoing = state.undoing
    if undoing is None or not undoing.current or state.hold or undoing.failed:
        return _FOLLOWING(state, *where)
    return _ENDED(state, undoing)


def _twice(state: State, undoing: Undoing, body: r.EventBody) -> State:
    done = _UNDONE(state, undoing, body)
    again = undoing.current not in undoing.compensated and done.registered != state.registered
    return replace(done, registered=state.registered) if again else done


def _nothing(*args: Any) -> r.CompensationStarted:
    return replace(_BEGIN(*args), compensating=())


def _of_this_turn(state: State, *more: Any) -> State:
    return replace(_TURN_ENDED(state, *more), registered=())


def _never_released(state: State, body: r.CompensationsReleased) -> State:
    return replace(_RELEASED(state, body), registered=state.registered)


def _late_counts_for_nothing(one: Any, body: r.LateResultRecorded) -> Any:
    return _LATE(one, body) and None


def _goes_on(workflows: Any, position: Position, *more: Any) -> Advanced:
    """The workflow is asked for its next message all the same."""
    state = position.state
    if state.undoing is not None and state.queue and not state.activities:
        idle = replace(state, undoing=None, status=Status.SUSPENDED)
        position = replace(position, state=idle)
    return advance(workflows, position, *more)


def _for_nobody(
    self: OpenProposals, request: Any, voided: Any, because: Any, _whose: str, *undo: Any
) -> r.ApprovalRequested:
    return _FOR_WITHHELD(self, request, voided, because, "", *undo)


def _of_the_last_message(state: State) -> str:
    return state.message.actor if state.message is not None else ""


SAGA_MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        "takes the first effect back first",
        plant((compensating, "_request", _first_first)),
        seed=63,
    ),
    Mutant(
        "takes all effects back but one", plant((compensating, "following", _all_but_one)), seed=24
    ),
    Mutant("takes an effect back twice", plant((compensations, "_undone", _twice)), seed=24),
    Mutant(
        "ends before an effect is taken back",
        plant((compensating, "following", _without_waiting)),
        seed=24,
    ),
    Mutant("takes nothing back", plant((compensating, "begin", _nothing)), seed=24),
    Mutant(
        "takes back what never happened",
        plant((compensations, "_perhaps", lambda *_: True)),
        seed=102,
    ),
    Mutant(
        "takes back what may still happen",
        plant((compensating, "awaited_by", lambda _: [])),
        seed=609,
    ),
    Mutant(
        "forgets what an earlier turn did", plant((evolving, "_turn_ended", _of_this_turn)), seed=63
    ),
    Mutant(
        "takes back what was to stand", plant((compensations, "released", _never_released)), seed=76
    ),
    Mutant(
        "leaves what happened late",
        plant((compensations, "_late", _late_counts_for_nothing)),
        seed=50,
    ),
    Mutant("stops nothing", plant((deciding, "withdrawals", lambda *_: [])), seed=50),
    Mutant(
        "lets people approve what takes their own back",
        plant((OpenProposals, "for_withheld", _for_nobody)),
        seed=206,
    ),
    Mutant(
        "takes what is taken back for the last speaker's",
        plant((State, "requester", property(_of_the_last_message))),
        seed=4405,
    ),
    Mutant("begins a turn after the stop", plant((sessions, "advance", _goes_on)), seed=24),
)
