"""Each planted mistake dies, at the hands of a promise and not of the model; a mutant that lives is a blind spot.

One in three is planted here, all of them where WAKEFUL_MUTANTS is `all`, and by `make simulate`, which says as well that the
same seeds kill no engine without the mistake.
"""

import os

import pytest

from wakeful.deploy.simulation.__main__ import kill
from wakeful.deploy.simulation.mutants import MUTANTS
from wakeful.deploy.simulation.planting import Mutant

SEEDS_MAX = 100
"""Where the known seed does not kill it; `make simulate` looks further."""

CHOSEN = MUTANTS if os.environ.get("WAKEFUL_MUTANTS") == "all" else MUTANTS[::3]


@pytest.mark.slow
@pytest.mark.parametrize("mutant", CHOSEN, ids=[m.name.replace(" ", "-") for m in CHOSEN])
def test_a_planted_mistake_dies(mutant: Mutant) -> None:
    death = kill(mutant, SEEDS_MAX)
    assert death.seed is not None, f"{mutant.name} lives through {SEEDS_MAX} seeds"


def test_there_are_enough_of_them() -> None:
    assert len(MUTANTS) >= 12
    assert len({m.name for m in MUTANTS}) == len(MUTANTS)
