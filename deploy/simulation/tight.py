"""Bounds that only much work meets, and the mistakes of whoever forgets what lies beyond them."""

# ruff: noqa: SLF001 - a mistake goes where it would be made, and that is seldom public

from __future__ import annotations

from typing import Any
from unittest import mock

from ...processors.activities.settled import Settled
from ...processors.loop import Loop
from .planting import Mutant, plant

_BY_PARTITION = Loop._by_partition


def _goes_on_behind_it(self: Loop, group: Any, records: Any) -> Any:
    """What was over a batch's bytes is not read again."""
    with mock.patch.object(group, "seek"):
        return _BY_PARTITION(self, group, records)


TIGHT_MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        "leaves out what is over a batch's bytes",
        plant((Loop, "_by_partition", _goes_on_behind_it)),
        seed=22,
    ),
    Mutant(
        "takes a look-up for one of all tasks",
        plant((Settled, "answers_for", lambda *_: True)),
        seed=41,
    ),
)
