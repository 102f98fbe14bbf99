"""One tenant floods the commands: what others may expect then, and the mistakes that would break it."""

from __future__ import annotations

from collections.abc import Iterator

from ...events.headers import OVER_QUOTA, dead_letter_in
from ...processors.quotas import Name, Trial, Untold
from ...processors.rates import Rate
from ...processors.simulation.clients import FLOODED
from ...projections.audit import Evidence
from .planting import Mutant, plant

_wait_ms, _take = Trial.wait_ms, Trial.take


def others_are_let_in(evidence: Evidence) -> Iterator[str]:
    """Whoever asks little is never over quota, whatever somebody else sends in the same batch."""
    for record in evidence.dead_letters:
        letter = dead_letter_in(record.headers)
        if letter is not None and letter.reason == OVER_QUOTA and record.key != FLOODED:
            yield f"the command at {letter.offset} of {record.key!r} is over quota, and only {FLOODED!r} floods"


def _waits_for_all(self: Trial, name: Name, rate: Rate, now_ms: int) -> int:
    return _wait_ms(self, (name[0], None), rate, now_ms)


def _takes_from_all(self: Trial, name: Name, rate: Rate, now_ms: int) -> None:
    _take(self, (name[0], None), rate, now_ms)


def _tells_of_nothing(self: Trial) -> Iterator[Untold]:
    del self
    yield from ()


def _tells_of_one_less(self: Trial) -> Iterator[Untold]:
    for untold in self._untold.values():
        untold.count = max(1, untold.count - 1)
        yield untold


FLOOD_MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        "meters all tenants as one",
        plant((Trial, "wait_ms", _waits_for_all), (Trial, "take", _takes_from_all)),
        seed=136,
    ),
    Mutant("drops a flood silently", plant((Trial, "untold", _tells_of_nothing)), seed=11),
    Mutant("counts a flood short", plant((Trial, "untold", _tells_of_one_less)), seed=36),
)
