"""Planted mistakes about what sessions are found by: see `mutants.py`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from ...events import attributes as finding
from ...events import records as r
from ...processors.workflow import advance as advancing
from ...processors.workflow.advance import Position
from ...processors.workflow.asking import TurnContext
from ...projections import attributes as projecting
from .planting import Mutant, plant

_CONTEXT, _TERMS = advancing._context, finding.terms  # noqa: SLF001 - a mistake goes where it would be made


def _knows_what_comes(position: Position, facts: Any) -> TurnContext:
    """A replay is told the attributes that the session has by now."""
    return replace(_CONTEXT(position, facts), attributes=position.state.attributes)


def _one_at_a_time(
    attributes: Iterable[r.Attribute], of: Iterable[str]
) -> Iterator[tuple[str, str | None]]:
    """No pair is a term."""
    return (one for one in _TERMS(attributes, of) if "&" not in one[0])


def _forgets_nothing(
    attributes: Iterable[r.Attribute], of: Iterable[str]
) -> Iterator[tuple[str, str | None]]:
    """What is gone is found all the same."""
    return (one for one in _TERMS(attributes, of) if one[1] is not None)


ELSEWHERE_MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        "tells a replay what the session is found by now",
        plant((advancing, "_context", _knows_what_comes)),
        seed=31,
    ),
    Mutant("finds by one attribute alone", plant((projecting, "terms", _one_at_a_time)), seed=31),
    Mutant("finds by what was taken back", plant((projecting, "terms", _forgets_nothing)), seed=31),
)
