"""What activities are given stands in no record and no row; and the mistake that would put it there."""

from __future__ import annotations

from collections.abc import Iterator

from ...processors.activities.hidden import Hidden
from ...processors.simulation.tools import CANARY
from ...processors.simulation.workload import QUEUES
from ...processors.simulation.world import World
from .planting import Mutant, plant
from .projecting import Database


def nobody_tells(world: World, database: Database) -> Iterator[str]:
    """I29: not one topic has the secrets, whatever became of its records, nor has a table."""
    secret = CANARY.encode()
    for spec in world.topics.specs(QUEUES, world.plan.partitions):
        for record in world.log.dump(spec.name):
            told = (record.key, record.value, *(value for _, value in record.headers))
            if any(secret in part for part in told if part):
                yield f"{spec.name} {record.partition}/{record.offset} has a secret of an activity"
    if CANARY in repr(database.tables.rows):
        yield "the views have a secret of an activity"


SECRET_MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        "tells what a tool said word for word",
        plant((Hidden, "hide", lambda _, text: text)),
        seed=24,
    ),
)
