"""Each planted mistake dies, at the hands of a promise and not of the model; a mutant that lives is a blind spot.

That the same seeds kill no engine without the mistake is for `make simulate` to say.
"""

import pytest

from wakeful.deploy.simulation.__main__ import kill
from wakeful.deploy.simulation.mutants import MUTANTS
from wakeful.deploy.simulation.planting import Mutant

SEEDS_MAX = 100
"""Where the known seed does not kill it; `make simulate` looks further."""


@pytest.mark.slow
@pytest.mark.parametrize("mutant", MUTANTS, ids=[m.name.replace(" ", "-") for m in MUTANTS])
def test_a_planted_mistake_dies(mutant: Mutant) -> None:
    death = kill(mutant, SEEDS_MAX)
    assert death.seed is not None, f"{mutant.name} lives through {SEEDS_MAX} seeds"


def test_there_are_enough_of_them() -> None:
    assert len(MUTANTS) >= 12
    assert len({m.name for m in MUTANTS}) == len(MUTANTS)
